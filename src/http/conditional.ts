import { Rejection } from './errors.ts'
import type { HandlerInput } from './request.ts'
import { empty, jsonType, noContent, type Response } from './response.ts'

/** The entity tags in If-Match; undefined where there is no such header, it is empty, or `*` matches any. */
export function ifMatch({ request }: Pick<HandlerInput<unknown, unknown>, 'request'>): readonly string[] | undefined {
  const header = request.header('if-match')?.trim()
  // Clients that NSwag generates send an empty one where no entity tag is given.
  return header === undefined || header === '' || header === '*' ? undefined : entityTags(header)
}

const entityTags = (header: string) => header.match(/(?:W\/)?"[^"]*"/g) ?? []

/** The representation; 412 or 304 where If-Match or If-None-Match says so (RFC 9110, 13.1.1 and 13.1.2). */
export function respondWith(
  input: Pick<HandlerInput<unknown, unknown>, 'request'>,
  { json, etag }: { readonly json: string | readonly Buffer[]; readonly etag: string },
): Response | Rejection {
  const { request } = input
  if (request.header('if-match') !== undefined && ifMatch(input)?.includes(etag) === false)
    return new Rejection('precondition-failed')
  const ifNoneMatch = request.header('if-none-match')
  if (ifNoneMatch !== undefined && matchesEtag(ifNoneMatch, etag)) return empty(304, { etag })
  return { status: 200, headers: { 'content-type': jsonType, etag }, body: json }
}

/**
 * To a PUT. It has the entity tag only where what was sent is the new representation (RFC 9110, 9.3.4), in whatever form
 * JSON can have: a client that keeps what it has sent then has the state of this entity tag.
 */
export const respondToPut = (
  { hasAllMembers }: Pick<HandlerInput<unknown, unknown>, 'hasAllMembers'>,
  { etag }: { readonly etag: string },
): Response => (hasAllMembers ? empty(204, { etag }) : noContent)

/** Weak comparison. Looks for the text first: taking a long list apart is costly. */
export const matchesEtag = (ifNoneMatch: string, etag: string) =>
  ifNoneMatch.trim() === '*' ||
  (ifNoneMatch.includes(etag) && entityTags(ifNoneMatch).some((tag) => tag.replace(/^W\//, '') === etag))
