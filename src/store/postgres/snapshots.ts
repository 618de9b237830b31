import { createHash } from 'node:crypto'
import type { Client } from 'pg'
import { highestId, type ItemA, type ItemB, type Snapshot, type Snapshots, type SpaceSummary } from '../store.ts'

export const tablesOf = (table: (name: string) => string) => ({
  /** A row for each space that was written to; its last id and last place are null until the profile was. */
  spaces: table('spaces'),
  a: table('items_a'),
  b: table('items_b'),
})

export type Tables = ReturnType<typeof tablesOf>

/** Primary key of an item of profile B: its id can be longer than an index entry allows. */
export const keyOf = (id: string) => createHash('sha256').update(id).digest()

/** Items as jsonb_to_recordset() reads them. */
export const rowTypes = {
  a: 'id bigint, name text, "isComplete" boolean, secret text',
  b: 'key text, place bigint, id text, name text, notes text, done boolean',
}

export const toRow = (item: ItemB, place: bigint) => ({
  ...item,
  key: keyOf(item.id).toString('hex'),
  place: `${place}`,
})

/**
 * Exactly the items of the snapshots in their spaces. A profile that a snapshot lacks stays as it is. Items that stay are
 * updated, never deleted.
 */
export async function replaceItems(
  client: Client,
  { spaces, a: itemsOfA, b: itemsOfB }: Tables,
  snapshots: Snapshots,
  version: string,
  deletesOthers: boolean,
): Promise<void> {
  const names = [...snapshots.keys()]
  const namesOf = (profile: keyof Snapshot) => names.filter((name) => snapshots.get(name)?.[profile])
  if (deletesOthers)
    for (const table of [itemsOfA, itemsOfB, spaces])
      await client.query(`delete from ${table} where not (space = any($1::text[]))`, [names])
  await client.query(
    `insert into ${spaces} (space) select space from unnest($1::text[]) as new (space) on conflict (space) do nothing`,
    [names],
  )
  // Creates wait for these rows until the end of the transaction.
  const locked = await client.query(
    `update ${spaces} set last_id = last_id where space = any($1::text[]) returning space, last_place`,
    [names],
  )
  const places = new Map(locked.rows.map((row) => [row.space, BigInt(row.last_place ?? 0)]))
  const send = async (statement: string, rowsOf: Rows, ...more: string[]) => {
    for (const json of jsonBatches(snapshots, rowsOf)) await client.query(statement, [json, ...more])
  }
  await send(
    `insert into ${itemsOfA} (space, id, name, is_complete, secret, version)
      select space, id, name, "isComplete", secret, $2
      from jsonb_to_recordset($1) as new (space text, ${rowTypes.a})
      on conflict (space, id) do update set name = excluded.name, is_complete = excluded.is_complete,
        secret = excluded.secret, version = excluded.version`,
    ({ a }) => a?.items ?? [],
    version,
  )
  await client.query(`delete from ${itemsOfA} where space = any($1::text[]) and version <> $2`, [namesOf('a'), version])
  await send(
    `insert into ${itemsOfB} (space, key, place, id, name, notes, done)
      select space, decode(key, 'hex'), place, id, name, notes, done
      from jsonb_to_recordset($1) as new (space text, ${rowTypes.b})
      on conflict (space, key) do update set place = excluded.place, name = excluded.name, notes = excluded.notes,
        done = excluded.done`,
    ({ b }, name) => {
      const last = places.get(name) ?? 0n
      return (b?.items ?? []).map((item, index) => toRow(item, last + BigInt(index + 1)))
    },
  )
  await client.query(
    `delete from ${itemsOfB} using ${spaces} as old
    where old.space = ${itemsOfB}.space and old.space = any($1::text[]) and place <= last_place`,
    [namesOf('b')],
  )
  await send(
    `insert into ${spaces} as old (space, last_id, last_place)
      select space, last_id, last_place from jsonb_to_recordset($1) as new (space text, last_id bigint, last_place bigint)
      on conflict (space) do update set last_id = coalesce(excluded.last_id, old.last_id),
        last_place = coalesce(excluded.last_place, old.last_place)`,
    ({ a, b }, name) => {
      const lastPlace = b && `${(places.get(name) ?? 0n) + BigInt(b.items.length)}`
      return [{ last_id: a && `${highestId(a.items, a.lastId)}`, last_place: lastPlace }]
    },
  )
}

type Rows = (snapshot: Snapshot, name: string) => readonly object[]

/** PostgreSQL ends a transaction while it waits for a long statement: many items are sent in several. */
const batchLength = 2 ** 20

/** JSON arrays of the rows, each with its space. */
function* jsonBatches(snapshots: Snapshots, rowsOf: Rows): Iterable<string> {
  let batch: string[] = []
  let length = 0
  for (const [space, snapshot] of snapshots)
    for (const row of rowsOf(snapshot, space)) {
      const json = JSON.stringify({ space, ...row })
      batch.push(json)
      length += json.length
      if (length < batchLength) continue
      yield `[${batch}]`
      batch = []
      length = 0
    }
  if (batch.length > 0) yield `[${batch}]`
}

/** Until the end of the transaction, each statement sees the same. */
export const onlyRead = (client: Client) => client.query('set transaction isolation level repeatable read, read only')

/** The items of this space, or of all. */
export async function readItems(
  client: Client,
  { spaces, a, b }: Tables,
  space: string | undefined,
): Promise<Snapshots> {
  const select = async (columns: string, table: string, order: string) => {
    const where = space === undefined ? '' : 'where space = $1'
    const parameters = space === undefined ? [] : [space]
    return (await client.query(`select ${columns} from ${table} ${where} order by ${order}`, parameters)).rows
  }
  const snapshots = new Map<string, { a?: { items: ItemA[]; lastId: string }; b?: { items: ItemB[] } }>()
  for (const { space, last_id, last_place } of await select('space, last_id, last_place', spaces, 'space'))
    snapshots.set(space, {
      ...(last_id !== null && { a: { items: [], lastId: last_id } }),
      ...(last_place !== null && { b: { items: [] } }),
    })
  for (const { space, ...item } of await select('space, id, name, is_complete as "isComplete", secret', a, 'space, id'))
    snapshots.get(space)?.a?.items.push(item as ItemA)
  for (const { space, ...item } of await select('space, id, name, notes, done', b, 'space, place'))
    snapshots.get(space)?.b?.items.push(item as ItemB)
  return snapshots
}

export async function listSpaces(client: Client, { spaces, a, b }: Tables): Promise<SpaceSummary[]> {
  await onlyRead(client)
  const count = async (table: string) => {
    const { rows } = await client.query(`select space, count(*) as items from ${table} group by space`)
    return new Map(rows.map((row) => [row.space, Number(row.items)]))
  }
  const [ofA, ofB] = [await count(a), await count(b)]
  const { rows } = await client.query(`select space, last_id, last_place from ${spaces} order by space`)
  return rows.map(({ space, last_id, last_place }) => ({
    name: space,
    items: {
      a: last_id === null ? undefined : (ofA.get(space) ?? 0),
      b: last_place === null ? undefined : (ofB.get(space) ?? 0),
    },
  }))
}

export async function deleteSpace(client: Client, { spaces, a, b }: Tables, space: string): Promise<void> {
  // Creates wait for this row until the end of the transaction.
  await client.query(`update ${spaces} set last_id = last_id where space = $1`, [space])
  for (const table of [a, b, spaces]) await client.query(`delete from ${table} where space = $1`, [space])
}
