import { type DevelopmentKey, developmentTrust, secretKey, sharedKeyTrust } from './development.ts'
import { examine, isAccepted, type Terms } from './examine.ts'
import { type RemoteKeys, remoteKeys } from './remote.ts'
import type { Claims } from './token.ts'
import type { Trust, TrustedKey } from './trust.ts'

/** Whose tokens are accepted, as the operator says. */
export interface TokenConfig {
  readonly keys: { readonly shared: string } | { readonly publicKeys: readonly TrustedKey[] } | { readonly url: string }
  readonly issuers: readonly string[]
  readonly audiences: readonly string[]
}

/** The operator's keys, and in development the development key beside them. */
export function trustsOf(
  tokens: TokenConfig | undefined,
  development: DevelopmentKey | undefined,
  remote: Omit<RemoteKeys, 'url'>,
): Trust[] {
  return [...(development ? [developmentTrust(development)] : []), ...(tokens ? [configured(tokens, remote)] : [])]
}

function configured({ keys, issuers, audiences }: TokenConfig, remote: Omit<RemoteKeys, 'url'>): Trust {
  const name = 'configured key'
  if ('shared' in keys) return sharedKeyTrust(name, secretKey(keys.shared), issuers, audiences)
  const find = 'url' in keys ? remoteKeys({ ...remote, url: keys.url }) : async () => keys.publicKeys
  return { name, keys: find, issuers, audiences }
}

/** Decides on a token: who its bearer is, or what is wrong with it. */
export const guardOf = (terms: Terms) => async (text: string) => {
  const examination = await examine(text, terms)
  if (isAccepted(examination)) return { caller: examination.token?.claims as Claims }
  const wrong = examination.findings.filter(({ ok }) => !ok)
  return { description: wrong[0]?.description ?? '', reason: wrong.map(({ words }) => words).join('; ') }
}
