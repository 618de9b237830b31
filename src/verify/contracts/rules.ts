import { rules } from '../../common/rules.ts'
import type { Unobservable } from '../engine/contract.ts'
import { prerequisites } from '../engine/expect.ts'

export const itemsPath = '/api/todoitems'
export const itemPath = (id: unknown) => `${itemsPath}/${encodeURIComponent(`${id}`)}`

/** What the checks of both profiles build on. */
export const { providing, setUp, observe, hasFailed } = prerequisites(
  'list',
  'create',
  'read',
  'twins',
  'listed',
  'delete',
  'update',
  'error codes',
  'document',
  '/',
  '/weatherforecast',
  '/secret',
  '/swagger/v1/swagger.json',
)

/** The name of a check that others build on. */
export type Prerequisite = Parameters<typeof observe>[0]

/** Parts of the rules that cannot be checked over HTTP. */
const unobservable: readonly Unobservable[] = [
  { rule: 'G7', what: 'a restart loses the items', reason: 'a check cannot restart the server' },
  { rule: 'G7', what: 'the number of items at the start', reason: 'another number may come from earlier requests' },
  { rule: 'G8', what: 'the cause of a failure is logged', reason: 'a check cannot read the log' },
  { rule: 'A4', what: 'the first id is 1', reason: 'an empty list does not show whether items existed before' },
  { rule: 'A10', what: "PUT keeps an item's stored secret", reason: 'no request can store or return a secret' },
  { rule: 'A15', what: 'store failures return 500 or 503', reason: 'a check cannot make the store fail' },
  { rule: 'B6', what: 'store failures return the CouldNot… codes', reason: 'a check cannot make the store fail' },
  { rule: 'S3', what: 'an expired token is rejected', reason: 'a check cannot sign a token' },
  { rule: 'S5', what: 'the page is served in development', reason: 'a check does not know the mode' },
  { rule: 'S5', what: 'the page lists and tries each operation', reason: 'a check does not run scripts' },
  { rule: 'B12', what: 'the port is 5000', reason: 'the port is part of the URL under test' },
]

/** What is stated for both profiles, and for the one with this letter. */
export const ofProfile = (letter: 'A' | 'B') => ({
  rules: rules.filter(({ id }) => `GS${letter}`.includes(id.charAt(0))),
  unobservable: unobservable.filter(({ rule: id }) => `GS${letter}`.includes(id.charAt(0))),
})
