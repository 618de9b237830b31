import { joinParts, KnownLists, ListReads, LongReads, lengthOf, maxWholeBytes, partBytes } from '../list-reads.ts'
import {
  type Awaitable,
  defaultSpace,
  etagOf,
  type IfMatch,
  type ItemA,
  type ItemB,
  isRefusal,
  type ListRepresentation,
  maxInt64,
  type PersistentSpaces,
  type Reader,
  type ReplaceOutcome,
  type Serializer,
  type Serializers,
  type Snapshot,
  type SpaceSummary,
  type StoreA,
  type StoreB,
  startingStateOf,
  versionsIn,
  WithdrawnError,
} from '../store.ts'
import { DataFile, lockTimeoutMs, type OpenOptions, type SqlValue } from './file.ts'
import { jsonBoolean } from './snapshots.ts'
import { writeQueue } from './write-queue.ts'

export interface SqliteSpaces extends PersistentSpaces {
  counts(): { a: number; b: number }
  /** Tells whether the file is where it was when it was opened. */
  isInPlace(): boolean
}

interface SqliteOptions extends Omit<OpenOptions, 'initialize'> {
  readonly random: () => number
}

/** Opens items in an SQLite file. Throws a StartError. */
export function sqliteSpaces(path: string, { a, b }: Serializers, { random, ...options }: SqliteOptions): SqliteSpaces {
  const write: Write = (space, ensure, operation, refuse) =>
    queue.run(() => {
      const outcome = file.write(() => {
        const refusal = refuse?.()
        if (refusal) return refusal
        ensure(space)
        skipVersions(space)
        return operation()
      })
      if (!isRefusal(outcome)) rememberSkipped(space)
      return outcome
    })
  // Entity tags are versions: those of another space or another file differ.
  const context = { write, longReads: new LongReads(), newVersion: () => Math.floor(random() * 2 ** 48) }
  const openItems = (file: DataFile) => [numberedItems(file, a, context), namedItems(file, b, context)] as const
  const initialize = (file: DataFile) => {
    for (const items of openItems(file)) items.make(defaultSpace)
  }
  const file = new DataFile(path, { ...options, initialize })
  const queue = writeQueue(lockTimeoutMs[options.access], options.monotonicNow, file.writes)
  const [itemsOfA, itemsOfB] = openItems(file)
  const selectSpaces = file.prepare(`
    select space, iif(last_id is null, null, (select count(*) from items_a where items_a.space = spaces.space)),
      iif(last_place is null, null, (select count(*) from items_b where items_b.space = spaces.space))
    from spaces order by space`)
  const removals = ['items_a', 'items_b', 'spaces'].map((table) => file.prepare(`delete from ${table} where space = ?`))
  const selectCounts = file.prepare('select (select count(*) from items_a), (select count(*) from items_b)')
  const skip = file.prepare('update spaces set version_a = version_a + ?1, version_b = version_b + ?1 where space = ?2')
  const skipped = new Set<string>()
  /**
   * Called before each change, skips versions until one is committed: the file may be a restored backup, and versions
   * that were used after the backup must not stand for other states.
   */
  const skipVersions = (space: string) => {
    if (!skipped.has(space)) skip.run([1 + Math.floor(random() * 2 ** 32), space])
  }
  const rememberSkipped = (space: string) => {
    // To skip versions once more does no harm.
    if (skipped.size >= maxSkippedSpaces) skipped.clear()
    skipped.add(space)
  }

  const listSpaces = (): SpaceSummary[] =>
    selectSpaces.all([]).map(([name, a, b]) => ({
      name: `${name}`,
      items: { a: (a as number) ?? undefined, b: (b as number) ?? undefined },
    }))

  function remove(space: string): void {
    for (const statement of removals) statement.run([space])
  }

  function importInto(space: string, { a, b }: Snapshot): void {
    if (a) itemsOfA.ensure(space)
    if (b) itemsOfB.ensure(space)
    skipVersions(space)
    if (a) itemsOfA.replaceAll(space, a.items, a.lastId)
    if (b) itemsOfB.replaceAll(space, b.items)
  }

  return {
    isInPlace: () => file.isInPlace(),
    space: (name) => ({ a: itemsOfA.store(name), b: itemsOfB.store(name) }),
    listSpaces,
    deleteSpace: (name) => queue.run(() => file.write(() => remove(name))),
    counts() {
      const [a, b] = selectCounts.get([]) ?? []
      return { a: Number(a), b: Number(b) }
    },
    importItems: (snapshots, deletesOthers) =>
      queue.run(() =>
        file.write(() => {
          if (deletesOthers) for (const { name } of listSpaces()) if (!snapshots.has(name)) remove(name)
          for (const [space, snapshot] of snapshots) importInto(space, snapshot)
          return 'replaced' as const
        }),
      ),
    async ping() {
      file.check()
    },
    async close() {
      queue.close()
      file.close()
    },
  }
}

