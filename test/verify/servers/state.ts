import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { DraftA, ItemA, ItemB, JsonObject, ReferenceOptions, Request } from './reference.ts'
import { empty, json, ReferenceA, ReferenceB } from './reference.ts'
import type { FaultyServer } from './types.ts'

type Breaks = FaultyServer['breaks']
type Kind = new (options: ReferenceOptions) => ReferenceA | ReferenceB

const faulty =
  (profile: 'a' | 'b') =>
  (id: string, rule: string, breaks: Breaks, fault: string, Server: Kind): FaultyServer => ({
    id: `${profile}-${id}`,
    profile,
    rule,
    kind: 'state',
    breaks,
    fault,
    create: (options) => new Server(options).create(),
  })
const a = faulty('a')
const b = faulty('b')

/** Lists and numbers well although ids do not come in order. */
class UnorderedA extends ReferenceA {
  override list() {
    return super.list().sort((one, other) => (one.id < other.id ? -1 : 1))
  }

  override nextId() {
    let id = super.nextId()
    while (this.items.has(id)) id = super.nextId()
    return id
  }
}

/** Remembers what was deleted. */
class SoftDeleteA extends ReferenceA {
  readonly gone = new Set<bigint>()

  override remove(id: bigint) {
    if (this.items.has(id)) this.gone.add(id)
    return super.remove(id)
  }
}

class SoftDeleteB extends ReferenceB {
  readonly gone = new Map<string, ItemB>()

  override remove(id: string) {
    const item = this.items.get(id)
    if (item !== undefined) this.gone.set(id, item)
    return super.remove(id)
  }
}

const listCutA = (size: number) =>
  a(
    `list-cut-at-${size}`,
    'A1',
    'specified',
    `The list holds the first ${size} items only.`,
    class extends ReferenceA {
      override list() {
        return super.list().slice(0, size)
      }
    },
  )

const listCutB = (size: number) =>
  b(
    `list-cut-at-${size}`,
    'B1',
    'specified',
    `The list holds the first ${size} items only.`,
    class extends ReferenceB {
      override list() {
        return super.list().slice(0, size)
      }
    },
  )

const like = (pattern: string) => {
  const literal = pattern.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return new RegExp(`^${literal.replaceAll('%', '.*').replaceAll('_', '.')}$`, 'su')
}

const withoutAccents = (value: string) => value.normalize('NFD').replace(/\p{M}/gu, '')

const same = (one: ItemB | undefined, other: ItemB) =>
  one?.name === other.name && one.notes === other.notes && one.done === other.done

