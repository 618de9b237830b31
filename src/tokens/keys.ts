import { createPublicKey, createSecretKey, type JsonWebKey, type KeyObject } from 'node:crypto'

export interface VerificationKey {
  readonly kid: string | undefined
  /** Derived from the key alone; a token's `alg` never extends them. */
  readonly algorithms: readonly string[]
  readonly key: KeyObject
}

export const hmacKey = (key: KeyObject): VerificationKey => ({ kid: undefined, algorithms: ['HS256'], key })

/** A key of at least 32 bytes (RFC 7518, 3.2) in base64. */
export function parseSharedKey(base64: string): readonly VerificationKey[] | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return undefined
  const bytes = Buffer.from(base64, 'base64')
  return bytes.length >= 32 ? [hmacKey(createSecretKey(bytes))] : undefined
}

/** The usable public keys of a PEM or JWKS file; undefined if there are none. */
export function parsePublicKeys(text: string): readonly VerificationKey[] | undefined {
  const keys = text.trimStart().startsWith('{') ? parseJwks(text) : parsePem(text)
  return keys.length > 0 ? keys : undefined
}

function parsePem(text: string): VerificationKey[] {
  const blocks = text.match(/-----BEGIN (PUBLIC KEY|RSA PUBLIC KEY|CERTIFICATE)-----[^-]+-----END \1-----/g) ?? []
  return blocks.flatMap((pem) => importKey(() => createPublicKey(pem)))
}

interface Jwk extends JsonWebKey {
  readonly kid?: unknown
  readonly alg?: unknown
  readonly use?: unknown
  readonly key_ops?: unknown
}

/** The public signature keys of a JWKS document; other keys are ignored. */
export function parseJwks(text: string): VerificationKey[] {
  const keys: unknown = parseJson(text)?.keys
  if (!Array.isArray(keys)) return []
  return keys.filter(isPublicSignatureKey).flatMap((jwk) => {
    const kid = typeof jwk.kid === 'string' ? jwk.kid : undefined
    return importKey(() => createPublicKey({ key: jwk, format: 'jwk' }), kid, jwk.alg)
  })
}

function parseJson(text: string): { keys?: unknown } | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Private keys (`d`) are rejected: a published private key cannot prove who signed. */
function isPublicSignatureKey(jwk: unknown): jwk is Jwk {
  if (typeof jwk !== 'object' || jwk === null || 'd' in jwk) return false
  const { use = 'sig', key_ops: operations = ['verify'] } = jwk as Jwk
  return use === 'sig' && Array.isArray(operations) && operations.includes('verify')
}

function importKey(create: () => KeyObject, kid?: string, alg?: unknown): VerificationKey[] {
  try {
    const key = create()
    const algorithms = algorithmsOf(key).filter((algorithm) => alg === undefined || alg === algorithm)
    return algorithms.length > 0 ? [{ kid, algorithms, key }] : []
  } catch {
    return []
  }
}

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
