import {
  boolean,
  isLongerThan,
  type NamedSchema,
  notBlank,
  object,
  type Schema,
  type ValueOf,
} from '../common/schema.ts'
import { type ErrorCode, errors, Rejection } from '../http/errors.ts'
import { empty, json, noContent, type Response, retryAfter, text } from '../http/response.ts'
import { route } from '../http/router.ts'
import type { CollectionType } from '../store/store.ts'
import { documentsOf, itemsPath, listRoute, outcomeErrors, type Profile } from './profile.ts'

const maxIdLength = 1024

/** B4: a blank string counts as missing. */
const needed: Schema<string> = { type: 'string', pattern: notBlank }
const id: Schema<string> = { ...needed, maxLength: maxIdLength }

const sentItem = {
  name: 'SentTodoItem',
  ...object({ id, name: needed, notes: needed, done: { ...boolean(), default: false } }),
  example: { id: 'milk', name: 'Buy milk', notes: '2 litres', done: false },
}
const storedItem: NamedSchema = { ...sentItem, name: 'TodoItem' }

/** B2: the items of a new store. */
const startingItems = [
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
]

const form = {
  keyMember: 'id',
  serialize: ({ id, name, notes, done }: ValueOf<typeof sentItem>) =>
    `"id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"notes":${JSON.stringify(notes)},"done":${done}`,
}

const collection: CollectionType<ValueOf<typeof sentItem>> = {
  name: 'b',
  ...form,
  startingDocuments: documentsOf(form, startingItems),
}

const routes = [
  listRoute(storedItem, 'creation'),
  route({
    operation: 'createItem',
    docs: {
      summary: 'Create an item; the client supplies its id',
      success: { status: 200, description: 'The created item.', body: { one: storedItem } },
      errors: ['id-in-use', 'store-unavailable'],
    },
    method: 'POST',
    path: itemsPath,
    body: sentItem,
    execute: ({ body, space }) => space.items.create(body, body.id),
    toResponse: (outcome) => (typeof outcome === 'string' ? outcomeErrors[outcome] : json(200, outcome.json)),
  }),
  route({
    operation: 'updateItem',
    docs: {
      summary: 'Replace the item that has the id in the body',
      success: { status: 204, description: 'The item is replaced.' },
      errors: ['item-missing', 'store-unavailable'],
    },
    method: 'PUT',
    path: itemsPath,
    body: sentItem,
    execute: ({ body, space }) => space.items.update(body.id, body),
    toResponse: (outcome) => (typeof outcome === 'string' ? outcomeErrors[outcome] : noContent),
  }),
  route({
    operation: 'deleteItem',
    docs: {
      summary: 'Delete an item',
      success: { status: 204, description: 'The item is gone.' },
      errors: ['id-too-long', 'item-missing', 'store-unavailable'],
    },
    method: 'DELETE',
    path: `${itemsPath}/{id}`,
    id: { schema: id, parse: parseId },
    execute: ({ id, space }) => space.items.delete(id),
    toResponse: (outcome) => (outcome === 'deleted' ? noContent : outcomeErrors[outcome]),
  }),
]

/** B11: no item has an id that cannot be decoded. */
function parseId(segment: string | undefined): string | Rejection {
  if (segment === undefined) return new Rejection('item-missing')
  return isLongerThan(segment, maxIdLength) ? new Rejection('id-too-long') : segment
}

/** B4: the response to a body that is missing or invalid in any way. */
const missing = text(400, 'TodoItemNameAndNotesRequired')

/** B4–B9: the errors whose response is the same for each operation. */
const responses: Partial<Record<ErrorCode, Response>> = {
  'item-missing': text(404, 'RecordNotFound'),
  'id-in-use': text(409, 'TodoItemIDInUse'),
  'media-type-unsupported': missing,
  'body-malformed': missing,
  'body-invalid': missing,
  'path-unknown': empty(404),
  'too-many-requests': empty(429, retryAfter),
  // The request was not received, so no operation failed.
  'request-incomplete': empty(400),
  'request-timeout': empty(408),
  'headers-too-many': empty(431),
}

const codes: Partial<Record<string, string>> = {
  createItem: 'CouldNotCreateItem',
  updateItem: 'CouldNotUpdateItem',
  deleteItem: 'CouldNotDeleteItem',
}

/** B6: only three operations have a text code for other failures; the rest have an empty body. */
function anyOtherFailure(code: ErrorCode, operation = ''): Response {
  if (codes[operation]) return text(400, codes[operation])
  const { status } = errors[code]
  return status === 503 ? empty(status, retryAfter) : empty(status)
}

export const profileB: Profile = {
  name: 'b',
  title: 'Profile B',
  description:
    "To-do items by a native mobile client's contract: the client supplies ids, errors are plain-text codes.",
  defaultPort: 5000,
  defaultHttpsPort: 5001,
  collection,
  routes,
  itemSchema: sentItem,
  rules: {
    'media-type-unsupported': 'B4',
    'body-malformed': 'B4',
    'body-invalid': 'B4',
    'id-too-long': 'B11',
    'value-unstorable': 'B6',
    'body-too-large': 'B6',
  },
  met: {
    listItems: { 200: ['B1'] },
    createItem: { 200: ['B3'] },
    updateItem: { 204: ['B7'] },
    deleteItem: { 204: ['B8'] },
  },
  errorResponse: ({ code }, operation) => responses[code] ?? anyOtherFailure(code, operation),
}