const faultsA: readonly FaultyServer[] = [
  // Updates
  a(
    'put-same-name-ignored',
    'A7',
    'specified',
    'A PUT that keeps the name changes nothing: isComplete alone is not seen as a change.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return this.items.get(id)?.name === draft.name || super.replace(id, draft)
      }
    },
  ),
  a(
    'put-false-ignored',
    'A7',
    'specified',
    'PUT never sets isComplete back to false.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, { ...draft, isComplete: draft.isComplete || this.items.get(id)?.isComplete === true })
      }
    },
  ),
  a(
    'put-null-name-ignored',
    'A7',
    'specified',
    'A null name in a PUT leaves the stored name.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, { ...draft, name: draft.name ?? this.items.get(id)?.name ?? null })
      }
    },
  ),
  a(
    'put-absent-name-kept',
    'A7',
    'choice',
    'A PUT without name leaves the stored name.',
    class extends ReferenceA {
      override readValid(request: Request) {
        const body = super.readValid(request)
        if (!body.ok || request.method !== 'PUT' || 'name' in body.value) return body
        const name = this.items.get(this.pathId(request) ?? 0n)?.name ?? null
        return { ok: true, value: { ...body.value, name } } as const
      }
    },
  ),
  a(
    'put-unchanged-404',
    'A8',
    'specified',
    'A PUT with the values the item has is answered 404 (no row affected).',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        const item = this.items.get(id)
        return !(item?.name === draft.name && item.isComplete === draft.isComplete) && super.replace(id, draft)
      }
    },
  ),
  a(
    'put-changes-namesakes',
    'A7',
    'specified',
    'PUT changes every item that had the same name.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        const old = this.items.get(id)
        for (const item of this.list()) if (item.name === old?.name) super.replace(item.id, draft)
        return old !== undefined
      }
    },
  ),
  a(
    'put-missing-inserts',
    'A8',
    'specified',
    'A PUT answered 404 creates the item.',
    class extends UnorderedA {
      override replace(id: bigint, draft: DraftA) {
        if (super.replace(id, draft)) return true
        this.items.set(id, { ...draft, id, secret: null })
        return false
      }
    },
  ),
  a(
    'put-differing-ids-changes',
    'A8',
    'specified',
    'A PUT refused with 400 because the ids differ has changed the item of the path.',
    class extends ReferenceA {
      override async putItem(request: Request) {
        const id = this.pathId(request)
        const body = this.readValid(request)
        if (id !== undefined && body.ok) this.replace(id, this.toDraft(body.value))
        return super.putItem(request)
      }
    },
  ),
  a(
    'put-refused-changes-name',
    'A6',
    'specified',
    'A PUT refused for want of isComplete has changed the name.',
    class extends ReferenceA {
      override async putItem(request: Request) {
        const item = this.items.get(this.pathId(request) ?? 0n)
        const body = this.readObject(request)
        if (item !== undefined && body.ok && body.value.id === item.id) {
          const wrong = Object.keys(this.validate(body.value)).join()
          if (wrong === 'isComplete') this.replace(item.id, { ...item, name: this.toDraft(body.value).name })
        }
        return super.putItem(request)
      }
    },
  ),
  a(
    'put-body-id-zero-unchecked',
    'A8',
    'specified',
    'A body id 0 counts as not given, so PUT does not compare it.',
    class extends ReferenceA {
      override readValid(request: Request) {
        const body = super.readValid(request)
        if (!body.ok || request.method !== 'PUT' || body.value.id !== 0n) return body
        return { ok: true, value: { ...body.value, id: this.pathId(request) ?? 0n } } as const
      }
    },
  ),
  a(
    'put-id-zero-400',
    'A8',
    'specified',
    'PUT of id 0 in path and body is answered 400 (no id) instead of 404.',
    class extends ReferenceA {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        return result.status === 404 && this.pathId(request) === 0n
          ? this.error(request, 400, { id: ['Is required.'] })
          : result
      }
    },
  ),
  a(
    'put-name-unique',
    'A7',
    'specified',
    'A PUT with the name of another item is refused with 409.',
    class extends ReferenceA {
      override async putItem(request: Request) {
        const id = this.pathId(request)
        const body = this.readValid(request)
        const taken =
          body.ok &&
          id !== undefined &&
          body.value.id === id &&
          this.items.has(id) &&
          this.list().some((item) => item.id !== id && item.name !== null && item.name === body.value.name)
        return taken ? this.error(request, 409) : super.putItem(request)
      }
    },
  ),

  // Lists and caches
  a(
    'list-stale-after-put',
    'A1',
    'specified',
    'The list is cached and a PUT does not renew it.',
    class extends ReferenceA {
      cached: ItemA[] | undefined

      override list() {
        return (this.cached ??= super.list())
      }

      override insert(draft: DraftA) {
        this.cached = undefined
        return super.insert(draft)
      }

      override remove(id: bigint) {
        this.cached = undefined
        return super.remove(id)
      }
    },
  ),
  a(
    'list-cached-by-spelling',
    'G1',
    'specified',
    'The list is cached by the path as spelt, and a write renews only the spelling it was sent with.',
    class extends ReferenceA {
      readonly cache = new Map<string, ItemA[]>()

      override async answer(request: Request) {
        if (request.method !== 'GET' && request.method !== 'HEAD') {
          for (const path of this.cache.keys()) if (request.path.startsWith(path)) this.cache.delete(path)
        }
        return super.answer(request)
      }

      override async getItems(request: Request) {
        const items = this.cache.get(request.path) ?? this.list()
        this.cache.set(request.path, items)
        return json(
          200,
          items.map((item) => this.toWire(item)),
        )
      }
    },
  ),
  listCutA(20),
  listCutA(100),
  a(
    'list-by-id-as-text',
    'A1',
    'choice',
    'The list is ordered by the id as text: 1, 10, 2.',
    class extends ReferenceA {
      override list() {
        return super.list().sort((one, other) => (String(one.id) < String(other.id) ? -1 : 1))
      }
    },
  ),
  a(
    'item-stale-after-put',
    'A2',
    'specified',
    'GET of one item is cached and a PUT does not renew it.',
    class extends ReferenceA {
      readonly cache = new Map<bigint, ItemA>()

      override find(id: bigint) {
        const item = this.cache.get(id) ?? super.find(id)
        if (item !== undefined) this.cache.set(id, item)
        return item
      }

      override remove(id: bigint) {
        this.cache.delete(id)
        return super.remove(id)
      }
    },
  ),
  a(
    'item-stale-after-delete',
    'A2',
    'specified',
    'GET of one item is cached and a DELETE does not clear it.',
    class extends ReferenceA {
      readonly cache = new Map<bigint, ItemA>()

      override find(id: bigint) {
        const item = this.cache.get(id) ?? super.find(id)
        if (item !== undefined) this.cache.set(id, item)
        return item
      }

      override replace(id: bigint, draft: DraftA) {
        this.cache.delete(id)
        return super.replace(id, draft)
      }
    },
  ),
  a(
    'get-404-cached',
    'A2',
    'specified',
    'An id once answered 404 stays 404 for GET when an item gets it later.',
    class extends ReferenceA {
      readonly missing = new Set<bigint>()

      override find(id: bigint) {
        const item = super.find(id)
        if (item === undefined) this.missing.add(id)
        return this.missing.has(id) ? undefined : item
      }
    },
  ),
  a(
    'get-late-after-post',
    'A2',
    'specified',
    'GET of one item answers 404 for 300 ms after its creation (a replica that lags).',
    class extends ReferenceA {
      readonly born = new Map<bigint, number>()

      override insert(draft: DraftA) {
        const item = super.insert(draft)
        this.born.set(item.id, Date.now())
        return item
      }

      override find(id: bigint) {
        return Date.now() - (this.born.get(id) ?? 0) < 300 ? undefined : super.find(id)
      }
    },
  ),
  a(
    'get-id-zero-lists',
    'A2',
    'specified',
    'GET of id 0 counts as without an id and answers 200 with the list.',
    class extends ReferenceA {
      override async getItem(request: Request) {
        return this.pathId(request) === 0n ? this.getItems(request) : super.getItem(request)
      }
    },
  ),
  a(
    'two-workers',
    'A1',
    'specified',
    'Two workers with a store each share the connections.',
    class extends ReferenceA {
      readonly workers = [new ReferenceA(this.options), new ReferenceA(this.options)] as const
      readonly assigned = new WeakMap<Socket, ReferenceA>()
      connections = 0

      override async answer(request: Request) {
        const { socket } = request.incoming
        const worker = this.assigned.get(socket) ?? this.workers[this.connections++ % 2 === 0 ? 0 : 1]
        this.assigned.set(socket, worker)
        return worker.answer(request)
      }
    },
  ),
  a(
    'starts-with-item',
    'G7',
    'specified',
    'The store starts with a sample item.',
    class extends ReferenceA {
      constructor(options: ReferenceOptions) {
        super(options)
        this.insert({ name: 'Walk the dog', isComplete: false })
      }
    },
  ),

  // Deletes
  a(
    'deleted-get-410',
    'A2',
    'specified',
    'GET of a deleted item is answered 410.',
    class extends SoftDeleteA {
      override async getItem(request: Request) {
        const result = await super.getItem(request)
        return this.gone.has(this.pathId(request) ?? 0n) ? this.error(request, 410) : result
      }
    },
  ),
  a(
    'deleted-get-null',
    'A2',
    'specified',
    'GET of a deleted item is answered 200 with null.',
    class extends SoftDeleteA {
      override async getItem(request: Request) {
        const result = await super.getItem(request)
        return this.gone.has(this.pathId(request) ?? 0n) ? json(200, null) : result
      }
    },
  ),
  a(
    'deleted-put-204',
    'A8',
    'specified',
    'PUT of a deleted item is answered 204; the item stays deleted.',
    class extends SoftDeleteA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, draft) || this.gone.has(id)
      }
    },
  ),
  a(
    'deleted-delete-204',
    'A9',
    'specified',
    'A second DELETE of the same item is answered 204.',
    class extends SoftDeleteA {
      override remove(id: bigint) {
        return super.remove(id) || this.gone.has(id)
      }
    },
  ),
  a(
    'delete-missing-removes-last',
    'A9',
    'specified',
    'A DELETE answered 404 removes the last item (index -1).',
    class extends ReferenceA {
      override remove(id: bigint) {
        if (super.remove(id)) return true
        super.remove([...this.items.keys()].at(-1) ?? 0n)
        return false
      }
    },
  ),
  a(
    'delete-by-prefix',
    'A9',
    'specified',
    'DELETE removes every item whose id starts with the digits of the path id.',
    class extends ReferenceA {
      override remove(id: bigint) {
        const hits = this.list().filter((item) => String(item.id).startsWith(String(id)))
        return hits.filter((item) => super.remove(item.id)).length > 0
      }
    },
  ),
  a(
    'delete-by-name',
    'A9',
    'specified',
    'DELETE removes the other items of the same name too.',
    class extends ReferenceA {
      override remove(id: bigint) {
        const item = this.items.get(id)
        for (const other of this.list()) if (other.name === item?.name) super.remove(other.id)
        return item !== undefined
      }
    },
  ),
  a(
    'delete-id-wraps',
    'A11',
    'specified',
    'DELETE cuts the id to 32 bits: 4294967297 removes item 1.',
    class extends ReferenceA {
      override remove(id: bigint) {
        return super.remove(BigInt.asIntN(32, id))
      }
    },
  ),
  a(
    'delete-renumbers',
    'A4',
    'specified',
    'After a DELETE the later items move down by one id.',
    class extends ReferenceA {
      override remove(id: bigint) {
        if (!super.remove(id)) return false
        for (const item of this.list()) {
          if (item.id < id) continue
          super.remove(item.id)
          this.items.set(item.id - 1n, { ...item, id: item.id - 1n })
        }
        this.lastId--
        return true
      }
    },
  ),
  a(
    'delete-id-cut-short',
    'A12',
    'choice',
    'DELETE reads the leading digits of a malformed id: 1.5 removes item 1.',
    class extends ReferenceA {
      override async deleteItem(request: Request) {
        const digits = /^-?\d+/.exec(request.parameter)?.[0]
        return super.deleteItem(digits === undefined ? request : { ...request, parameter: String(BigInt(digits)) })
      }
    },
  ),

  // Creation and ids
  a(
    'post-free-id-honoured',
    'A4',
    'specified',
    'POST gives the item the id of the body when no item has it.',
    class extends UnorderedA {
      wanted: bigint | undefined

      override toDraft(body: JsonObject) {
        const { id } = body
        const free = typeof id === 'bigint' && id > 0n && BigInt.asIntN(64, id) === id && !this.items.has(id)
        this.wanted = free ? id : undefined
        return super.toDraft(body)
      }

      override nextId() {
        return this.wanted ?? super.nextId()
      }
    },
  ),
  a(
    'post-taken-id-overwrites',
    'A4',
    'specified',
    'A POST with the id of an item overwrites that item.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const body = this.readValid(request)
        const id = body.ok ? body.value.id : undefined
        if (!body.ok || typeof id !== 'bigint' || !this.items.has(id)) return super.postItem(request)
        const item = { ...this.toDraft(body.value), id, secret: null }
        this.replace(id, item)
        return json(201, this.toWire(item), { location: this.location(request, item) })
      }
    },
  ),
  a(
    'post-name-unique',
    'A3',
    'specified',
    'A POST with the name of another item is refused with 409.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const body = this.readValid(request)
        const taken = body.ok && this.list().some((item) => item.name !== null && item.name === body.value.name)
        return taken ? this.error(request, 409) : super.postItem(request)
      }
    },
  ),
  a(
    'post-twice-one-item',
    'A3',
    'specified',
    'The same POST twice in a row answers the first item again.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        const last = this.items.get(this.lastId)
        return last?.name === draft.name && last.isComplete === draft.isComplete ? last : super.insert(draft)
      }
    },
  ),
  a(
    'post-complete-not-stored',
    'A3',
    'specified',
    'POST answers isComplete as sent and stores false.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return { ...super.insert({ ...draft, isComplete: false }), isComplete: draft.isComplete }
      }
    },
  ),
  a(
    'post-refused-stores',
    'A6',
    'specified',
    'A POST refused for want of isComplete has stored the item.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const body = this.readObject(request)
        const stores = body.ok && Object.keys(this.validate(body.value)).join() === 'isComplete'
        if (stores) this.insert(this.toDraft(body.value))
        return super.postItem(request)
      }
    },
  ),
  a(
    'id-from-count',
    'A4',
    'specified',
    'A new id is the number of items plus one, so after a DELETE it hits a living item.',
    class extends ReferenceA {
      override nextId() {
        return BigInt(this.items.size + 1)
      }
    },
  ),
  a(
    'id-reused-after-delete',
    'A4',
    'choice',
    'The id of the last item is used again when that item is deleted.',
    class extends ReferenceA {
      override nextId() {
        return ([...this.items.keys()].at(-1) ?? 0n) + 1n
      }
    },
  ),
  a(
    'posts-at-once-share-id',
    'A4',
    'specified',
    'Two POSTs at once get the same id and one item is lost.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const last = this.lastId
        await pause(30)
        this.lastId = last
        return super.postItem(request)
      }
    },
  ),
  a(
    'posts-at-once-lose-one',
    'A3',
    'specified',
    'Two POSTs at once lose an item: the whole list is read, changed and written back.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const items = this.list()
        await pause(30)
        this.items.clear()
        for (const item of items) this.items.set(item.id, item)
        return super.postItem(request)
      }
    },
  ),

  // The secret
  a(
    'put-clears-secret',
    'A10',
    'unobservable',
    'A PUT clears the stored secret.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        const item = { ...super.insert(draft), secret: 'internal' }
        this.items.set(item.id, item)
        return item
      }

      override replace(id: bigint, draft: DraftA) {
        if (!this.items.has(id)) return false
        this.items.set(id, { ...draft, id, secret: null })
        return true
      }
    },
  ),
  a(
    'post-copies-secret',
    'A10',
    'unobservable',
    'POST stores a secret sent by the client, which is never returned.',
    class extends ReferenceA {
      sent: string | null = null

      override toDraft(body: JsonObject) {
        this.sent = typeof body.secret === 'string' ? body.secret : null
        return super.toDraft(body)
      }

      override insert(draft: DraftA) {
        const item = { ...super.insert(draft), secret: this.sent }
        this.items.set(item.id, item)
        return item
      }
    },
  ),
]

