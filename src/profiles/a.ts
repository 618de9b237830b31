import { empty, json } from '../http/answer.ts'
import { int64 } from '../http/int64.ts'
import { Refusal, type RefusalCode } from '../http/refusal.ts'
import { route } from '../http/route.ts'
import type { Shape } from '../http/shape.ts'
import type { NumberedItem, NumberedStore } from '../store/store.ts'
import type { Profile } from './profile.ts'

const fields = {
  name: { type: 'string', nullable: true, default: null },
  isComplete: { type: 'boolean' },
} as const satisfies Shape

const fullItem = { id: { type: 'integer', format: 'int64' }, ...fields } as const satisfies Shape

/** A10: what is not written here never leaves the store. */
const wire = ({ id, name, isComplete }: NumberedItem) =>
  `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`

const items = '/api/todoitems'
const item = {
  path: `${items}/{id}`,
  id: (segment: string | undefined) => int64(segment) ?? new Refusal('id-malformed'),
}

const routes = (store: NumberedStore) => [
  route({
    operation: 'list',
    method: 'GET',
    path: items,
    handle: async () => json(200, `[${(await store.list()).map(wire).join(',')}]`),
  }),
  route({
    operation: 'create',
    method: 'POST',
    path: items,
    body: fields,
    async handle({ body, baseUrl }) {
      const created = await store.create(body)
      return json(201, wire(created), { location: `${baseUrl}${items}/${created.id}` })
    },
  }),
  route({
    ...item,
    operation: 'read',
    method: 'GET',
    async handle({ id }) {
      const found = await store.get(id)
      return found === 'not-found' ? new Refusal('item-missing') : json(200, wire(found))
    },
  }),
  route({
    ...item,
    operation: 'update',
    method: 'PUT',
    body: fullItem,
    async handle({ id, body }) {
      if (body.id !== id) return new Refusal('ids-differ')
      const outcome = await store.update(id, body)
      return outcome === 'not-found' ? new Refusal('item-missing') : empty(204)
    },
  }),
  route({
    ...item,
    operation: 'delete',
    method: 'DELETE',
    async handle({ id }) {
      const outcome = await store.delete(id)
      return outcome === 'not-found' ? new Refusal('item-missing') : empty(204)
    },
  }),
]

type Failure = readonly [status: number, section: string, title: string]

/** A15. */
const anyOther: Failure = [500, '15.6.1', 'The service could not answer this request.']

/** A8, A12–A14. Each status has a section of RFC 9110. */
const failures: Partial<Record<RefusalCode, Failure>> = {
  'host-malformed': [400, '15.5.1', 'The Host header is malformed.'],
  'authorization-ambiguous': [400, '15.5.1', 'There is more than one Authorization header.'],
  'path-unknown': [404, '15.5.5', 'There is nothing at this path.'],
  'item-missing': [404, '15.5.5', 'No item has this id.'],
  'id-malformed': [400, '15.5.1', 'The id in the path is not an int64.'],
  'ids-differ': [400, '15.5.1', 'The id in the path differs from the id in the body.'],
  'body-malformed': [400, '15.5.1', 'The body must be one JSON object in UTF-8.'],
  'body-invalid': [400, '15.5.1', 'One or more members of the body are invalid.'],
  'value-refused': [400, '15.5.1', 'One or more members of the body are invalid.'],
  'body-too-large': [413, '15.5.14', 'The body is too large.'],
  'media-type-refused': [415, '15.5.16', 'The body must be sent as application/json in UTF-8.'],
}

export const profileA: Profile<'a'> = {
  name: 'a',
  title: 'Profile A',
  defaultPort: 5080,
  startingItems: [],
  routes,
  refuse({ code, errors }, _operation, traceId) {
    const [status, section, title] = failures[code] ?? anyOther
    const type = `https://www.rfc-editor.org/rfc/rfc9110#section-${section}`
    const problem = JSON.stringify({ type, title, status, traceId, errors })
    return { status, headers: { 'content-type': 'application/problem+json' }, body: problem }
  },
}
