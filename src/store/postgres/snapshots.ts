import { createHash } from 'node:crypto'
import type { Client } from 'pg'
import {
  type CollectionSnapshot,
  type CollectionType,
  type Document,
  highestNumber,
  type Snapshots,
  type SpaceSummary,
  startingStateOf,
} from '../store.ts'
import type { SqlParameters } from './statements.ts'

export const tablesOf = (table: (name: string) => string) => ({
  /** A row for each collection of a space that was written to, with its last place. */
  collections: table('collections'),
  documents: table('documents'),
})

export type Tables = ReturnType<typeof tablesOf>

/** Returns the column with the keys of documents: a numbered document has its number in `place`. */
export const keyColumnOf = ({ isNumbered }: CollectionType) => (isNumbered ? 'place' : 'key')

/** Returns a key as it is stored: as a hash, because a key can be longer than an index entry may be. */
export const hashOf = (key: string) => createHash('sha256').update(key).digest()

const columns = 'space, place, key, content, secret'

/** The values of `columns`. */
type Row = readonly [string, string, Buffer | null, string, string | null]

/** Returns the rows of documents. Documents without numbers get the places after `last`. */
const rowsOf = (type: CollectionType, space: string, documents: readonly Document[], last = 0n): Row[] =>
  documents.map(({ key, json, secret }, index) =>
    type.isNumbered
      ? [space, key, null, json, secret]
      : [space, `${last + BigInt(index + 1)}`, hashOf(key), json, secret],
  )

/** Returns the parameters $1 to $5 of `insertRows`. */
const columnsOf = (rows: readonly Row[]): SqlParameters =>
  [0, 1, 2, 3, 4].map((column) => rows.map((row) => row[column] ?? null))

/** Inserts rows from $1 to $5, with the version $6. */
const insertRows = ({ documents }: Tables, { name }: CollectionType) =>
  `insert into ${documents} (collection, version, ${columns})
    select '${name}', $6::bigint, ${columns}
    from unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[]) as new (${columns})`

/** Returns the last place of a collection that has exactly these documents. */
const lastPlaceOf = (type: CollectionType, { documents, lastNumber }: CollectionSnapshot, last = 0n) =>
  type.isNumbered ? highestNumber(documents, lastNumber) : last + BigInt(documents.length)

/** Creates a collection with its starting documents if it does not exist. */
export const makeCollection = (tables: Tables, type: CollectionType) =>
  `with made as (insert into ${tables.collections} (space, collection, last) values ($7, '${type.name}', $8)
      on conflict (space, collection) do nothing returning space)
    ${insertRows(tables, type)} join made using (space)`

export function startingRows(type: CollectionType, space: string): SqlParameters {
  const { startingDocuments: documents } = type
  const last = lastPlaceOf(type, { documents, lastNumber: '0' })
  return [...columnsOf(rowsOf(type, space, documents)), startingStateOf(type).version, space, `${last}`]
}

/**
 * Stores exactly the documents of the snapshots in their spaces. A collection that a snapshot lacks stays as it is. A
 * document that exists is updated.
 */
