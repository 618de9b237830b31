import { createHmac, randomBytes } from 'node:crypto'

const key = randomBytes(32)
export const issuers = ['https://one.example', 'https://two.example'] as const
/** A service with this environment trusts the tokens of `tokenWith`. */
export const env = { TODO_JWT_KEY: key.toString('base64'), TODO_JWT_ISSUER: `${issuers}`, TODO_JWT_AUDIENCE: 'todo' }

/** A token of an issuer that the service trusts, with these claims. */
export function tokenWith(claims: object): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const exp = Math.floor(Date.now() / 1000) + 3600
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ iss: issuers[0], aud: 'todo', exp, ...claims })}`
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`
}
