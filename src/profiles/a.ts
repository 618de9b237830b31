import { boolean, type NamedSchema, nullable, object, type Schema, string, type ValueOf } from '../common/schema.ts'
import { conditionalResponse, ifMatch, putResponse } from '../http/conditional.ts'
import { errors, Rejection } from '../http/errors.ts'
import { int64 } from '../http/int64.ts'
import { hasRetryAfter, jsonType, noContent, retryAfter } from '../http/response.ts'
import { route } from '../http/router.ts'
import type { CollectionType } from '../store/store.ts'
import { etagHeader, itemsPath, listRoute, outcomeErrors, type Profile } from './profile.ts'

const id: Schema<string> = { type: 'integer', format: 'int64' }
const fields = { name: { ...nullable(string()), default: null }, isComplete: boolean() }
const example = { name: 'walk the dog', isComplete: false }

const newItem = { name: 'NewTodoItem', ...object(fields), example }
const fullItem = { name: 'TodoItemUpdate', ...object({ id, ...fields }), example: { id: 1, ...example } }
const storedItem: NamedSchema = { ...fullItem, name: 'TodoItem' }

/** A10: only these members are ever sent. */
const collection: CollectionType<ValueOf<typeof newItem>> = {
  name: 'a',
  keyMember: 'id',
  isNumbered: true,
  startingDocuments: [],
  serialize: ({ name, isComplete }) =>
    `"name":${name === null ? 'null' : JSON.stringify(name)},"isComplete":${isComplete}`,
}

const item = {
  path: `${itemsPath}/{id}`,
  id: { schema: id, parse: (segment: string | undefined) => int64(segment) ?? new Rejection('id-malformed') },
}

const routes = [
  listRoute(storedItem, 'id'),
  route({
    operation: 'createItem',
    docs: {
      summary: 'Create an item; the service assigns its id',
      success: {
        status: 201,
        description: 'The created item.',
        body: { one: storedItem },
        headers: { Location: 'The URI of the created item.', ...etagHeader },
      },
      errors: ['store-unavailable'],
    },
    method: 'POST',
    path: itemsPath,
    body: newItem,
    execute: ({ body, space }) => space.items.create(body),
    toResponse(created, input) {
      if (typeof created === 'string') return outcomeErrors[created]
      const location = `${input.baseUrl}${itemsPath}/${created.key}`
      return { status: 201, headers: { 'content-type': jsonType, location, etag: created.etag }, body: created.json }
    },
  }),
  route({
    ...item,
    operation: 'getItem',
    docs: {
      summary: 'Read one item',
      success: { status: 200, description: 'The item.', body: { one: storedItem }, headers: etagHeader },
      errors: ['id-malformed', 'item-missing', 'precondition-failed', 'store-unavailable'],
    },
    method: 'GET',
    execute: ({ id, space }) => space.items.get(id),
    toResponse: (found, input) => (found === 'not-found' ? outcomeErrors[found] : conditionalResponse(input, found)),
  }),
  route({
    ...item,
    operation: 'updateItem',
    docs: {
      summary: 'Change the name and completion of an item; the full item is expected',
      success: {
        status: 204,
        description: 'The item is changed. There is an ETag if a GET returns what was sent.',
        headers: etagHeader,
      },
      errors: ['id-malformed', 'ids-differ', 'item-missing', 'precondition-failed', 'store-unavailable'],
    },
    method: 'PUT',
    body: fullItem,
    execute: (input) =>
      input.body.id === input.id
        ? input.space.items.update(input.id, input.body, ifMatch(input))
        : new Rejection('ids-differ'),
    toResponse(outcome, input) {
      return typeof outcome === 'string' ? outcomeErrors[outcome] : putResponse(input, outcome)
    },
  }),
  route({
    ...item,
    operation: 'deleteItem',
    docs: {
      summary: 'Delete an item',
      success: { status: 204, description: 'The item is gone.' },
      errors: ['id-malformed', 'item-missing', 'precondition-failed', 'store-unavailable'],
    },
    method: 'DELETE',
    execute: (input) => input.space.items.delete(input.id, ifMatch(input)),
    toResponse: (outcome) => (outcome === 'deleted' ? noContent : outcomeErrors[outcome]),
  }),
]

/** RFC 9110 defines the statuses in order (400 in section 15.5.1, 500 in 15.6.1), except for these. */
const otherSections: Record<number, string> = { 429: 'rfc6585#section-4', 431: 'rfc6585#section-5' }
const sectionOf = (status: number) =>
  otherSections[status] ?? `rfc9110#section-15.${status < 500 ? 5 : 6}.${(status % 100) + 1}`

/** A13: the beginning of the problem document (RFC 9457) of each error; its end differs from request to request. */
const problemStarts: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(errors).map(([code, { status, title }]) => {
    const type = `https://www.rfc-editor.org/rfc/${sectionOf(status)}`
    return [code, JSON.stringify({ type, title, status }).slice(0, -1)]
  }),
)
const problemHeaders = { 'content-type': 'application/problem+json' }
const retryHeaders = { ...problemHeaders, ...retryAfter }

export const profileA: Profile = {
  name: 'a',
  title: 'Profile A',
  description: "To-do items by the classic web-API tutorial's contract: the service assigns numbers as ids.",
  defaultPort: 5080,
  defaultHttpsPort: 5081,
  collection,
  routes,
  itemSchema: fullItem,
  rules: {
    'id-malformed': 'A12',
    'media-type-unsupported': 'A14',
    'body-too-large': 'A14',
    'body-malformed': 'A14',
    'body-invalid': { isComplete: 'A6', name: 'A5', id: 'A8' },
    'value-unstorable': 'G5',
    'ids-differ': 'A8',
  },
  met: {
    listItems: { 200: ['A1'] },
    createItem: { 201: ['A3', 'A4'] },
    getItem: { 200: ['A2'] },
    updateItem: { 204: ['A7'] },
    deleteItem: { 204: ['A9'] },
  },
  errorResponse({ code, members }, _operation, { traceId }) {
    const { status } = errors[code]
    const headers = hasRetryAfter(status) ? retryHeaders : problemHeaders
    const end = members ? `,"errors":${JSON.stringify(members)}}` : '}'
    return { status, headers, body: `${problemStarts[code]},"traceId":"${traceId}"${end}` }
  },
}
