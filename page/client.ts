import type { ProfileUrls } from '../src/common/profile-urls.ts'
import type { ServiceEvent } from '../src/control/schema.ts'

/** The base URL of the service, or of the space, that serves this page; with a slash at the end. */
export const base = new URL('..', import.meta.url)
/** `base` without the slash at the end. */
export const baseUrl = `${base}`.replace(/\/$/, '')
/** `base` without the prefix of the space. */
const mainBase = `${base}`.replace(/(?:~|%7e)[^/]*\/$/i, '')
/** Returns the URL of this page in another space. */
export const pageOf = (space: string, hash: string) =>
  `${mainBase}${space && `~${encodeURIComponent(space)}/`}app${hash}`

/** How many requests the journal of the service keeps. */
export const maxEntries = 1000

/** Returns the origin of a profile, with the host name in the address of this page. */
export function originOf({ urls }: ProfileUrls): string {
  const url = new URL(urls.find((candidate) => candidate.startsWith(location.protocol)) ?? urls[0] ?? base)
  url.hostname = location.hostname
  return url.origin
}

/** Local clients get a token from the service; other users enter one, which is kept for this tab. */
let token = sessionStorage.getItem('token') ?? ''
export const currentToken = () => token
export function useToken(value: string, isEntered: boolean): void {
  token = value
  if (isEntered) sessionStorage.setItem('token', value)
  else sessionStorage.removeItem('token')
}

/** Marks requests of this page, so that the views can tell them from those of clients. */
const ownHeaders = (): Record<string, string> => ({
  'x-todo-client': 'page',
  ...(token && { authorization: `Bearer ${token}` }),
})

/** The response to a request. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export const isSuccess = ({ status }: Answer) => status >= 200 && status < 300

/** Sends a request to a path relative to `base`. The status is 0 if the service does not respond. */
export async function send(
  method: string,
  path: string,
  body?: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  try {
    const response = await fetch(new URL(path.replace(/^\//, ''), base), {
      method,
      cache: 'no-store',
      headers: { ...ownHeaders(), ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body }),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  } catch {
    return { status: 0, headers: new Headers(), text: 'The service does not respond.' }
  }
}

export const admin = (method: string, path: string, body?: string, headers?: Readonly<Record<string, string>>) =>
  send(method, `__admin/${path}`, body, headers)

/** Reads a resource of the control API; returns undefined if the status is not 200. */
export async function read<T>(path: string): Promise<T | undefined> {
  const { status, text } = await admin('GET', path)
  return status === 200 ? JSON.parse(text) : undefined
}

/** Returns the message of a response that is not a success. */
export function messageOf({ status, text }: Answer): string {
  try {
    const { title, errors }: { title?: string; errors?: Record<string, string[]> } = JSON.parse(text)
    if (title) return [title, ...Object.values(errors ?? {}).flat()].join(' ')
  } catch {
    // The body is not a problem document, so its text is the message.
  }
  return text || `The service responds with the status ${status}.`
}

/** Parses JSON with integers as strings, because a number would round an int64. */
export const parseExact = (text: string): unknown =>
  JSON.parse(text.replace(/"(?:[^"\\]+|\\.)*"|-?\d+/g, (part) => (part.startsWith('"') ? part : `"${part}"`)))

/** After this time without data, longer than two heartbeats, the service has stopped or the machine slept. */
const silenceTimeoutMs = 40_000

/**
 * Receives server-sent events by fetch, because EventSource cannot send a token. Calls `onOpen`, then `onEvent`, until
 * the stream ends, is silent for too long or is aborted. Returns the status if the stream was refused, and otherwise 0.
 */
export async function readEvents(
  controller: AbortController,
  onOpen: () => unknown,
  onEvent: (event: ServiceEvent) => void,
): Promise<number> {
  const expectMore = () => setTimeout(() => controller.abort(), silenceTimeoutMs)
  let timer = expectMore()
  try {
    const response = await fetch(new URL('__admin/events', base), {
      cache: 'no-store',
      headers: ownHeaders(),
      signal: controller.signal,
    })
    if (!response.ok || !response.body) return response.status
    onOpen()
    const decoder = new TextDecoder()
    const reader = response.body.getReader()
    let rest = ''
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return 0
      clearTimeout(timer)
      timer = expectMore()
      const messages = (rest + decoder.decode(value, { stream: true })).split('\n\n')
      rest = messages.pop() ?? ''
      for (const message of messages) {
        const fields: Partial<Record<string, string>> = Object.fromEntries(
          message.split('\n').map((line) => line.split(/: (.*)/s, 2)),
        )
        const { id, event, data = '{}' } = fields
        if (event) onEvent({ id: Number(id), event, data: JSON.parse(data) } as ServiceEvent)
      }
    }
  } catch {
    return 0
  } finally {
    clearTimeout(timer)
  }
}