export async function replaceItems(
  client: Client,
  tables: Tables,
  types: readonly CollectionType[],
  snapshots: Snapshots,
  version: string,
  deletesOthers = false,
): Promise<'replaced'> {
  const { collections, documents } = tables
  if (deletesOthers)
    for (const table of [documents, collections])
      await client.query(`delete from ${table} where not (space = any($1::text[]))`, [[...snapshots.keys()]])
  for (const type of types) {
    const { name } = type
    const replaced = [...snapshots].flatMap(([space, { [name]: snapshot }]) => (snapshot ? [{ space, snapshot }] : []))
    const spaces = replaced.map(({ space }) => space)
    if (spaces.length === 0) continue
    // Locks these rows, so that statements which create items wait for the end of the transaction.
    const { rows } = await client.query(
      `insert into ${collections} as existing (space, collection, last)
        select space, '${name}', 0 from unnest($1::text[]) as new (space)
        on conflict (space, collection) do update set last = existing.last returning space, last`,
      [spaces],
    )
    const last = new Map<string, bigint>(rows.map((row) => [row.space, BigInt(row.last)]))
    const inserted = replaced.flatMap(({ space, snapshot }) => rowsOf(type, space, snapshot.documents, last.get(space)))
    for (const batch of batchesOf(inserted))
      await client.query(
        `${insertRows(tables, type)}
          on conflict (space, collection, ${keyColumnOf(type)}) do update set place = excluded.place,
            version = excluded.version, content = excluded.content, secret = excluded.secret`,
        [...columnsOf(batch), version],
      )
    await client.query(
      `delete from ${documents} where space = any($1::text[]) and collection = '${name}' and version <> $2`,
      [spaces, version],
    )
    await client.query(
      `insert into ${collections} (space, collection, last)
        select space, '${name}', last from unnest($1::text[], $2::bigint[]) as new (space, last)
        on conflict (space, collection) do update set last = excluded.last`,
      [spaces, replaced.map(({ space, snapshot }) => `${lastPlaceOf(type, snapshot, last.get(space))}`)],
    )
  }
  return 'replaced'
}

/** Many documents take several statements: while a long one is sent, PostgreSQL would end the transaction. */
const batchLength = 2 ** 20

function* batchesOf(rows: readonly Row[]): Iterable<Row[]> {
  let batch: Row[] = []
  let length = 0
  for (const row of rows) {
    batch.push(row)
    length += row[3].length
    if (length < batchLength) continue
    yield batch
    batch = []
    length = 0
  }
  if (batch.length > 0) yield batch
}

/** Reads the documents of this space, or of all spaces if it is undefined. */
export async function readItems(
  client: Client,
  { collections, documents }: Tables,
  types: readonly CollectionType[],
  space: string | undefined,
): Promise<Snapshots> {
  const select = async (columns: string, table: string, order: string) => {
    const text = `select ${columns} from ${table} where $1::text is null or space = $1 order by ${order}`
    return (await client.query(text, [space ?? null])).rows
  }
  const snapshots = new Map<string, Record<string, CollectionSnapshot & { readonly documents: Document[] }>>()
  const typeOf = new Map(types.map((type) => [type.name, type]))
  for (const { space, collection, last } of await select('space, collection, last', collections, 'space')) {
    const lastNumber = typeOf.get(collection)?.isNumbered ? last : '0'
    snapshots.set(space, { ...snapshots.get(space), [collection]: { documents: [], lastNumber } })
  }
  const rows = await select('space, collection, place, content as json, secret', documents, 'space, collection, place')
  for (const { space, collection, place, json, secret } of rows) {
    const { isNumbered, keyMember = '' } = typeOf.get(collection) ?? {}
    const key = isNumbered ? place : `${JSON.parse(json)[keyMember]}`
    snapshots.get(space)?.[collection]?.documents.push({ key, json, secret })
  }
  return snapshots
}

export async function listSpaces(client: Client, { collections, documents }: Tables): Promise<SpaceSummary[]> {
  const { rows } = await client.query(
    `select space, collection, count(place) as items
    from ${collections} left join ${documents} using (space, collection)
    group by space, collection order by space`,
  )
  const summaries = new Map<string, Record<string, number>>()
  for (const { space, collection, items } of rows)
    summaries.set(space, { ...summaries.get(space), [collection]: Number(items) })
  return [...summaries].map(([name, items]) => ({ name, items }))
}

export async function deleteSpace(client: Client, { collections, documents }: Tables, space: string): Promise<void> {
  // Locks these rows, so that statements which create items wait for the end of the transaction.
  await client.query(`update ${collections} set last = last where space = $1`, [space])
  for (const table of [documents, collections]) await client.query(`delete from ${table} where space = $1`, [space])
}
