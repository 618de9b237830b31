import {
  etagOf,
  highestId,
  type IfMatch,
  type ItemA,
  type ItemB,
  type ListRepresentation,
  maxInt64,
  type PersistentStores,
  type Serializers,
  type Snapshot,
  type StoreA,
  type StoreB,
  type Stores,
  versionsIn,
} from '../store.ts'
import { DataFile, lockTimeoutMs, type OpenOptions, type SqlValue } from './file.ts'
import { WriteQueue } from './write-queue.ts'

export interface SqliteStores extends PersistentStores {
  counts(): { a: number; b: number }
  /** Tells whether the file is where it was when it was opened. */
  isInPlace(): boolean
}

interface SqliteOptions extends Omit<OpenOptions, 'initialize'> {
  readonly random: () => number
}

/** Opens stores in an SQLite file. Throws a StartError. */
export function sqliteStores(path: string, { a, b }: Serializers, { random, ...options }: SqliteOptions): SqliteStores {
  const initialize = (file: DataFile) => {
    // Entity tags are versions: those of another file differ.
    file.prepare('update lists set version = ?').run([Math.floor(random() * 2 ** 48)])
    numberedItems(file, a).replaceAll(a.startingItems)
    namedItems(file, b).replaceAll(b.startingItems)
  }
  const file = new DataFile(path, { ...options, initialize })
  const queue = new WriteQueue(lockTimeoutMs[options.access], options.monotonicNow, file.writes)
  const itemsOfA = numberedItems(file, a)
  const itemsOfB = namedItems(file, b)
  const selectCounts = file.prepare('select (select count(*) from numbered_items), (select count(*) from named_items)')
  const skip = file.prepare('update lists set version = version + ?')
  let hasSkipped = false
  /**
   * Called before each change, skips versions until one is committed: the file may be a restored backup, and versions
   * that were used after the backup must not stand for other states.
   */
  const skipVersions = () => {
    if (!hasSkipped) skip.run([1 + Math.floor(random() * 2 ** 32)])
  }
  /** Executes the operation in a transaction, maybe later. */
  const transaction = <Parameters extends unknown[], Outcome>(operation: (...parameters: Parameters) => Outcome) =>
    queue.wrap((...parameters: Parameters) => {
      const outcome = file.write(() => operation(...parameters))
      // There may have been no change.
      if (outcome !== 'changed') hasSkipped = true
      return outcome
    })
  const writing = <Parameters extends unknown[], Outcome>(operation: (...parameters: Parameters) => Outcome) =>
    transaction((...parameters: Parameters) => {
      skipVersions()
      return operation(...parameters)
    })
  /** Entity tags are compared before versions are skipped. */
  const replacing = <Item>(list: () => ListRepresentation, replaceAll: (items: readonly Item[]) => void) =>
    transaction((items: readonly Item[], ifMatch?: IfMatch) => {
      if (ifMatch && !ifMatch.includes(list().etag)) return 'changed'
      skipVersions()
      replaceAll(items)
      return 'replaced'
    })
  return {
    isInPlace: () => file.isInPlace(),
    a: {
      list: itemsOfA.list,
      get: itemsOfA.get,
      create: writing(itemsOfA.create),
      update: writing(itemsOfA.update),
      delete: writing(itemsOfA.delete),
      replaceAll: replacing(itemsOfA.list, itemsOfA.replaceAll),
    },
    b: {
      list: itemsOfB.list,
      create: writing(itemsOfB.create),
      replace: writing(itemsOfB.replace),
      delete: writing(itemsOfB.delete),
      replaceAll: replacing(itemsOfB.list, itemsOfB.replaceAll),
    },
    counts() {
      const [a, b] = selectCounts.get([]) ?? []
      return { a: Number(a), b: Number(b) }
    },
    exportItems: () => file.transaction('deferred', () => ({ a: itemsOfA.readAll(), b: itemsOfB.readAll() })),
    importItems: writing(({ a, b }: Snapshot) => {
      if (a) itemsOfA.replaceAll(a.items, a.lastId)
      if (b) itemsOfB.replaceAll(b.items)
      return 'replaced'
    }),
    async ping() {
      file.check()
    },
    async close() {
      queue.close()
      file.close()
    },
  }
}

/** The versions in entity tags as a JSON array. */
const jsonVersions = (etags: IfMatch) => (etags ? `[${versionsIn(etags)}]` : null)

/** json_object() would write a column with 0 or 1 as a number. */
const jsonBoolean = (column: string) => `json(iif(${column} = 1, 'true', 'false'))`

/** Reads the list again when its version has changed. It is read as bytes: libsql aborts on a text of 512 MiB. */
function listReader(file: DataFile, profile: keyof Stores, selectJson: string): () => ListRepresentation {
  const select = file.prepare(`
    select version, iif(version = ?, null, (select cast(json as blob) from (${selectJson})))
    from lists where profile = '${profile}'`)
  let last: ListRepresentation & { readonly version: SqlValue } = { version: null, etag: '', json: '' }
  return () => {
    const [version, json] = select.get([last.version]) as [SqlValue, Buffer | null]
    if (json) last = { version, etag: etagOf(`${version}`), json: [json] }
    return last
  }
}