const maxSkippedSpaces = 10_000

/**
 * Executes an operation in a transaction, maybe later. A space that does not exist is made, unless the operation is
 * refused: by its outcome, or by `refuse`, which sees the list as it was before the space is made and versions are skipped.
 */
type Write = <Outcome>(
  space: string,
  ensure: (space: string) => void,
  operation: () => Outcome,
  refuse?: () => Outcome | undefined,
) => Awaitable<Outcome>

interface TableContext {
  readonly write: Write
  readonly longReads: LongReads
  newVersion(): number
}

/** The versions in entity tags as a JSON array. */
const jsonVersions = (etags: IfMatch) => (etags ? `[${versionsIn(etags)}]` : null)

/** The lists that were read last. */
const maxKeptBytes = 16 * 2 ** 20
/** Of a list that is read at once. */
const maxWholeItems = 10_000
/** Of a part. It grows: to find out how long items are, SQLite reads them. */
const [minPartItems, maxPartItems] = [16, 1_024]
const partsAtOnce = maxWholeBytes / partBytes
/** Lower than every id and place. */
const beforeAll = '-1e19'

interface TableSettings<Item> {
  readonly profile: 'a' | 'b'
  /** The column by which lists are ordered. */
  readonly order: 'id' | 'place'
  /** An item of a list. */
  readonly json: string
  /** About its bytes. */
  readonly length: string
  /** Without a version, the item gets that of this change. */
  insert(space: string, item: Item, version: string | null): unknown
}

