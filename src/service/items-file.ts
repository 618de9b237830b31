import { readFileSync } from 'node:fs'
import { profiles } from '../app.ts'
import { escapeText } from '../common/escape.ts'
import { isObject } from '../common/json.ts'
import { nullable, object, string } from '../common/schema.ts'
import { StartError } from '../common/start-error.ts'
import { arrayCheck } from '../http/body-reader.ts'
import { Rejection } from '../http/errors.ts'
import { int64, quoteNumbers } from '../http/int64.ts'
import { isSpaceName } from '../http/spaces.ts'
import { documentsOf, type Profile, type ProfileName } from '../profiles/profile.ts'
import { type CollectionSnapshot, type Document, defaultSpace, type Snapshot, type Snapshots } from '../store/store.ts'

export { isSpaceName } from '../http/spaces.ts'

/*
 * The file of `items export`, `items import` and `serve --items`:
 * { "a": [items of Profile A], "lastId": the highest id that Profile A has assigned, "b": [items of Profile B] }
 * In a file of all spaces, these are the items of the default space, and "spaces" has such an object for each other
 * space.
 */

const { a: profileA, b: profileB } = profiles
/** The type text of PostgreSQL cannot hold U+0000. */
const withoutNul = '^[^\\0]*$'

const checks = {
  // A10: clients neither get nor send `secret`, but it is exported and imported with its item.
  a: arrayCheck(
    object({
      ...profileA.itemSchema.properties,
      secret: { ...nullable(string()), default: null, pattern: withoutNul },
    }),
    'id',
  ),
  b: arrayCheck(profileB.itemSchema, 'id'),
}

/** Formats the items of one space, or of all spaces: the default space first, then the others by name. */
export function formatItems(snapshots: Snapshots, isAll: boolean): string {
  if (!isAll) return `${[...snapshots.values()].map((snapshot) => formatSpace(snapshot, ''))}\n`
  const { [defaultSpace]: own = {}, ...others } = Object.fromEntries(snapshots)
  const spaces = Object.entries(others).map(
    ([name, snapshot]) => `    ${JSON.stringify(name)}: ${formatSpace(snapshot, '    ')}`,
  )
  const members = formatSpace(own, '').slice(1, -2)
  return `{${members},\n  "spaces": {${spaces.length === 0 ? '' : `\n${spaces.join(',\n')}\n  `}}\n}\n`
}

/** Writes one item per line, so that two files can be compared. */
function formatSpace({ a, b }: Snapshot, indent: string): string {
  const array = (items: readonly string[]) =>
    items.length === 0 ? '[]' : `[\n${items.map((item) => `${indent}    ${item}`).join(',\n')}\n${indent}  ]`
  const itemOf = ({ json, secret }: Document) =>
    secret === null ? json : `${json.slice(0, -1)},"secret":${JSON.stringify(secret)}}`
  const members = [
    ...(a ? [`"a": ${array(a.documents.map(itemOf))}`, `"lastId": ${a.lastNumber}`] : []),
    ...(b ? [`"b": ${array(b.documents.map(itemOf))}`] : []),
  ]
  return `{\n${members.map((member) => `${indent}  ${member}`).join(',\n')}\n${indent}}`
}

/** How many mistakes a message lists. */
const maxProblems = 10

export interface ItemsFile {
  readonly snapshots: Snapshots
  /** Whether this is a file of all spaces, not of one. */
  readonly isAll: boolean
}

type Problems = { readonly problems: readonly string[] }

/** Reads a file, or standard input if the path is `-`. */
export function readItemsFile(path: string): ItemsFile | Problems {
  const name = path === '-' ? 'standard input' : path
  let text: string
  try {
    text = readFileSync(path === '-' ? 0 : path, 'utf8')
  } catch (cause) {
    return { problems: [`Cannot read ${name}: ${(cause as NodeJS.ErrnoException).code}.`] }
  }
  const parsed = parseItems(text)
  if (!('problems' in parsed)) return parsed
  const { length } = parsed.problems
  const shown = parsed.problems.slice(0, maxProblems).map((problem) => escapeText(problem))
  const more = length > maxProblems ? [`${length - maxProblems} more mistakes.`] : []
  return { problems: [`The items in ${name} cannot be used.`, ...shown, ...more] }
}

const form = 'an object such as { "a": [items of Profile A], "b": [items of Profile B] }'

/** Returns the items, or every mistake in the file. */
function parseItems(text: string): ItemsFile | Problems {
  const json = text.replace(/^\ufeff/, '')
  let file: unknown
  try {
    file = JSON.parse(json)
  } catch (cause) {
    return { problems: [`It is not JSON: ${(cause as Error).message}.`] }
  }
  if (!isObject(file)) return { problems: [`It must be ${form}.`] }
  const exact = JSON.parse(quoteNumbers(json))
  const { spaces, ...own } = file
  const problems: string[] = []
  const snapshots = new Map([[defaultSpace, readSpace(own, exact, '', problems)]])
  if (spaces !== undefined && !isObject(spaces)) problems.push('spaces must be an object with a member for each space.')
  for (const [name, space] of Object.entries(isObject(spaces) ? spaces : {})) {
    const where = `spaces[${JSON.stringify(name)}]`
    if (!isSpaceName(name)) problems.push(`${where} is not the name of a space.`)
    if (isObject(space)) snapshots.set(name, readSpace(space, exact.spaces[name], `${where}.`, problems))
    else problems.push(`${where} must be ${form}.`)
  }
  return problems.length > 0 ? { problems } : { snapshots, isAll: spaces !== undefined }
}

/** Reads the items of a space. If it lacks a profile, so does the result. */
function readSpace(
  { a, b, lastId, ...unknown }: Readonly<Record<string, unknown>>,
  exact: Readonly<Record<string, unknown>>,
  where: string,
  problems: string[],
): Snapshot {
  for (const name of Object.keys(unknown))
    problems.push(`There is no member ${where}${JSON.stringify(name)}: use a, lastId and b.`)
  const read = (name: 'a' | 'b', array: unknown, lastNumber = '0'): Record<string, CollectionSnapshot> => {
    if (array === undefined) return {}
    if (!Array.isArray(array)) {
      problems.push(`${where}${name} must be an array of items.`)
      return {}
    }
    const items = checks[name](array, exact[name] as readonly unknown[])
    if (!(items instanceof Rejection))
      return { [name]: { documents: documentsOf(profiles[name].collection, items), lastNumber } }
    for (const messages of Object.values(items.members ?? {}))
      problems.push(...messages.map((message) => `${where}${name}${message}`))
    return {}
  }
  const last = lastId === undefined ? '0' : typeof lastId === 'number' ? int64(`${exact.lastId}`) : undefined
  if (last === undefined) problems.push(`${where}lastId must be an int64.`)
  return { ...read('a', a, last), ...read('b', b) }
}

/** Returns the profiles with the starting items from a file; throws a `StartError` if the file cannot be used. */
export function readStartingItems(path: string | undefined, served: Readonly<Record<ProfileName, Profile>> = profiles) {
  if (path === undefined) return served
  const file = readItemsFile(path)
  if ('problems' in file) throw new StartError(file.problems.join(' '))
  const { a, b } = file.snapshots.get(defaultSpace) ?? {}
  return {
    a: startingWith(served.a, a),
    b: startingWith(served.b, b),
  }
}

const startingWith = (profile: Profile, snapshot: CollectionSnapshot | undefined): Profile =>
  snapshot ? { ...profile, collection: { ...profile.collection, startingDocuments: snapshot.documents } } : profile
