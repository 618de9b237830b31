import { randomBytes } from 'node:crypto'
import { configFolder } from '../folder.ts'
import type { Mode } from '../token-config.ts'
import { type DevelopmentKey, developmentKey } from '../tokens/development.ts'
import type { Terms } from '../tokens/examine.ts'
import { type TokenConfig, trustsOf } from '../tokens/guard.ts'

interface TokenSettings {
  readonly mode: Mode
  readonly tokens: TokenConfig | undefined
  readonly clockTolerance: number
}

/** On which terms tokens are accepted: the same for the service and for whoever asks why it refuses one. */
export async function tokenTerms(
  { mode, tokens, clockTolerance }: TokenSettings,
  env: NodeJS.ProcessEnv,
  trouble: (what: string, cause: unknown) => void,
): Promise<{ terms: Terms; development: DevelopmentKey | undefined; notes: readonly string[] }> {
  const development = mode === 'development' ? await developmentKey(configFolder(env), randomBytes) : undefined
  const now = () => new Date()
  const failed = (cause: Error) => trouble('could not fetch the public keys', cause)
  const notes = [
    ...(development ? [development.isKept ? tokenHint : notKept(configFolder(env))] : []),
    ...(development || tokens ? [] : [noKey]),
  ]
  return {
    terms: { trusts: trustsOf(tokens, development, { ticks: () => performance.now(), failed }), now, clockTolerance },
    development,
    notes,
  }
}

const tokenHint = 'A token for /secret and for the description: npx todo-service token'
const noKey =
  'The protected endpoints answer 401 to everyone: no key is configured. Set TODO_JWT_KEY, --jwt-public-key or --jwt-jwks.'

export const notKept = (folder: string) =>
  `The development key cannot be kept in ${folder}: this run has one of its own, which no other run shares.`
