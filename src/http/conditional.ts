import { type Answer, empty } from './answer.ts'

/** The tags in If-Match or If-None-Match; undefined where there is no such header, or it accepts any state (`*`). */
export function tagsIn(header: string | undefined): readonly string[] | undefined {
  if (header === undefined || header.trim() === '*') return undefined
  return header.match(/(?:W\/)?"[^"]*"/g) ?? []
}

/** RFC 9110, 13.1.2: the client has this state already. */
export function isKnown(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  // To take a long list apart costs much.
  return ifNoneMatch.includes(tag) && (tagsIn(ifNoneMatch) ?? []).some((known) => known.replace(/^W\//, '') === tag)
}

export const notModified = (tag: string): Answer => empty(304, { etag: tag })
