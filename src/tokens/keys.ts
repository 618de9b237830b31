import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import type { TrustedKey } from './trust.ts'

/** Public keys from the text of a PEM or JWKS file; undefined where it holds none that can be used. */
export function publicKeys(text: string): readonly TrustedKey[] | undefined {
  const keys = text.trimStart().startsWith('{') ? jwksKeys(text) : pemKeys(text)
  return keys.length > 0 ? keys : undefined
}

function pemKeys(text: string): TrustedKey[] {
  const blocks = text.match(/-----BEGIN (PUBLIC KEY|RSA PUBLIC KEY|CERTIFICATE)-----[^-]+-----END \1-----/g) ?? []
  return blocks.flatMap((pem) => trusted(() => createPublicKey(pem)))
}

interface Jwk extends JsonWebKey {
  readonly kid?: unknown
  readonly alg?: unknown
  readonly use?: unknown
  readonly key_ops?: unknown
}

/** The public signature keys of a JWKS document; what it holds besides them is passed over. */
export function jwksKeys(text: string): TrustedKey[] {
  const keys: unknown = parse(text)?.keys
  if (!Array.isArray(keys)) return []
  return (keys as readonly Jwk[]).flatMap((jwk) => {
    if (!isSignatureKey(jwk)) return []
    const kid = typeof jwk.kid === 'string' ? jwk.kid : undefined
    return trusted(() => createPublicKey({ key: jwk, format: 'jwk' }), kid, jwk.alg)
  })
}

/** A key for encryption is none of ours, and a private key is nobody's to hand out. */
function isSignatureKey(jwk: Jwk): boolean {
  if (typeof jwk !== 'object' || jwk === null || 'd' in jwk) return false
  const { use = 'sig', key_ops: operations = ['verify'] } = jwk
  return use === 'sig' && Array.isArray(operations) && operations.includes('verify')
}

function parse(text: string): { keys?: unknown } | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function trusted(read: () => KeyObject, kid?: string, alg?: unknown): TrustedKey[] {
  try {
    const key = read()
    const algorithms = algorithmsOf(key).filter((algorithm) => alg === undefined || alg === algorithm)
    return algorithms.length > 0 ? [{ kid, algorithms, key }] : []
  } catch {
    return []
  }
}

/** The key alone decides which algorithms are accepted. */
function algorithmsOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): readonly string[] {
  switch (asymmetricKeyType) {
    case 'rsa':
      return (asymmetricKeyDetails?.modulusLength ?? 0) >= 2048 ? ['RS256', 'PS256'] : []
    case 'ec':
      return asymmetricKeyDetails?.namedCurve === 'prime256v1' ? ['ES256'] : []
    case 'ed25519':
      return ['EdDSA']
    default:
      return []
  }
}
