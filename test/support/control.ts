import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { configDirectory } from '../../src/config-directory.ts'
import type { JournalEntry } from '../../src/control/schema.ts'
import { devTokenDefaults, readOrCreateDevKey } from '../../src/tokens/dev-key.ts'
import { signToken } from '../../src/tokens/sign.ts'
import type { Client, Response } from '../../src/verify/engine/client.ts'
import { cleanUp } from './cleanup.ts'
import type { Service } from './cli.ts'
import { createClient } from './client.ts'
import { RawConnection } from './raw.ts'

export const itemsPath = '/api/todoitems'
export const numbered = (name: string) => ({ name, isComplete: false })
export const named = (id: string) => ({ id, name: `name of ${id}`, notes: 'notes', done: false })

let spaces = 0

/** The space of a shared service that no other test uses. */
export const newSpace = ({ url }: Pick<Service, 'url'>): Client => createClient(`${url}/~test-${++spaces}`)

export const problemOf = ({ text }: Pick<Response, 'text'>): { title: string; errors?: Record<string, string[]> } =>
  JSON.parse(text)

export async function journalOf(client: Client, query = ''): Promise<JournalEntry[]> {
  const { status, text } = await client.send('GET', `/__admin/requests${query}`)
  assert.equal(status, 200, text)
  return JSON.parse(text)
}

export async function putFaults(client: Client, ...rules: object[]): Promise<void> {
  const { status, text } = await client.send('PUT', '/__admin/faults', rules)
  assert.equal(status, 204, text)
}

/** Sends so many requests, twenty at a time. */
export async function repeat(count: number, send: (index: number) => Promise<unknown>): Promise<void> {
  let index = 0
  const worker = async () => {
    while (index < count) await send(index++)
  }
  await Promise.all(Array.from({ length: 20 }, worker))
}

/** Sends the head of a request, and its body, over a connection of its own. */
export function sendRaw(t: TestContext, client: Client, method: string, headers: string, body = '', path = itemsPath) {
  const raw = new RawConnection(t, Number(new URL(client.url).port))
  const content = body && `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  const target = `${new URL(client.url).pathname.replace(/\/$/, '')}${path}`
  raw.socket.write(`${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n${content}\r\n${body}`)
  return raw
}

/** The token that the documentation page contains for a client on this machine. */
export async function developmentToken({ url }: Pick<Service, 'url'>): Promise<string> {
  const { text } = await createClient(url).send('GET', '/swagger/index.html')
  const [, token = ''] = /name="development-token" content="([^"]+)"/.exec(text) ?? []
  assert.notEqual(token, '')
  return token
}

/** A token for the control API of a service that has this directory for its configuration. */
export async function controlToken(XDG_CONFIG_HOME: string, validForSeconds = 600): Promise<string> {
  const { key } = await readOrCreateDevKey(configDirectory({ XDG_CONFIG_HOME }), randomBytes)
  const request = { ...devTokenDefaults, id: 'x', name: 'ada', scopes: ['control'], validForSeconds }
  return (await signToken(request, key, new Date())).token
}

export interface ServerEvent {
  readonly id: number
  readonly event: string
  readonly data: Partial<JournalEntry> & { readonly change?: string }
}

const eventTimeoutMs = 60_000

/** An open stream of server-sent events; closed when the test ends. */
export class EventStream {
  readonly headers: Headers
  readonly #abort: AbortController
  readonly #events: AsyncGenerator<ServerEvent>

  private constructor(response: globalThis.Response, abort: AbortController) {
    this.headers = response.headers
    this.#abort = abort
    // Locked from the beginning: a body that nobody reads is cancelled when its response is collected as garbage.
    this.#events = parseEvents((response.body as ReadableStream<Uint8Array>).values())
  }

  static async open(t: TestContext, { url }: Pick<Client, 'url'>, headers: Record<string, string> = {}) {
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(), eventTimeoutMs)
    cleanUp(t, () => {
      clearTimeout(timer)
      abort.abort()
    })
    const response = await fetch(`${url}/__admin/events`, { headers, signal: abort.signal })
    assert.equal(response.status, 200)
    return new EventStream(response, abort)
  }

  async next(): Promise<ServerEvent> {
    const { value, done } = await this.#events.next()
    assert.ok(!done, 'the stream has ended')
    return value
  }

  /** The next events, until one is about this path. */
  async until(path: string): Promise<ServerEvent[]> {
    const events: ServerEvent[] = []
    while (events.at(-1)?.data.path !== path) events.push(await this.next())
    return events
  }

  /** What follows until the server ends the stream. */
  async rest(): Promise<ServerEvent[]> {
    const events: ServerEvent[] = []
    for await (const event of this.#events) events.push(event)
    return events
  }

  close(): void {
    this.#abort.abort()
  }
}

async function* parseEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  let received = ''
  for await (const bytes of body) {
    received += decoder.decode(bytes, { stream: true })
    const blocks = received.split('\n\n')
    received = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = new Map(block.split('\n').map((line) => line.split(/: (.*)/s) as [string, string]))
      const [id, event = '', data = ''] = ['id', 'event', 'data'].map((name) => fields.get(name))
      if (id !== undefined) yield { id: Number(id), event, data: JSON.parse(data) }
    }
  }
}
