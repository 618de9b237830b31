import { tryParse } from '../common/json.ts'
import { spaceNamePattern } from '../common/schema.ts'
import { defaultSpace } from '../store/store.ts'
import type { RequestContext } from './context.ts'
import type { Claims, Space } from './request.ts'
import { empty, type Response } from './response.ts'

/** PostgreSQL allows 2,704 bytes for an index entry, which has the name of a space and the key of an item. */
const maxNameBytes = 2_000

/** Returns the name of the space of a caller: issuer and subject, which together identify a person. */
export function callerSpace({ iss, sub }: Claims): string | Response {
  if (typeof sub !== 'string' || sub === '') return forbidden('The token has no subject (sub)')
  const name = JSON.stringify([iss, sub])
  return Buffer.byteLength(name) > maxNameBytes ? forbidden('The subject of the token (sub) is too long') : name
}

/** Whether a path, a header or a token can name this space. */
export const isSpaceName = (name: string) => pathName.test(name) || isCallerSpace(name)
const pathName = new RegExp(spaceNamePattern)

/** Whether `callerSpace` can return this name. */
export function isCallerSpace(name: string): boolean {
  const parsed = tryParse(name)
  const [iss, sub] = Array.isArray(parsed) ? parsed : []
  return typeof iss === 'string' && callerSpace({ iss, sub }) === name
}

const forbidden = (reason: string): Response => ({
  ...empty(403, { 'www-authenticate': `Bearer error="insufficient_scope", error_description="${reason}"` }),
  reason,
})

/** Returns the space of a request: that of its caller on a to-do endpoint with a token, and else the default space. */
export const callerSpaceOf = ({ caller, route }: Pick<RequestContext, 'caller' | 'route'>) =>
  caller && route?.isSecurable ? callerSpace(caller) : defaultSpace

export const enterCallerSpace =
  (open: (name: string) => Space) =>
  (context: RequestContext): Response | undefined => {
    const name = callerSpaceOf(context)
    if (typeof name !== 'string') return name
    if (name !== defaultSpace) context.space = open(name)
    return undefined
  }