/** The items of a profile in all spaces, as far as both profiles have the same. */
function itemTable<Item extends { readonly id: string }>(
  file: DataFile,
  serializer: Serializer<Item>,
  { profile, order, json, length, insert }: TableSettings<Item>,
  { write, longReads, newVersion }: TableContext,
) {
  const [items, version] = [`items_${profile}`, `version_${profile}`]
  // It is not null once the profile was written to.
  const last = `last_${order}`
  const selectWritten = file.prepare(`select 1 from spaces where space = ? and ${last} is not null`)
  const insertSpace = file.prepare(`
    insert into spaces (space, ${last}, version_a, version_b) values (?, 0, ?, ?)
    on conflict (space) do update set ${last} = excluded.${last}, ${version} = excluded.${version}`)
  const isShort = `(
    select count(*) <= ${maxWholeItems} and ifnull(sum(bytes), 0) <= ${maxWholeBytes}
    from (select ${length} as bytes from ${items} where space = ?1 limit ${maxWholeItems} + 1))`
  // Text is read as bytes: libsql aborts on one of 512 MiB.
  const selectList = file.prepare(`
    select ${version}, case
      when ${version} = ?2 then null
      when ${isShort} then (select cast(json_group_array(${json} order by ${order}) as blob) from ${items} where space = ?1)
      else '' end
    from spaces where space = ?1 and ${last} is not null`)
  const selectVersion = `select ${version} from spaces where space = ? and ${last} is not null`
  const selectVersionNow = file.prepare(selectVersion)
  const selectEnd = `
    select cast(max(${order}) as text), count(*)
    from (select ${order}, bytes, sum(bytes) over (order by ${order}) as total from (
      select ${order}, ${length} as bytes from ${items} where space = ? and ${order} > ? order by ${order} limit ?))
    where total - bytes < ${partBytes}`
  const selectPart = `
    select cast(',' || group_concat(${json}, ',' order by ${order}) as blob)
    from ${items} where space = ? and ${order} > ? and ${order} <= ?`
  const selectLast = file.prepare(`select cast(${last} as text) from spaces where space = ?`)
  const setLast = file.prepare(`update spaces set ${last} = cast(? as integer) where space = ?`)
  const removeAll = file.prepare(`delete from ${items} where space = ?`)
  const starting = startingStateOf(serializer)
  const startingList = { json: starting.list, etag: etagOf(starting.version) }
  const known = new KnownLists<SqlValue>(maxKeptBytes)
  const lists = new ListReads({ read: readLong, isLong: () => true, longReads })

  /** Whether the space has its own items. */
  const isWritten = (space: string) => space === defaultSpace || selectWritten.get([space]) !== undefined

  /** Makes the space with its starting items. */
  function make(space: string): void {
    insertSpace.run([space, newVersion(), newVersion()])
    for (const item of serializer.startingItems) insert(space, item, space === defaultSpace ? null : starting.version)
  }

  function ensure(space: string): void {
    if (!isWritten(space)) make(space)
  }

  const representation = (version: SqlValue, buffers: readonly Buffer[]) => ({
    json: buffers,
    etag: etagOf(`${version}`),
  })

  /** Reads a list again when its version has changed. */
  function list(space: string, reader?: Reader): Awaitable<ListRepresentation> {
    const last = known.get(space)
    const kept = last?.buffers?.deref()
    if (!kept && last && last.bytes > maxWholeBytes) return lists.list(space, reader)
    const row = selectList.get([space, (kept && last?.version) ?? null])
    if (!row) return startingList
    const [version = null, json] = row
    if (kept && json === null) return representation(version, kept)
    return Buffer.isBuffer(json) ? remember(space, version, [json]) : lists.list(space, reader)
  }

  function remember(space: string, version: SqlValue, buffers: readonly Buffer[]): ListRepresentation {
    known.set(space, version, lengthOf(buffers), buffers)
    return representation(version, buffers)
  }

  function etagOfList(space: string): string {
    const row = selectVersionNow.get([space])
    return row ? etagOf(`${row[0]}`) : startingList.etag
  }

  /** Reads the list in parts, between which other requests are served. */
  function readLong(space: string, isWanted: () => boolean): Promise<ListRepresentation> {
    return file.readSnapshot(async (prepare, pause) => {
      const [version] = prepare(selectVersion).get([space]) ?? []
      if (version === undefined) return startingList
      const last = known.get(space)
      const kept = last?.version === version ? last.buffers?.deref() : undefined
      if (kept) return representation(version, kept)
      const [end, part] = [prepare(selectEnd), prepare(selectPart)]
      const parts: Buffer[] = []
      let [begin, limit]: [SqlValue, number] = [beforeAll, minPartItems]
      for (;;) {
        const [last = null, count]: SqlValue[] = end.get([space, begin, limit]) ?? []
        if (last === null) return remember(space, version, joinParts(parts))
        parts.push(part.get([space, begin, last])?.[0] as Buffer)
        begin = last
        limit = Math.min(maxPartItems, 2 * Number(count))
        if (parts.length % partsAtOnce === 0) await pause()
        if (!isWanted()) throw new WithdrawnError()
      }
    })
  }

  /** The last id is that of an item, or `lastId` where that is higher. */
  function replaceAll(space: string, all: readonly Item[], lastId = '0'): ReplaceOutcome {
    removeAll.run([space])
    setLast.run([lastId, space])
    for (const item of all) insert(space, item, null)
    return 'replaced'
  }

  return {
    starting,
    isWritten,
    make,
    ensure,
    list,
    replaceAll,
    lastOf: (space: string) => `${selectLast.get([space])?.[0]}`,
    write: <Outcome>(space: string, operation: () => Outcome) => write(space, ensure, operation),
    writeAll: (space: string, all: readonly Item[], ifMatch: IfMatch) =>
      write(
        space,
        ensure,
        () => replaceAll(space, all),
        () => (ifMatch && !ifMatch.includes(etagOfList(space)) ? 'changed' : undefined),
      ),
  }
}

