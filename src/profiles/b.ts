import { type Answer, empty, json, text } from '../http/answer.ts'
import { Refusal, type RefusalCode } from '../http/refusal.ts'
import { route } from '../http/route.ts'
import { isLonger, type Shape } from '../http/shape.ts'
import type { NamedItem, NamedStore } from '../store/store.ts'
import type { Profile } from './profile.ts'

const idLimit = 1024
/** B4: a blank string is a missing one. */
const notBlank = '\\S'

const fields = {
  id: { type: 'string', pattern: notBlank, maxLength: idLimit },
  name: { type: 'string', pattern: notBlank },
  notes: { type: 'string', pattern: notBlank },
  done: { type: 'boolean', default: false },
} as const satisfies Shape

const wire = ({ id, name, notes, done }: NamedItem) => JSON.stringify({ id, name, notes, done })

const items = '/api/todoitems'

const routes = (store: NamedStore) => [
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
    async handle({ body }) {
      const outcome = await store.create(body)
      return outcome === 'in-use' ? new Refusal('id-in-use') : json(200, wire(body))
    },
  }),
  route({
    operation: 'update',
    method: 'PUT',
    path: items,
    body: fields,
    async handle({ body }) {
      const outcome = await store.replace(body)
      return outcome === 'not-found' ? new Refusal('item-missing') : empty(204)
    },
  }),
  route({
    operation: 'delete',
    method: 'DELETE',
    path: `${items}/{id}`,
    id: readId,
    async handle({ id }) {
      const outcome = await store.delete(id)
      return outcome === 'not-found' ? new Refusal('item-missing') : empty(204)
    },
  }),
]

/** B11. */
function readId(segment: string | undefined): string | Refusal {
  if (segment === undefined) return new Refusal('item-missing')
  return isLonger(segment, idLimit) ? new Refusal('id-too-long') : segment
}

/** B6. An operation without a code of its own can only say that it failed. */
const anyOther = (operation = '') => (couldNot[operation] ? text(400, couldNot[operation]) : empty(500))

const couldNot: Record<string, string> = {
  create: 'CouldNotCreateItem',
  update: 'CouldNotUpdateItem',
  delete: 'CouldNotDeleteItem',
}

/** B4. */
const missing = text(400, 'TodoItemNameAndNotesRequired')

/** B4–B9. */
const failures: Partial<Record<RefusalCode, Answer>> = {
  'host-malformed': empty(400),
  'authorization-ambiguous': empty(400),
  'path-unknown': empty(404),
  'item-missing': text(404, 'RecordNotFound'),
  'id-in-use': text(409, 'TodoItemIDInUse'),
  'media-type-refused': missing,
  'body-malformed': missing,
  'body-invalid': missing,
}

export const profileB: Profile<'b'> = {
  name: 'b',
  title: 'Profile B',
  defaultPort: 5000,
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
  routes,
  refuse: ({ code }, operation) => failures[code] ?? anyOther(operation),
}
