import { andThen } from '../eventually.ts'
import { empty, json, retrySoon } from '../http/answer.ts'
import { tagsIn } from '../http/conditional.ts'
import { int64 } from '../http/int64.ts'
import { Refusal, type RefusalCode, refusals } from '../http/refusal.ts'
import { route } from '../http/route.ts'
import type { Shape } from '../http/shape.ts'
import type { NumberedItem, NumberedStore } from '../store/store.ts'
import { items, itemsTag, list, type Profile, refused, shownTo, tagged } from './profile.ts'

const id = { type: 'integer', format: 'int64' } as const
const fields = { name: { type: 'string', nullable: true, default: null }, isComplete: { type: 'boolean' } } as const
const example = { name: 'walk the dog', isComplete: false }

const newItem = { name: 'NewTodoItem', members: fields, example } as const satisfies Shape
const fullItem = {
  name: 'TodoItemUpdate',
  members: { id, ...fields },
  example: { id: 1, ...example },
} as const satisfies Shape
const storedItem: Shape = { ...fullItem, name: 'TodoItem' }

/** A10: what is not written here never leaves the store. */
const shown = ({ id, name, isComplete }: NumberedItem) => ({ id: Number(id), name, isComplete })

/** A11: what is no exact number in JavaScript is put in afterwards. */
const isExact = ({ id }: NumberedItem) => Number.isSafeInteger(Number(id))
const wire = (item: NumberedItem) =>
  isExact(item)
    ? JSON.stringify(shown(item))
    : JSON.stringify({ ...shown(item), id: 0 }).replace('"id":0', `"id":${item.id}`)
const wireList = (all: readonly NumberedItem[]) =>
  all.every(isExact) ? JSON.stringify(all.map(shown)) : `[${all.map(wire).join(',')}]`

/** The only text of an item is its name. */
const unstorable = new Refusal('value-refused', { name: ['name must not hold U+0000.'] })

const item = {
  path: `${items}/{id}`,
  id: { schema: id, read: (segment: string | undefined) => int64(segment) ?? new Refusal('id-malformed') },
}

const routes = (store: NumberedStore) => [
  route({
    operation: 'listItems',
    docs: {
      tag: itemsTag,
      summary: 'List all items, in order of id',
      success: { status: 200, description: 'All items.', body: { many: storedItem }, headers: tagged },
      refusals: ['store-unavailable'],
    },
    method: 'GET',
    path: items,
    handle: list(store),
  }),
  route({
    operation: 'createItem',
    docs: {
      tag: itemsTag,
      summary: 'Create an item; the service assigns its id',
      success: {
        status: 201,
        description: 'The created item.',
        body: { one: storedItem },
        headers: { Location: 'The URI of the created item.', ...tagged },
      },
      refusals: ['store-unavailable'],
    },
    method: 'POST',
    path: items,
    body: newItem,
    handle: (call) =>
      andThen(store.create(call.body), (created) => {
        if (created === 'unstorable') return unstorable
        if (created === 'full') return refused[created]
        const { id, json: text, tag } = created
        return json(201, text, { location: `${call.baseUrl}${items}/${id}`, etag: tag })
      }),
  }),
  route({
    ...item,
    operation: 'getItem',
    docs: {
      tag: itemsTag,
      summary: 'Read one item',
      success: { status: 200, description: 'The item.', body: { one: storedItem }, headers: tagged },
      refusals: ['id-malformed', 'item-missing', 'store-unavailable'],
    },
    method: 'GET',
    handle: (call) =>
      andThen(store.get(call.id), (found) => (found === 'not-found' ? refused[found] : shownTo(call, found))),
  }),
  route({
    ...item,
    operation: 'updateItem',
    docs: {
      tag: itemsTag,
      summary: 'Change the name and completion of an item; the full item is expected',
      success: { status: 204, description: 'The item is changed.' },
      refusals: ['id-malformed', 'ids-differ', 'item-missing', 'item-changed', 'store-unavailable'],
    },
    method: 'PUT',
    body: fullItem,
    handle(call) {
      const { id, body } = call
      if (body.id !== id) return new Refusal('ids-differ')
      return andThen(store.update(id, body, tagsIn(call.header('if-match'))), (outcome) => {
        if (outcome === 'unstorable') return unstorable
        return outcome === 'updated' ? empty(204) : refused[outcome]
      })
    },
  }),
  route({
    ...item,
    operation: 'deleteItem',
    docs: {
      tag: itemsTag,
      summary: 'Delete an item',
      success: { status: 204, description: 'The item is gone.' },
      refusals: ['id-malformed', 'item-missing', 'item-changed', 'store-unavailable'],
    },
    method: 'DELETE',
    handle: (call) =>
      andThen(store.delete(call.id, tagsIn(call.header('if-match'))), (outcome) =>
        outcome === 'deleted' ? empty(204) : refused[outcome],
      ),
  }),
]

/** A8, A12–A14; anything else is A15. */
const statuses: Partial<Record<RefusalCode, number>> = {
  'host-malformed': 400,
  'header-doubled': 400,
  'target-malformed': 400,
  'framing-refused': 400,
  'version-refused': 505,
  'id-malformed': 400,
  'ids-differ': 400,
  'body-malformed': 400,
  'body-invalid': 400,
  'value-refused': 400,
  'path-unknown': 404,
  'item-missing': 404,
  'item-changed': 412,
  'body-too-large': 413,
  'media-type-refused': 415,
  'too-many-requests': 429,
  'store-unavailable': 503,
  'store-full': 503,
  overloaded: 503,
}

/** Where RFC 9110 defines each status. */
const sections: Record<number, string> = {
  400: '15.5.1',
  404: '15.5.5',
  412: '15.5.13',
  413: '15.5.14',
  415: '15.5.16',
  429: '15.5.1',
  500: '15.6.1',
  503: '15.6.4',
  505: '15.6.6',
}

export const profileA: Profile<'a'> = {
  name: 'a',
  title: 'Profile A',
  about: "To-do items by the classic web-API tutorial's contract: the service assigns numbers as ids.",
  defaultPort: 5080,
  defaultHttpsPort: 5081,
  startingItems: [],
  wire,
  wireList,
  routes,
  refuse({ code, errors }, _operation, traceId) {
    const status = statuses[code] ?? 500
    const type = `https://www.rfc-editor.org/rfc/rfc9110#section-${sections[status]}`
    const problem = JSON.stringify({ type, title: refusals[code], status, traceId, errors })
    const headers = {
      'content-type': 'application/problem+json',
      ...(status === 503 || status === 429 ? retrySoon : {}),
    }
    return { status, headers, body: problem }
  },
}
