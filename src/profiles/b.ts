import { andThen } from '../eventually.ts'
import { type Answer, empty, json, retrySoon, text } from '../http/answer.ts'
import { Refusal, type RefusalCode } from '../http/refusal.ts'
import { route } from '../http/route.ts'
import { isLonger, type Shape } from '../http/shape.ts'
import type { NamedItem, NamedStore } from '../store/store.ts'
import { items, itemsTag, list, type Profile, refused, tagged } from './profile.ts'

const idLimit = 1024
/** B4: a blank string is a missing one. */
const notBlank = '\\S'

const id = { type: 'string', pattern: notBlank, maxLength: idLimit } as const

const sentItem = {
  name: 'SentTodoItem',
  members: {
    id,
    name: { type: 'string', pattern: notBlank },
    notes: { type: 'string', pattern: notBlank },
    done: { type: 'boolean', default: false },
  },
  example: { id: 'milk', name: 'Buy milk', notes: '2 litres', done: false },
} as const satisfies Shape
const storedItem: Shape = { ...sentItem, name: 'TodoItem' }

const shown = ({ id, name, notes, done }: NamedItem) => ({ id, name, notes, done })
const wire = (item: NamedItem) => JSON.stringify(shown(item))
const wireList = (all: readonly NamedItem[]) => JSON.stringify(all.map(shown))

const routes = (store: NamedStore) => [
  route({
    operation: 'listItems',
    docs: {
      tag: itemsTag,
      summary: 'List all items, in order of creation',
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
      summary: 'Create an item; the client supplies its id',
      success: { status: 200, description: 'The created item.', body: { one: storedItem } },
      refusals: ['id-in-use', 'store-unavailable'],
    },
    method: 'POST',
    path: items,
    body: sentItem,
    handle: ({ body }) =>
      andThen(store.create(body), (outcome) =>
        typeof outcome === 'string' ? refused[outcome] : json(200, outcome.json),
      ),
  }),
  route({
    operation: 'updateItem',
    docs: {
      tag: itemsTag,
      summary: 'Replace the item that has the id in the body',
      success: { status: 204, description: 'The item is replaced.' },
      refusals: ['item-missing', 'store-unavailable'],
    },
    method: 'PUT',
    path: items,
    body: sentItem,
    handle: ({ body }) =>
      andThen(store.replace(body), (outcome) => (outcome === 'replaced' ? empty(204) : refused[outcome])),
  }),
  route({
    operation: 'deleteItem',
    docs: {
      tag: itemsTag,
      summary: 'Delete an item',
      success: { status: 204, description: 'The item is gone.' },
      refusals: ['id-too-long', 'item-missing', 'store-unavailable'],
    },
    method: 'DELETE',
    path: `${items}/{id}`,
    id: { schema: id, read: readId },
    handle: ({ id }) => andThen(store.delete(id), (outcome) => (outcome === 'deleted' ? empty(204) : refused[outcome])),
  }),
]

/** B11. */
function readId(segment: string | undefined): string | Refusal {
  if (segment === undefined) return new Refusal('item-missing')
  return isLonger(segment, idLimit) ? new Refusal('id-too-long') : segment
}

/** B6. An operation without a code of its own can only say whose fault it is. */
const anyOther = (code: RefusalCode, operation = '') =>
  couldNot[operation] ? text(400, couldNot[operation]) : (blame[code] ?? empty(500))

const blame: Partial<Record<RefusalCode, Answer>> = {
  'host-malformed': empty(400),
  'header-doubled': empty(400),
  'target-malformed': empty(400),
  'framing-refused': empty(400),
  'body-too-large': empty(413),
  'store-unavailable': empty(503, retrySoon),
  overloaded: empty(503, retrySoon),
}

const couldNot: Record<string, string> = {
  createItem: 'CouldNotCreateItem',
  updateItem: 'CouldNotUpdateItem',
  deleteItem: 'CouldNotDeleteItem',
}

/** B4. */
const missing = text(400, 'TodoItemNameAndNotesRequired')

/** B4–B9. */
const failures: Partial<Record<RefusalCode, Answer>> = {
  'path-unknown': empty(404),
  'version-refused': empty(505),
  'too-many-requests': empty(429, retrySoon),
  'item-missing': text(404, 'RecordNotFound'),
  'id-in-use': text(409, 'TodoItemIDInUse'),
  'media-type-refused': missing,
  'body-malformed': missing,
  'body-invalid': missing,
}

export const profileB: Profile<'b'> = {
  name: 'b',
  title: 'Profile B',
  about: "To-do items by a native mobile client's contract: the client supplies ids, errors are plain-text codes.",
  defaultPort: 5000,
  defaultHttpsPort: 5001,
  /** B2. */
  startingItems: [
    {
      id: '6bb8a868-dba1-4f1a-93b7-24ebce87e243',
      name: 'Learn app development',
      notes: 'Take a course',
      done: true,
    },
    {
      id: 'b94afb54-a1cb-4313-8af3-b7511551b33b',
      name: 'Develop apps',
      notes: 'Use your favourite editor',
      done: false,
    },
    {
      id: 'ecfa6f80-3671-4911-aabe-63cc442c1ecf',
      name: 'Publish apps',
      notes: 'All app stores',
      done: false,
    },
  ],
  wire,
  wireList,
  routes,
  refuse: ({ code }, operation) => failures[code] ?? anyOther(code, operation),
}
