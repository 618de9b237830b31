import {
  defaultSpace,
  etagOf,
  highestId,
  type IfMatch,
  type ItemA,
  type ItemB,
  isRefusal,
  type ListRepresentation,
  maxInt64,
  type PersistentSpaces,
  RecentValues,
  type Serializers,
  type Snapshot,
  type Snapshots,
  type SpaceSummary,
  type StoreA,
  startingStateOf,
  versionsIn,
} from '../store.ts'
import { DataFile, lockTimeoutMs, type OpenOptions, type SqlValue } from './file.ts'
import { WriteQueue } from './write-queue.ts'

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
  // Entity tags are versions: those of another space or another file differ.
  const newVersion = () => Math.floor(random() * 2 ** 48)
  const initialize = (file: DataFile) => {
    numberedItems(file, a, newVersion).make(defaultSpace, null)
    namedItems(file, b, newVersion).make(defaultSpace)
  }
  const file = new DataFile(path, { ...options, initialize })
  const queue = new WriteQueue(lockTimeoutMs[options.access], options.monotonicNow, file.writes)
  const itemsOfA = numberedItems(file, a, newVersion)
  const itemsOfB = namedItems(file, b, newVersion)
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

  /**
   * Executes an operation in a transaction, maybe later. A space that does not exist is made, unless the operation is
   * refused. Entity tags of the list are compared before: they change when the space is made and when versions are skipped.
   */
  const writing = <Parameters extends unknown[], Outcome>(
    items: ProfileItems,
    operation: (space: string, ...parameters: Parameters) => Outcome,
    refuse: (space: string, ...parameters: Parameters) => Outcome | undefined = () => undefined,
  ) =>
    queue.wrap((space: string, ...parameters: Parameters) => {
      try {
        const outcome = file.write(() => {
          const refusal = refuse(space, ...parameters)
          if (refusal) return refusal
          const isNew = !items.isWritten(space)
          if (isNew) items.make(space)
          skipVersions(space)
          const outcome = operation(space, ...parameters)
          if (isNew && isRefusal(outcome)) throw new Rollback(outcome)
          return outcome
        })
        // There may have been no change.
        if (!isRefusal(outcome)) rememberSkipped(space)
        return outcome
      } catch (error) {
        if (error instanceof Rollback) return error.outcome as Outcome
        throw error
      }
    })
  const replacing = <Item>(items: ProfileItems, replaceAll: (space: string, items: readonly Item[]) => void) =>
    writing<[items: readonly Item[], ifMatch?: IfMatch], 'replaced' | 'changed'>(
      items,
      (space, all) => {
        replaceAll(space, all)
        return 'replaced'
      },
      (space, _, ifMatch) => (ifMatch && !ifMatch.includes(items.list(space).etag) ? 'changed' : undefined),
    )
  const write = {
    createA: writing(itemsOfA, itemsOfA.create),
    updateA: writing(itemsOfA, itemsOfA.update),
    deleteA: writing(itemsOfA, itemsOfA.delete),
    replaceA: replacing(itemsOfA, itemsOfA.replaceAll),
    createB: writing(itemsOfB, itemsOfB.create),
    replaceOneB: writing(itemsOfB, itemsOfB.replace),
    deleteB: writing(itemsOfB, itemsOfB.delete),
    replaceB: replacing(itemsOfB, itemsOfB.replaceAll),
  }
  const spaces = spaceRows(file)

  function importInto(space: string, { a, b }: Snapshot): void {
    for (const items of [a && itemsOfA, b && itemsOfB]) if (items && !items.isWritten(space)) items.make(space)
    skipVersions(space)
    if (a) itemsOfA.replaceAll(space, a.items, a.lastId)
    if (b) itemsOfB.replaceAll(space, b.items)
  }
  const importItems = queue.wrap((snapshots: Snapshots, deletesOthers = false) =>
    file.write(() => {
      if (deletesOthers) spaces.deleteOthers([...snapshots.keys()])
      for (const [space, snapshot] of snapshots) importInto(space, snapshot)
      return 'replaced' as const
    }),
  )
  return {
    isInPlace: () => file.isInPlace(),
    space: (name) => ({
      a: {
        list: () => itemsOfA.list(name),
        get: (id) => itemsOfA.get(name, id),
        create: (fields) => write.createA(name, fields),
        update: (id, fields, ifMatch) => write.updateA(name, id, fields, ifMatch),
        delete: (id, ifMatch) => write.deleteA(name, id, ifMatch),
        replaceAll: (items, ifMatch) => write.replaceA(name, items, ifMatch),
      },
      b: {
        list: () => itemsOfB.list(name),
        create: (item) => write.createB(name, item),
        replace: (item) => write.replaceOneB(name, item),
        delete: (id) => write.deleteB(name, id),
        replaceAll: (items, ifMatch) => write.replaceB(name, items, ifMatch),
      },
    }),
    listSpaces: spaces.list,
    deleteSpace: queue.wrap((name: string) => file.write(() => spaces.delete(name))),
    counts() {
      const [a, b] = selectCounts.get([]) ?? []
      return { a: Number(a), b: Number(b) }
    },
    exportItems: (name) =>
      file.transaction('deferred', () => {
        const names = name === undefined ? spaces.list().map(({ name }) => name) : [name]
        const snapshots = names.map((name): [string, Snapshot] => [
          name,
          {
            ...(itemsOfA.isWritten(name) && { a: itemsOfA.readAll(name) }),
            ...(itemsOfB.isWritten(name) && { b: itemsOfB.readAll(name) }),
          },
        ])
        return new Map(snapshots.filter(([, { a, b }]) => a || b))
      }),
    importItems,
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

/** What an operation returns that is undone. */
class Rollback {
  readonly outcome: unknown

  constructor(outcome: unknown) {
    this.outcome = outcome
  }
}

/** The items of a profile in all spaces. */
interface ProfileItems {
  /** Whether the space has its own items. */
  isWritten(space: string): boolean
  /** Makes the space with its starting items. */
  make(space: string): void
  list(space: string): ListRepresentation
}

/** The versions in entity tags as a JSON array. */
const jsonVersions = (etags: IfMatch) => (etags ? `[${versionsIn(etags)}]` : null)

/** json_object() would write a column with 0 or 1 as a number. */
const jsonBoolean = (column: string) => `json(iif(${column} = 1, 'true', 'false'))`

/** Lists of other spaces than the default one are kept in memory if they are not longer, those that were read last. */
const maxKeptBytes = 64 * 1024
const maxKeptLists = 100

type ReadList = ListRepresentation & { readonly version: SqlValue }

interface ProfileColumns {
  /** The column of the table of spaces that is not null once the profile was written to. */
  readonly counter: 'last_id' | 'last_place'
  /** The one that counts the changes of the list. */
  readonly version: 'version_a' | 'version_b'
}

/** What the items of both profiles share: the row of their space, and their list. */
function spaceItems(
  file: DataFile,
  { counter, version }: ProfileColumns,
  selectJson: string,
  starting: ReturnType<typeof startingStateOf>,
  newVersion: () => number,
) {
  const selectWritten = file.prepare(`select 1 from spaces where space = ? and ${counter} is not null`)
  const insert = file.prepare(`
    insert into spaces (space, ${counter}, version_a, version_b) values (?, 0, ?, ?)
    on conflict (space) do update set ${counter} = excluded.${counter}, ${version} = excluded.${version}`)
  const select = file.prepare(`
    select ${version}, iif(${version} = ?2, null, (select cast(json as blob) from (${selectJson})))
    from spaces where space = ?1 and ${counter} is not null`)
  const startingList = { json: starting.list, etag: etagOf(starting.version) }
  let listOfDefault: ReadList | undefined
  const others = new RecentValues<ReadList>(maxKeptLists)
  return {
    isWritten: (space: string) => space === defaultSpace || selectWritten.get([space]) !== undefined,
    /** Makes the space without items. */
    insertSpace: (space: string) => void insert.run([space, newVersion(), newVersion()]),
    /** Reads a list again when its version has changed. It is read as bytes: libsql aborts on a text of 512 MiB. */
    list(space: string): ListRepresentation {
      const last = space === defaultSpace ? listOfDefault : others.get(space)
      const row = select.get([space, last?.version ?? null]) as [SqlValue, Buffer | null] | undefined
      if (!row) return startingList
      const [version, json] = row
      const list = json ? { version, etag: etagOf(`${version}`), json: [json] } : (last as ReadList)
      if (space === defaultSpace) listOfDefault = list
      else if (json && json.length > maxKeptBytes) others.delete(space)
      else others.set(space, list)
      return list
    },
  }
}

function numberedItems(file: DataFile, { startingItems, serialize }: Serializers['a'], newVersion: () => number) {
  const nextVersion = '(select version_a + 1 from spaces where space = ?1)'
  const fields = `'name', name, 'isComplete', ${jsonBoolean('is_complete')}`
  const item = `json_object('id', id, ${fields})`
  const starting = startingStateOf({ startingItems, serialize })
  const { isWritten, insertSpace, list } = spaceItems(
    file,
    { counter: 'last_id', version: 'version_a' },
    `select json_group_array(${item} order by id) as json from items_a where space = ?1`,
    starting,
    newVersion,
  )
  const selectOne = file.prepare(`select ${item}, version from items_a where space = ? and id = ?`)
  const selectAll = file.prepare(`
    select json_object('id', cast(id as text), ${fields}, 'secret', secret) from items_a where space = ? order by id`)
  const selectId = file.prepare('select 1 from items_a where space = ? and id = ?')
  const selectLastId = file.prepare('select cast(last_id as text) from spaces where space = ?')
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
  const removeAll = file.prepare('delete from items_a where space = ?')
  const setLastId = file.prepare('update spaces set last_id = cast(? as integer) where space = ?')

  const lastId = (space: string) => `${selectLastId.get([space])?.[0]}`

  function insertAll(space: string, items: readonly ItemA[], version: string | null): void {
    for (const { id, name, isComplete, secret } of items)
      insertWithId.run([space, id, name, isComplete ? 1 : 0, secret, version])
  }

  /** Why no item has the id and one of the entity tags. */
  const mismatch = (space: string, id: string, ifMatch: IfMatch) =>
    ifMatch && selectId.get([space, id]) ? 'changed' : 'not-found'

  function get(space: string, id: string) {
    const read = () => selectOne.get([space, id])
    let row = read()
    const json = starting.items.get(id)
    if (!row && json !== undefined) {
      if (!isWritten(space)) return { json, etag: etagOf(starting.version) }
      // Another process may have made the space meanwhile.
      row = read()
    }
    return row ? { json: `${row[0]}`, etag: etagOf(`${row[1]}`) } : 'not-found'
  }

  return {
    isWritten,
    make(space: string, version: string | null = starting.version): void {
      insertSpace(space)
      insertAll(space, startingItems, version)
    },
    list,
    get,
    create(space: string, { name, isComplete }: Parameters<StoreA['create']>[0]) {
      try {
        const [id, version] = insert.get([space, name, isComplete ? 1 : 0]) ?? []
        const item = { id: `${id}`, name, isComplete, secret: null }
        return { id: item.id, json: serialize(item), etag: etagOf(`${version}`) }
      } catch (error) {
        // The next id would not be an integer.
        if (lastId(space) === maxInt64) return 'item-limit'
        throw error
      }
    },
    update(space: string, ...[id, { name, isComplete }, ifMatch]: Parameters<StoreA['update']>) {
      const row = update.get([space, id, jsonVersions(ifMatch), name, isComplete ? 1 : 0])
      return row ? { etag: etagOf(`${row[0]}`) } : mismatch(space, id, ifMatch)
    },
    delete(space: string, ...[id, ifMatch]: Parameters<StoreA['delete']>) {
      return remove.run([space, id, jsonVersions(ifMatch)]) > 0 ? 'deleted' : mismatch(space, id, ifMatch)
    },
    replaceAll(space: string, items: readonly ItemA[], last?: string): void {
      removeAll.run([space])
      insertAll(space, items, null)
      setLastId.run([`${highestId(items, last)}`, space])
    },
    readAll: (space: string): NonNullable<Snapshot['a']> => ({
      items: selectAll.all([space]).map(([json]) => JSON.parse(`${json}`)),
      lastId: lastId(space),
    }),
  }
}

function namedItems(file: DataFile, { startingItems, serialize }: Serializers['b'], newVersion: () => number) {
  const item = `json_object('id', id, 'name', name, 'notes', notes, 'done', ${jsonBoolean('done')})`
  const { isWritten, insertSpace, list } = spaceItems(
    file,
    { counter: 'last_place', version: 'version_b' },
    `select json_group_array(${item} order by place) as json from items_b where space = ?1`,
    startingStateOf({ startingItems, serialize }),
    newVersion,
  )
  const selectAll = file.prepare(`select ${item} from items_b where space = ? order by place`)
  const insert = file.prepare(`
    insert into items_b (space, place, id, name, notes, done)
    select space, last_place + 1, ?2, ?3, ?4, ?5 from spaces where space = ?1 on conflict (space, id) do nothing`)
  const update = file.prepare('update items_b set name = ?, notes = ?, done = ? where space = ? and id = ?')
  const remove = file.prepare('delete from items_b where space = ? and id = ?')
  const removeAll = file.prepare('delete from items_b where space = ?')

  const insertOne = (space: string, { id, name, notes, done }: ItemB) =>
    insert.run([space, id, name, notes, done ? 1 : 0]) > 0

  return {
    isWritten,
    make(space: string): void {
      insertSpace(space)
      for (const item of startingItems) insertOne(space, item)
    },
    list,
    create: (space: string, item: ItemB) => (insertOne(space, item) ? { json: serialize(item) } : 'in-use'),
    replace: (space: string, { id, name, notes, done }: ItemB) =>
      update.run([name, notes, done ? 1 : 0, space, id]) > 0 ? 'replaced' : 'not-found',
    delete: (space: string, id: string) => (remove.run([space, id]) > 0 ? 'deleted' : 'not-found'),
    replaceAll(space: string, items: readonly ItemB[]): void {
      removeAll.run([space])
      for (const item of items) insertOne(space, item)
    },
    readAll: (space: string): NonNullable<Snapshot['b']> => ({
      items: selectAll.all([space]).map(([json]) => JSON.parse(`${json}`)),
    }),
  }
}

function spaceRows(file: DataFile) {
  const select = file.prepare(`
    select space, iif(last_id is null, null, (select count(*) from items_a where items_a.space = spaces.space)),
      iif(last_place is null, null, (select count(*) from items_b where items_b.space = spaces.space))
    from spaces order by space`)
  const tables = ['items_a', 'items_b', 'spaces']
  const remove = tables.map((table) => file.prepare(`delete from ${table} where space = ?`))
  const removeOthers = tables.map((table) =>
    file.prepare(`delete from ${table} where space not in (select value from json_each(?))`),
  )
  return {
    list: (): SpaceSummary[] =>
      select.all([]).map(([name, a, b]) => ({
        name: `${name}`,
        items: { a: (a as number) ?? undefined, b: (b as number) ?? undefined },
      })),
    delete(name: string): void {
      for (const statement of remove) statement.run([name])
    },
    deleteOthers(names: readonly string[]): void {
      for (const statement of removeOthers) statement.run([JSON.stringify(names)])
    },
  }
}