const faultsB: readonly FaultyServer[] = [
  // Updates
  b(
    'put-done-alone-ignored',
    'B7',
    'specified',
    'A PUT that keeps name and notes changes nothing: done alone is not seen as a change.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        const old = this.items.get(id)
        return (old?.name === item.name && old.notes === item.notes) || super.replace(id, item)
      }
    },
  ),
  b(
    'put-absent-done-kept',
    'B7',
    'specified',
    'A PUT without done leaves the stored done: merged, not replaced.',
    class extends ReferenceB {
      override toItem(body: JsonObject) {
        const item = super.toItem(body)
        return body.done === undefined ? { ...item, done: this.items.get(item.id)?.done ?? false } : item
      }
    },
  ),
  b(
    'put-missing-inserts',
    'B7',
    'specified',
    'A PUT answered 404 creates the item.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const read = this.readItem(request, 'CouldNotUpdateItem')
        if (result.status === 404 && read.ok && this.isStorable(read.value)) this.insert(read.value)
        return result
      }
    },
  ),
  b(
    'put-404-cached',
    'B7',
    'specified',
    'An id once answered 404 to PUT stays 404 to PUT when an item gets it later.',
    class extends ReferenceB {
      readonly missing = new Set<string>()

      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const read = this.readItem(request, 'CouldNotUpdateItem')
        if (result.status === 404 && read.ok) this.missing.add(read.value.id)
        return result
      }

      override replace(id: string, item: ItemB) {
        return !this.missing.has(id) && super.replace(id, item)
      }
    },
  ),
  b(
    'put-first-item-404',
    'B7',
    'specified',
    'PUT of the first item of the list is answered 404 (index 0 is false).',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return [...this.items.keys()].indexOf(id) !== 0 && super.replace(id, item)
      }
    },
  ),
  b(
    'put-keeps-old-version',
    'B7',
    'specified',
    'After a PUT the list shows the old version beside the new one.',
    class extends ReferenceB {
      readonly history: ItemB[] = []

      override replace(id: string, item: ItemB) {
        const old = this.items.get(id)
        if (old !== undefined) this.history.push(old)
        return super.replace(id, item)
      }

      override list() {
        return super.list().flatMap((item) => [item, ...this.history.filter((old) => old.id === item.id)])
      }
    },
  ),
  b(
    'put-refused-changes',
    'B4',
    'specified',
    'A PUT refused for want of notes has changed name and done.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const body = this.readObject(request)
        if (body.ok && body.value.notes === undefined) {
          const old = this.items.get(String(body.value.id))
          const value = { ...body.value, notes: old?.notes ?? null }
          if (old !== undefined && this.validate(value) && this.isStorable(this.toItem(value))) {
            this.replace(old.id, this.toItem(value))
          }
        }
        return super.putItem(request)
      }
    },
  ),
  b(
    'put-name-unique',
    'B7',
    'specified',
    'A PUT with the name of another item is refused with 409.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const read = this.readItem(request, 'CouldNotUpdateItem')
        const taken =
          read.ok &&
          this.items.has(read.value.id) &&
          this.list().some((item) => item.id !== read.value.id && item.name === read.value.name)
        return taken ? this.error(409, 'TodoItemIDInUse') : super.putItem(request)
      }
    },
  ),
  b(
    'puts-at-once-lose-one',
    'B7',
    'specified',
    'Of two PUTs of two items at once one is lost: the whole list is read, changed and written back.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        const items = this.list()
        await pause(30)
        this.items.clear()
        for (const item of items) this.items.set(item.id, item)
        return super.putItem(request)
      }
    },
  ),
  b(
    'put-moves-last',
    'B7',
    'choice',
    'An updated item moves to the end of the list.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        const known = this.items.delete(id)
        if (known) this.items.set(id, item)
        return known
      }
    },
  ),

  // Lists and starting items
  b(
    'list-stale-after-put',
    'B1',
    'specified',
    'The list is cached and a PUT does not renew it.',
    class extends ReferenceB {
      cached: ItemB[] | undefined

      override list() {
        return (this.cached ??= super.list())
      }

      override insert(item: ItemB) {
        this.cached = undefined
        return super.insert(item)
      }

      override remove(id: string) {
        this.cached = undefined
        return super.remove(id)
      }
    },
  ),
  b(
    'list-cached-briefly',
    'B1',
    'specified',
    'The list is cached for 300 ms whatever is written.',
    class extends ReferenceB {
      cached: ItemB[] = []
      until = 0

      override list() {
        if (Date.now() > this.until) {
          this.cached = super.list()
          this.until = Date.now() + 300
        }
        return this.cached
      }
    },
  ),
  listCutB(10),
  listCutB(50),
  listCutB(100),
  b(
    'list-by-id',
    'B1',
    'choice',
    'The list is ordered by id, not by creation.',
    class extends ReferenceB {
      override list() {
        return super.list().sort((one, other) => (one.id < other.id ? -1 : 1))
      }
    },
  ),
  b(
    'starts-with-last-done',
    'B2',
    'specified',
    'Of the three starting items the last is done, not the first.',
    class extends ReferenceB {
      override startingItems() {
        return super.startingItems().map((item, index) => ({ ...item, done: index === 2 }))
      }
    },
  ),
  b(
    'starting-items-come-back',
    'B8',
    'specified',
    'The starting items come back when a list finds the store empty.',
    class extends ReferenceB {
      override list() {
        if (this.items.size === 0) for (const item of this.startingItems()) this.items.set(item.id, item)
        return super.list()
      }
    },
  ),

  // Deletes
  b(
    'deleted-put-204',
    'B7',
    'specified',
    'PUT of a deleted item is answered 204; the item stays deleted.',
    class extends SoftDeleteB {
      override async putItem(request: Request) {
        const result = await super.putItem(request)
        const read = this.readItem(request, 'CouldNotUpdateItem')
        return result.status === 404 && read.ok && this.gone.has(read.value.id) ? empty(204) : result
      }
    },
  ),
  b(
    'deleted-delete-204',
    'B8',
    'specified',
    'A second DELETE of the same item is answered 204.',
    class extends SoftDeleteB {
      override remove(id: string) {
        return super.remove(id) || this.gone.has(id)
      }
    },
  ),
  b(
    'deleted-id-in-use',
    'B5',
    'specified',
    'A POST with the id of a deleted item is answered 409.',
    class extends SoftDeleteB {
      override async postItem(request: Request) {
        const read = this.readItem(request, 'CouldNotCreateItem')
        return read.ok && this.gone.has(read.value.id) ? this.error(409, 'TodoItemIDInUse') : super.postItem(request)
      }
    },
  ),
  b(
    'deleted-values-come-back',
    'B3',
    'specified',
    'A POST with the id of a deleted item answers the item sent and brings the old one back.',
    class extends SoftDeleteB {
      override insert(item: ItemB) {
        super.insert(this.gone.get(item.id) ?? item)
        return item
      }
    },
  ),
  b(
    'delete-missing-removes-last',
    'B8',
    'specified',
    'A DELETE answered 404 removes the last item (index -1).',
    class extends ReferenceB {
      override remove(id: string) {
        if (super.remove(id)) return true
        super.remove([...this.items.keys()].at(-1) ?? '')
        return false
      }
    },
  ),
  b(
    'delete-by-prefix',
    'B8',
    'specified',
    'DELETE removes every item whose id starts with the path id.',
    class extends ReferenceB {
      override remove(id: string) {
        return this.list().filter((item) => item.id.startsWith(id) && super.remove(item.id)).length > 0
      }
    },
  ),
  b(
    'delete-by-name',
    'B8',
    'specified',
    'DELETE removes the other items of the same name too.',
    class extends ReferenceB {
      override remove(id: string) {
        const item = this.items.get(id)
        for (const other of this.list()) if (other.name === item?.name) super.remove(other.id)
        return item !== undefined
      }
    },
  ),
  b(
    'delete-like-pattern',
    'B8',
    'specified',
    'DELETE takes its id as a LIKE pattern: a_b removes axb, % everything.',
    class extends ReferenceB {
      override remove(id: string) {
        const pattern = like(id)
        return this.list().filter((item) => pattern.test(item.id) && super.remove(item.id)).length > 0
      }
    },
  ),
  b(
    'delete-path-lowercased',
    'G1',
    'specified',
    'The path is lowercased before the id is taken from it: an item ABC cannot be deleted.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        return super.deleteItem({ ...request, parameter: request.parameter.toLowerCase() })
      }
    },
  ),
  b(
    'delete-id-zero-404',
    'B8',
    'specified',
    'DELETE of an item with id "0" is answered 404: 0 counts as no id.',
    class extends ReferenceB {
      override remove(id: string) {
        return id !== '0' && super.remove(id)
      }
    },
  ),
  b(
    'delete-ignores-case',
    'B5',
    'choice',
    'DELETE of abc removes ABC when no item is called abc.',
    class extends ReferenceB {
      override remove(id: string) {
        const near = this.list().find((item) => item.id.toLowerCase() === id.toLowerCase())
        return super.remove(id) || (near !== undefined && super.remove(near.id))
      }
    },
  ),
  b(
    'delete-numeric-ids-equal',
    'B5',
    'choice',
    'DELETE of 01 removes the item 1 when no item is called 01: ids that look numeric are compared as numbers.',
    class extends ReferenceB {
      override remove(id: string) {
        const numeric = /^\d{1,15}$/
        const near = this.list().find((item) => numeric.test(item.id) && Number(item.id) === Number(id))
        return super.remove(id) || (numeric.test(id) && near !== undefined && super.remove(near.id))
      }
    },
  ),

  // Creation and ids
  b(
    'post-id-zero-missing',
    'B4',
    'specified',
    'POST refuses the id "0" as missing.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const read = this.readItem(request, 'CouldNotCreateItem')
        const zero = read.ok && read.value.id === '0'
        return zero ? this.error(400, 'TodoItemNameAndNotesRequired') : super.postItem(request)
      }
    },
  ),
  b(
    'post-name-unique',
    'B5',
    'specified',
    'A POST with a new id and the name of another item is refused with 409.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const read = this.readItem(request, 'CouldNotCreateItem')
        const taken = read.ok && this.list().some((item) => item.name === read.value.name)
        return taken ? this.error(409, 'TodoItemIDInUse') : super.postItem(request)
      }
    },
  ),
  b(
    'post-same-item-200',
    'B5',
    'specified',
    'A POST of an item that is stored just so is answered 200, not 409.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const read = this.readItem(request, 'CouldNotCreateItem')
        const repeated = read.ok && same(this.items.get(read.value.id), read.value)
        return repeated ? json(200, this.toWire(read.value)) : super.postItem(request)
      }
    },
  ),
  b(
    'post-409-overwrites',
    'B5',
    'specified',
    'A POST answered 409 has overwritten the stored item.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const read = this.readItem(request, 'CouldNotCreateItem')
        if (read.ok && this.isStorable(read.value)) this.replace(read.value.id, read.value)
        return super.postItem(request)
      }
    },
  ),
  b(
    'post-refused-stores',
    'B4',
    'specified',
    'A POST refused for want of notes has stored the item with empty notes.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const body = this.readObject(request)
        if (body.ok && body.value.notes === undefined && this.validate({ ...body.value, notes: '-' })) {
          const item = this.toItem({ ...body.value, notes: '' })
          const storable = this.isIdInLimits(item.id) && this.isStorable(item)
          if (storable && this.find(item.id) === undefined) this.insert(item)
        }
        return super.postItem(request)
      }
    },
  ),
  b(
    'posts-at-once-same-id',
    'B5',
    'specified',
    'Two POSTs of one id at once are both answered 200.',
    class extends ReferenceB {
      known: ReadonlySet<string> | undefined

      override async postItem(request: Request) {
        const known = new Set(this.items.keys())
        await pause(30)
        this.known = known
        const result = super.postItem(request)
        this.known = undefined
        return result
      }

      override find(id: string) {
        return this.known?.has(id) === false ? undefined : super.find(id)
      }
    },
  ),
  b(
    'post-ignores-case',
    'B5',
    'choice',
    'A POST of ABC is answered 409 when there is an item abc.',
    class extends ReferenceB {
      override find(id: string) {
        return super.find(id) ?? this.list().find((item) => item.id.toLowerCase() === id.toLowerCase())
      }
    },
  ),
  b(
    'post-ignores-trailing-blanks',
    'B5',
    'choice',
    'A POST of an id with a blank at the end is answered 409 when there is an item without the blank.',
    class extends ReferenceB {
      override find(id: string) {
        return super.find(id) ?? this.list().find((item) => item.id.trimEnd() === id.trimEnd())
      }
    },
  ),
  b(
    'post-ignores-accents',
    'B5',
    'choice',
    'A POST of the id é is answered 409 when there is an item e (collation).',
    class extends ReferenceB {
      override find(id: string) {
        return super.find(id) ?? this.list().find((item) => withoutAccents(item.id) === withoutAccents(id))
      }
    },
  ),
  b(
    'unknown-members-stored',
    'G4',
    'unobservable',
    'Unknown members of a body are stored, and never returned.',
    class extends ReferenceB {
      override toItem(body: JsonObject) {
        return { ...body, ...super.toItem(body) }
      }
    },
  ),
]

export const stateFaults: readonly FaultyServer[] = [...faultsA, ...faultsB]
