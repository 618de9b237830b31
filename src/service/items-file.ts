import { readFileSync } from 'node:fs'
import { profiles } from '../app.ts'
import { escapeText } from '../common/escape.ts'
import { isObject } from '../common/json.ts'
import { StartError } from '../common/start-error.ts'
import { Rejection } from '../http/errors.ts'
import { int64, quoteNumbers } from '../http/int64.ts'
import { arrayCheck } from '../http/schema.ts'
import type { ItemA, ItemB, Snapshot } from '../store/store.ts'

/*
 * The file of `items export`, `items import` and `serve --items`:
 * { "a": [items of Profile A], "lastId": the highest id that Profile A has assigned, "b": [items of Profile B] }
 */

const { a: profileA, b: profileB } = profiles
const checks = {
  // A10: clients neither get nor send it, but it moves with the item.
  a: arrayCheck(
    { members: { ...profileA.itemSchema.members, secret: { type: 'string', nullable: true, default: null } } },
    'id',
  ),
  b: arrayCheck(profileB.itemSchema, 'id'),
}

/** An item per line, so that two files can be compared. */
export function formatItems({ a, b }: Required<Snapshot>): string {
  const array = (items: readonly string[]) =>
    items.length === 0 ? '[]' : `[\n${items.map((item) => `    ${item}`).join(',\n')}\n  ]`
  const itemsOfA = a.items.map((item) => {
    const json = profileA.serialize(item)
    return item.secret === null ? json : `${json.slice(0, -1)},"secret":${JSON.stringify(item.secret)}}`
  })
  const itemsOfB = b.items.map(profileB.serialize)
  return `{\n  "a": ${array(itemsOfA)},\n  "lastId": ${a.lastId},\n  "b": ${array(itemsOfB)}\n}\n`
}

/** Further mistakes are not listed. */
const maxProblems = 10

/** Reads a file, or standard input as `-`. */
export function readItemsFile(path: string): Snapshot | { readonly problems: readonly string[] } {
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

/** Returns every mistake. A profile that the file lacks is absent. */
function parseItems(text: string): Snapshot | { readonly problems: readonly string[] } {
  const json = text.replace(/^\ufeff/, '')
  let file: unknown
  try {
    file = JSON.parse(json)
  } catch (cause) {
    return { problems: [`It is not JSON: ${(cause as Error).message}.`] }
  }
  if (!isObject(file))
    return { problems: ['It must be an object such as { "a": [items of Profile A], "b": [items of Profile B] }.'] }
  const { a, b, lastId, ...unknown } = file
  const exact = JSON.parse(quoteNumbers(json))
  const problems = Object.keys(unknown).map(
    (name) => `There is no member ${JSON.stringify(name)}: use a, lastId and b.`,
  )
  const itemsOf = (name: 'a' | 'b', array: unknown): readonly object[] => {
    if (!Array.isArray(array)) {
      problems.push(`${name} must be an array of items.`)
      return []
    }
    const items = checks[name](array, exact[name])
    if (!(items instanceof Rejection)) return items
    problems.push(
      ...Object.values(items.members ?? {}).flatMap((messages) => messages.map((message) => `${name}${message}`)),
    )
    return []
  }
  const itemsOfA = a === undefined ? undefined : (itemsOf('a', a) as readonly ItemA[])
  const itemsOfB = b === undefined ? undefined : (itemsOf('b', b) as readonly ItemB[])
  const last = lastId === undefined ? '0' : typeof lastId === 'number' ? int64(exact.lastId) : undefined
  if (last === undefined) problems.push('lastId must be an int64.')
  if (problems.length > 0) return { problems }
  return {
    ...(itemsOfA && { a: { items: itemsOfA, lastId: `${last}` } }),
    ...(itemsOfB && { b: { items: itemsOfB } }),
  }
}

/** Returns the profiles with the starting items of a file; throws a `StartError` for a file that cannot be used. */
export function readStartingItems(path: string | undefined): typeof profiles {
  if (path === undefined) return profiles
  const snapshot = readItemsFile(path)
  if ('problems' in snapshot) throw new StartError(snapshot.problems.join(' '))
  const { a, b } = snapshot
  return {
    a: { ...profileA, ...(a && { startingItems: a.items }) },
    b: { ...profileB, ...(b && { startingItems: b.items }) },
  }
}
