import type { ProfileUrls } from '../src/common/profile-urls.ts'
import type { ServiceEvent } from '../src/control/schema.ts'

/** The service, or the space, that serves this page; with a slash at the end. */
export const base = new URL('..', import.meta.url)
/** The same without the slash. */
export const baseUrl = `${base}`.replace(/\/$/, '')
/** The same without the space. */
const mainBase = `${base}`.replace(/(?:~|%7e)[^/]*\/$/i, '')
/** This page of a space. */
export const pageOf = (space: string, hash: string) =>
  `${mainBase}${space && `~${encodeURIComponent(space)}/`}app${hash}`

/** So many requests the service remembers. */
export const maxEntries = 1000

/** Where a profile is, at the host by which this page was reached. */
export function originOf({ urls }: ProfileUrls): string {
  const url = new URL(urls.find((one) => one.startsWith(location.protocol)) ?? urls[0] ?? base)
  url.hostname = location.hostname
  return url.origin
}

/** Local clients get one from the service; others enter one, which is kept for this tab. */
let token = sessionStorage.getItem('token') ?? ''
export const currentToken = () => token
export function useToken(value: string, isEntered: boolean): void {
  token = value
  if (isEntered) sessionStorage.setItem('token', value)
  else sessionStorage.removeItem('token')
}

/** The service does not count these requests among those of the clients that somebody watches. */
const ownHeaders = (): Record<string, string> => ({
  'x-todo-client': 'page',
  ...(token && { authorization: `Bearer ${token}` }),
})

/** What came back for a request. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export const isSuccess = ({ status }: Answer) => status >= 200 && status < 300

/** Sends a request to this service, relative to `base`. A service that does not respond has the status 0. */
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

/** What the control API has there; undefined where it does not say. */
export async function read<T>(path: string): Promise<T | undefined> {
  const { status, text } = await admin('GET', path)
  return status === 200 ? JSON.parse(text) : undefined
}

/** The message of a response that is no success. */
export function messageOf({ status, text }: Answer): string {
  try {
    const { title, errors }: { title?: string; errors?: Record<string, string[]> } = JSON.parse(text)
    if (title) return [title, ...Object.values(errors ?? {}).flat()].join(' ')
  } catch {
    // No problem document: the text says it.
  }
  return text || `The service responds with the status ${status}.`
}

/** JSON with integers as strings: int64 ids have more digits than a number keeps. */
export const parseExact = (text: string): unknown =>
  JSON.parse(text.replace(/"(?:[^"\\]+|\\.)*"|-?\d+/g, (part) => (part.startsWith('"') ? part : `"${part}"`)))

/** Longer than two heartbeats of the service: it is away, or the machine slept. */
const silenceTimeoutMs = 40_000

/**
 * Server-sent events, by fetch: EventSource cannot send a token. Calls `onOpen`, then `onEvent`, until the stream ends, is silent
 * or is aborted.
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
