import { createPublicKey, createSecretKey, type JsonWebKey, type JsonWebKeyInput, type KeyObject } from 'node:crypto'
import { attempt } from '../common/attempt.ts'
import { escapeText } from '../common/escape.ts'
import { tryParse } from '../common/json.ts'

export interface VerificationKey {
  readonly kid: string | undefined
  /** The algorithms follow from the key alone; the `alg` of a token never adds one. */
  readonly algorithms: readonly string[]
  readonly key: KeyObject
}

type PublicKeys = {
  readonly keys: readonly VerificationKey[]
  /** Describes each RSA key that is not used because it is too weak, and why. */
  readonly weakKeys: readonly string[]
}

export const hmacKey = (key: KeyObject): VerificationKey => ({ kid: undefined, algorithms: ['HS256'], key })

/** Parses a key of at least 32 bytes (RFC 7518, 3.2) in base64, also as printed by `dotnet user-jwts key`: … '…'. */
export function parseSharedKey(text: string): readonly VerificationKey[] | undefined {
  const [, base64 = text] = /^[^']*'([^']+)'\s*$/.exec(text) ?? []
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return undefined
  const bytes = Buffer.from(base64, 'base64')
  return bytes.length >= 32 ? [hmacKey(createSecretKey(bytes))] : undefined
}

/** Parses the public keys of a PEM or JWKS file; returns undefined if there are none. */
export function parsePublicKeys(text: string): PublicKeys | undefined {
  const parsed = text.trimStart().startsWith('{') ? parseJwks(text) : parsePem(text)
  return parsed.keys.length > 0 || parsed.weakKeys.length > 0 ? parsed : undefined
}

function parsePem(text: string): PublicKeys {
  const blocks = text.match(/-----BEGIN (PUBLIC KEY|RSA PUBLIC KEY|CERTIFICATE)-----[^-]+-----END \1-----/g) ?? []
  return separateWeakKeys(blocks.map((pem) => importKey(pem)))
}

interface Jwk extends JsonWebKey {
  readonly kid?: unknown
  readonly alg?: unknown
  readonly use?: unknown
  readonly key_ops?: unknown
}

/** Parses the public signature keys of a JWKS document, and ignores other keys. */
export function parseJwks(text: string): PublicKeys {
  const { keys: jwks } = Object(tryParse(text))
  if (!Array.isArray(jwks)) return { keys: [], weakKeys: [] }
  return separateWeakKeys(
    jwks.map((jwk) => {
      if (!isPublicSignatureKey(jwk)) return undefined
      const kid = typeof jwk.kid === 'string' ? jwk.kid : undefined
      return importKey({ key: jwk, format: 'jwk' }, kid, jwk.alg)
    }),
  )
}

/** Rejects private keys (with `d`): a signature by a published private key proves nothing. */
function isPublicSignatureKey(jwk: unknown): jwk is Jwk {
  if (typeof jwk !== 'object' || jwk === null || 'd' in jwk) return false
  const { use = 'sig', key_ops: operations = ['verify'] } = jwk as Jwk
  return use === 'sig' && Array.isArray(operations) && operations.includes('verify')
}

/** Returns undefined for a key that cannot verify signatures with a supported algorithm. */
function importKey(input: string | JsonWebKeyInput, kid?: string, alg?: unknown): VerificationKey | undefined {
  const key = attempt(() => createPublicKey(input), undefined)
  const algorithms = key ? algorithmsOf(key).filter((algorithm) => alg === undefined || alg === algorithm) : []
  return key && algorithms.length > 0 ? { kid, algorithms, key } : undefined
}

const algorithmsByType: Readonly<Record<string, readonly string[]>> = {
  rsa: ['RS256', 'PS256'],
  ec: ['ES256'],
  ed25519: ['EdDSA'],
}

function algorithmsOf({ asymmetricKeyType: type, asymmetricKeyDetails }: KeyObject): readonly string[] {
  if (type === 'ec' && asymmetricKeyDetails?.namedCurve !== 'prime256v1') return []
  return algorithmsByType[`${type}`] ?? []
}

/** All algorithms for which a public key can be configured. */
export const publicKeyAlgorithms: readonly string[] = Object.values(algorithmsByType).flat()

/** Separates weak keys. Messages number them as in the file, where unusable keys count, too. */
function separateWeakKeys(imported: readonly (VerificationKey | undefined)[]): PublicKeys {
  const keys: VerificationKey[] = []
  const weakKeys: string[] = []
  for (const [index, key] of imported.entries()) {
    const weakness = key && findWeakness(key.key)
    if (weakness) weakKeys.push(`RSA key ${index + 1}${formatKid(key.kid)} has ${weakness}`)
    else if (key) keys.push(key)
  }
  return { keys, weakKeys }
}

/** RFC 7518, 3.3, requires 2,048 bits, and RFC 8017, 3.1, an exponent of at least 3: with 1, anyone could sign. */
function findWeakness({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  if (asymmetricKeyType !== 'rsa') return undefined
  const { modulusLength = 0, publicExponent = 0n } = asymmetricKeyDetails ?? {}
  if (modulusLength < 2048) return `a modulus of ${modulusLength} bits, not at least 2048`
  if (publicExponent < 3n || publicExponent % 2n === 0n)
    return 'a public exponent that is not an odd number of at least 3'
  return undefined
}

/** Shortens and escapes a `kid` for a message: another server has chosen it. */
const formatKid = (kid: string | undefined) =>
  kid === undefined ? '' : ` (kid ${escapeText(JSON.stringify(kid.slice(0, 100)))})`