function numberedItems(file: DataFile, serializer: Serializers['a'], context: TableContext) {
  const nextVersion = '(select version_a + 1 from spaces where space = ?1)'
  const json = `json_object('id', id, 'name', name, 'isComplete', ${jsonBoolean('is_complete')})`
  const selectOne = file.prepare(`select ${json}, version from items_a where space = ? and id = ?`)
  const insert = file.prepare(`
    insert into items_a (space, id, name, is_complete, version)
    select space, last_id + 1, ?2, ?3, version_a + 1 from spaces where space = ?1
    returning cast(id as text), version`)
  const insertWithId = file.prepare(`
    insert into items_a (space, id, name, is_complete, secret, version)
    values (?1, ?2, ?3, ?4, ?5, ifnull(?6, ${nextVersion}))`)
  const matches = 'space = ?1 and id = ?2 and (?3 is null or version in (select value from json_each(?3)))'
  const update = file.prepare(`
    update items_a set name = ?4, is_complete = ?5, version = ${nextVersion} where ${matches} returning version`)
  const remove = file.prepare(`delete from items_a where ${matches}`)
  const settings: TableSettings<ItemA> = {
    profile: 'a',
    order: 'id',
    json,
    length: '40 + ifnull(octet_length(name), 0)',
    insert: (space, { id, name, isComplete, secret }, version) =>
      insertWithId.run([space, id, name, isComplete ? 1 : 0, secret, version]),
  }
  const table = itemTable(file, serializer, settings, context)
  const { starting, write } = table

  /** Why no item has the id and one of the entity tags. */
  const mismatch = (space: string, id: string, ifMatch: IfMatch) =>
    ifMatch && selectOne.get([space, id]) ? 'changed' : 'not-found'

  const store = (space: string): StoreA => ({
    list: (reader) => table.list(space, reader),
    replaceAll: (items, ifMatch) => table.writeAll(space, items, ifMatch),
    get(id) {
      const read = () => selectOne.get([space, id])
      let row = read()
      const json = starting.items.get(id)
      if (!row && json !== undefined) {
        if (!table.isWritten(space)) return { json, etag: etagOf(starting.version) }
        // Another process may have made the space meanwhile.
        row = read()
      }
      return row ? { json: `${row[0]}`, etag: etagOf(`${row[1]}`) } : 'not-found'
    },
    create: ({ name, isComplete }) =>
      write(space, () => {
        try {
          const [id, version] = insert.get([space, name, isComplete ? 1 : 0]) ?? []
          const item = { id: `${id}`, name, isComplete, secret: null }
          return { id: item.id, json: serializer.serialize(item), etag: etagOf(`${version}`) }
        } catch (error) {
          // The next id would not be an integer.
          if (table.lastOf(space) === maxInt64) return 'item-limit'
          throw error
        }
      }),
    update: (id, { name, isComplete }, ifMatch) =>
      write(space, () => {
        const row = update.get([space, id, jsonVersions(ifMatch), name, isComplete ? 1 : 0])
        return row ? { etag: etagOf(`${row[0]}`) } : mismatch(space, id, ifMatch)
      }),
    delete: (id, ifMatch) =>
      write(space, () =>
        remove.run([space, id, jsonVersions(ifMatch)]) > 0 ? 'deleted' : mismatch(space, id, ifMatch),
      ),
  })
  return { ...table, store }
}

function namedItems(file: DataFile, serializer: Serializers['b'], context: TableContext) {
  const json = `json_object('id', id, 'name', name, 'notes', notes, 'done', ${jsonBoolean('done')})`
  const insert = file.prepare(`
    insert into items_b (space, place, id, name, notes, done)
    select space, last_place + 1, ?2, ?3, ?4, ?5 from spaces where space = ?1 on conflict (space, id) do nothing`)
  const update = file.prepare('update items_b set name = ?, notes = ?, done = ? where space = ? and id = ?')
  const remove = file.prepare('delete from items_b where space = ? and id = ?')
  const insertOne = (space: string, { id, name, notes, done }: ItemB) =>
    insert.run([space, id, name, notes, done ? 1 : 0]) > 0
  const settings = {
    profile: 'b',
    order: 'place',
    json,
    length: '40 + octet_length(id) + octet_length(name) + octet_length(notes)',
    insert: insertOne,
  } as const
  const table = itemTable(file, serializer, settings, context)
  const { write } = table

  const store = (space: string): StoreB => ({
    list: (reader) => table.list(space, reader),
    replaceAll: (items, ifMatch) => table.writeAll(space, items, ifMatch),
    create: (item) => write(space, () => (insertOne(space, item) ? { json: serializer.serialize(item) } : 'in-use')),
    replace: ({ id, name, notes, done }) =>
      write(space, () => (update.run([name, notes, done ? 1 : 0, space, id]) > 0 ? 'replaced' : 'not-found')),
    delete: (id) => write(space, () => (remove.run([space, id]) > 0 ? 'deleted' : 'not-found')),
  })
  return { ...table, store }
}
