import { boolean, object, string, type ValueOf } from '../../src/common/schema.ts'
import { conditionalResponse, ifMatch } from '../../src/http/conditional.ts'
import { errors, Rejection } from '../../src/http/errors.ts'
import { json, noContent } from '../../src/http/response.ts'
import { route } from '../../src/http/router.ts'
import { documentsOf, outcomeErrors, type Profile } from '../../src/profiles/profile.ts'

/* A third contract: notes under a slug that the client gives, with errors in a form of their own. */

const slug = string(undefined, { maxLength: 100 })
const note = {
  name: 'Note',
  ...object({ slug, text: string(), isPinned: { ...boolean(), default: false } }),
  example: { slug: 'shopping', text: 'Milk, bread', isPinned: false },
}

const form = {
  keyMember: 'slug',
  serialize: ({ slug, text, isPinned }: ValueOf<typeof note>) =>
    `"slug":${JSON.stringify(slug)},"text":${JSON.stringify(text)},"isPinned":${isPinned}`,
}

const [path, tag] = ['/api/notes', 'Notes']
const one = {
  path: `${path}/{id}`,
  id: { schema: slug, parse: (slug: string | undefined) => slug ?? new Rejection('item-missing') },
}
const success = (status: number) => ({ status, description: 'Done.', ...(status === 200 && { body: { one: note } }) })

export const notes: Profile = {
  name: 'b',
  title: 'Notes',
  description: 'Notes under a slug.',
  defaultPort: 5000,
  defaultHttpsPort: 5001,
  collection: { name: 'notes', ...form, startingDocuments: documentsOf(form, [note.example]) },
  itemSchema: note,
  routes: [
    route({
      operation: 'listNotes',
      docs: { tag, summary: 'List', success: { status: 200, description: 'All.', body: { many: note } } },
      method: 'GET',
      path,
      execute: ({ space, request }) => space.items.list(request),
      toResponse: (list, input) => conditionalResponse(input, list),
    }),
    route({
      ...one,
      operation: 'getNote',
      docs: { tag, summary: 'Read', success: success(200), errors: ['item-missing', 'store-unavailable'] },
      method: 'GET',
      execute: ({ id, space }) => space.items.get(id),
      toResponse: (found, input) => (found === 'not-found' ? outcomeErrors[found] : conditionalResponse(input, found)),
    }),
    route({
      ...one,
      operation: 'putNote',
      docs: { tag, summary: 'Create or replace', success: success(204) },
      method: 'PUT',
      body: note,
      async execute(input) {
        const { id, body, space } = input
        const changed = await space.items.update(id, { ...body, slug: id }, ifMatch(input))
        return changed === 'not-found' ? space.items.create({ ...body, slug: id }, id) : changed
      },
      toResponse: (outcome) => (typeof outcome === 'string' ? outcomeErrors[outcome] : noContent),
    }),
  ],
  rules: {},
  met: {},
  errorResponse: ({ code }) => json(errors[code].status, JSON.stringify({ error: code })),
}