function numberedItems(file: DataFile, { serialize }: Serializers['a']) {
  const nextVersion = "(select version + 1 from lists where profile = 'a')"
  const fields = `'name', name, 'isComplete', ${jsonBoolean('is_complete')}`
  const item = `json_object('id', id, ${fields})`
  const selectOne = file.prepare(`select ${item}, version from numbered_items where id = ?`)
  const selectAll = file.prepare(`
    select json_object('id', cast(id as text), ${fields}, 'secret', secret) from numbered_items order by id`)
  const selectId = file.prepare('select 1 from numbered_items where id = ?')
  const selectLastId = file.prepare("select cast(seq as text) from sqlite_sequence where name = 'numbered_items'")
  const insert = file.prepare(`
    insert into numbered_items (name, is_complete, version) values (?, ?, ${nextVersion})
    returning cast(id as text), version`)
  const insertWithId = file.prepare(`
    insert into numbered_items (id, name, is_complete, secret, version) values (?, ?, ?, ?, ${nextVersion})`)
  const matches = 'id = ?1 and (?2 is null or version in (select value from json_each(?2)))'
  const update = file.prepare(`
    update numbered_items set name = ?3, is_complete = ?4, version = ${nextVersion} where ${matches} returning version`)
  const remove = file.prepare(`delete from numbered_items where ${matches}`)
  const removeAll = file.prepare('delete from numbered_items')
  const removeLastId = file.prepare("delete from sqlite_sequence where name = 'numbered_items'")
  const insertLastId = file.prepare(
    "insert into sqlite_sequence (name, seq) values ('numbered_items', cast(? as integer))",
  )

  const lastId = () => `${selectLastId.get([])?.[0] ?? 0}`

  function replaceAll(items: readonly ItemA[], last?: string): void {
    removeAll.run([])
    for (const { id, name, isComplete, secret } of items) insertWithId.run([id, name, isComplete ? 1 : 0, secret])
    removeLastId.run([])
    insertLastId.run([`${highestId(items, last)}`])
  }

  /** Why no item has the id and one of the entity tags. */
  const mismatch = (id: string, ifMatch: IfMatch) => (ifMatch && selectId.get([id]) ? 'changed' : 'not-found')

  const operations = {
    list: listReader(file, 'a', `select json_group_array(${item} order by id) as json from numbered_items`),
    get(id) {
      const row = selectOne.get([id])
      return row ? { json: `${row[0]}`, etag: etagOf(`${row[1]}`) } : 'not-found'
    },
    create({ name, isComplete }) {
      try {
        const [id, version] = insert.get([name, isComplete ? 1 : 0]) ?? []
        const item = { id: `${id}`, name, isComplete, secret: null }
        return { id: item.id, json: serialize(item), etag: etagOf(`${version}`) }
      } catch (error) {
        // SQLite reports both as SQLITE_FULL: no room for data, and no next id.
        if (lastId() === maxInt64) return 'item-limit'
        throw error
      }
    },
    update(id, { name, isComplete }, ifMatch) {
      const row = update.get([id, jsonVersions(ifMatch), name, isComplete ? 1 : 0])
      if (!row) return mismatch(id, ifMatch)
      return { etag: etagOf(`${row[0]}`) }
    },
    delete(id, ifMatch) {
      return remove.run([id, jsonVersions(ifMatch)]) > 0 ? 'deleted' : mismatch(id, ifMatch)
    },
  } satisfies Omit<StoreA, 'replaceAll'>
  return {
    ...operations,
    replaceAll,
    readAll: (): NonNullable<Snapshot['a']> => ({
      items: selectAll.all([]).map(([json]) => JSON.parse(`${json}`)),
      lastId: lastId(),
    }),
  }
}

function namedItems(file: DataFile, { serialize }: Serializers['b']) {
  const item = `json_object('id', id, 'name', name, 'notes', notes, 'done', ${jsonBoolean('done')})`
  const selectAll = file.prepare(`select ${item} from named_items order by place`)
  const insert = file.prepare(
    'insert into named_items (id, name, notes, done) values (?, ?, ?, ?) on conflict (id) do nothing',
  )
  const update = file.prepare('update named_items set name = ?, notes = ?, done = ? where id = ?')
  const remove = file.prepare('delete from named_items where id = ?')
  const removeAll = file.prepare('delete from named_items')

  function replaceAll(items: readonly ItemB[]): void {
    removeAll.run([])
    for (const { id, name, notes, done } of items) insert.run([id, name, notes, done ? 1 : 0])
  }

  const operations = {
    list: listReader(file, 'b', `select json_group_array(${item} order by place) as json from named_items`),
    create(item) {
      const { id, name, notes, done } = item
      return insert.run([id, name, notes, done ? 1 : 0]) > 0 ? { json: serialize(item) } : 'in-use'
    },
    replace: ({ id, name, notes, done }) =>
      update.run([name, notes, done ? 1 : 0, id]) > 0 ? 'replaced' : 'not-found',
    delete: (id) => (remove.run([id]) > 0 ? 'deleted' : 'not-found'),
  } satisfies Omit<StoreB, 'replaceAll'>
  return {
    ...operations,
    replaceAll,
    readAll: (): NonNullable<Snapshot['b']> => ({ items: selectAll.all([]).map(([json]) => JSON.parse(`${json}`)) }),
  }
}
