import type { Contender } from './contender.ts'
import { type Loaded, load } from './load.ts'
import { hasWrk, loadWithWrk } from './wrk.ts'

/** What a contender holds by now: items with the ids first … last. */
export interface Held {
  first: number
  last: number
}

/** One kind of request, and how a slice of so many of them is sent. */
export interface Work {
  readonly name: string
  readonly profile: 'a' | 'b'
  /** How many items there are. */
  readonly items: number
  readonly requests: number
  /** Before and after each slice, not measured. */
  prepare?(contender: Contender, held: Held, requests: number): Promise<void>
  cleanUp?(contender: Contender, held: Held, requests: number): Promise<void>
  next(contender: Contender, held: Held): () => Buffer
  /** Headers of a GET of the list, where the work is that one request over and over. */
  same?(): readonly string[]
}

const connections = 16

function request(method: string, path: string, body?: string, headers = ''): Buffer {
  const ofBody = body === undefined ? '' : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  return Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: localhost:5080\r\n${headers}${ofBody}\r\n${body ?? ''}`)
}

const pad = (id: number) => `item-${`${id}`.padStart(8, '0')}`
const bodies = {
  a: (id: number) => `{"id":${id},"name":"walk the dog ${id}","isComplete":false}`,
  b: (id: number) => `{"id":"${pad(id)}","name":"walk the dog","notes":"twice a day","done":false}`,
}
const idOf = { a: (id: number) => `${id}`, b: pad }

/** Ids in turn, over and over. */
function inTurn({ first, last }: Held): () => number {
  let at = first - 1
  return () => (at = at >= last ? first : at + 1)
}

const post = (profile: 'a' | 'b') => (contender: Contender, held: Held) => () =>
  request('POST', contender.items, bodies[profile](++held.last))

const remove = (profile: 'a' | 'b') => (contender: Contender, held: Held) => () =>
  request('DELETE', `${contender.items}/${idOf[profile](held.first++)}`)

const put = (profile: 'a' | 'b') => (contender: Contender, held: Held) => {
  const next = inTurn(held)
  return () => {
    const id = next()
    const path = profile === 'a' ? `${contender.items}/${id}` : contender.items
    return request('PUT', path, bodies[profile](id))
  }
}

/** All answers must be of this kind. */
async function mustSucceed(loaded: Promise<Loaded>, what: string): Promise<Loaded> {
  const { statuses, ...rest } = await loaded
  const wrong = Object.keys(statuses).filter((status) => !/^(?:2..|304)$/.test(status))
  if (wrong.length > 0) throw new Error(`${what}: answers ${JSON.stringify(statuses)}`)
  return { statuses, ...rest }
}

/** Sends a slice of the work. */
export function send(work: Work, contender: Contender, held: Held, requests: number): Promise<Loaded> {
  const { port, name, items } = contender
  const loaded =
    hasWrk && work.same
      ? loadWithWrk(`http://127.0.0.1:${port}${items}`, connections, work.same())
      : load({ port, connections, requests, next: work.next(contender, held) })
  return mustSucceed(loaded, `${work.name} to ${name}`)
}

export async function fill(profile: 'a' | 'b', contender: Contender, held: Held, count: number): Promise<void> {
  const { port, name } = contender
  const next = post(profile)(contender, held)
  if (count > 0) await mustSucceed(load({ port, connections, requests: count, next }), `filling ${name}`)
}

async function empty(profile: 'a' | 'b', contender: Contender, held: Held, count: number): Promise<void> {
  const { port, name } = contender
  const next = remove(profile)(contender, held)
  await mustSucceed(load({ port, connections, requests: count, next }), `emptying ${name}`)
}

/** The single-item operations; the number of items is the same before and after each slice. */
export const singles = (profile: 'a' | 'b', items: number, requests: number): Work[] => [
  ...(profile === 'a'
    ? [
        {
          name: 'GET item',
          profile,
          items,
          requests,
          next: (contender: Contender, held: Held) => {
            const next = inTurn(held)
            return () => request('GET', `${contender.items}/${next()}`)
          },
        },
      ]
    : []),
  {
    name: 'POST',
    profile,
    items,
    requests,
    next: post(profile),
    cleanUp: (contender, held, count) => empty(profile, contender, held, count),
  },
  { name: 'PUT', profile, items, requests, next: put(profile) },
  {
    name: 'DELETE',
    profile,
    items,
    requests,
    prepare: (contender, held, count) => fill(profile, contender, held, count),
    next: remove(profile),
  },
]

const count = (items: number) => items.toLocaleString('en-US')

export const list = (profile: 'a' | 'b', items: number, requests: number): Work => ({
  name: `list of ${count(items)}`,
  profile,
  items,
  requests,
  next: (contender) => () => request('GET', contender.items),
  same: () => [],
})

/** One write for ten reads. */
export const changingList = (items: number, requests: number): Work => ({
  name: `list of ${count(items)}, a write per ten reads`,
  profile: 'a',
  items,
  requests,
  next: (contender, held) => {
    const write = put('a')(contender, held)
    let at = 0
    return () => (++at % 11 === 0 ? write() : request('GET', contender.items))
  },
})

/** A client that has the list and asks whether it changed. */
export const unchangedList = (items: number, requests: number): Work => {
  let tag: string | undefined
  return {
    name: `unchanged list of ${count(items)} (If-None-Match)`,
    profile: 'a',
    items,
    requests,
    async prepare({ port, items: path }) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`)
      await answer.text()
      tag = answer.headers.get('etag') ?? '"none"'
    },
    next: (contender) => () => request('GET', contender.items, undefined, `If-None-Match: ${tag}\r\n`),
    same: () => [`If-None-Match: ${tag}`],
  }
}
