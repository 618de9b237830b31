import {
  highestId,
  type IfMatch,
  type ItemA,
  type ItemB,
  maxInt64,
  type PersistentStores,
  type Representation,
  type Serializers,
  type Snapshot,
  type StoreA,
  type StoreB,
  UnavailableError,
} from '../store.ts'
import { Cache, type CacheOptions } from './cache.ts'
import { type Access, type Database, openDataFile, type Statement, type Value } from './file.ts'

export { DataFileError } from './file.ts'

export interface SqliteStores extends PersistentStores {
  counts(): { a: number; b: number }
  /** Whether the file is where it was when it was opened. */
  isInPlace(): boolean
}

interface SqliteOptions {
  readonly random: () => number
  readonly monotonicNow: () => number
  readonly access: Access
  /** Told that the file was deleted, moved or replaced. */
  notice?(message: string): void
}

/** With exclusive access, only people change the file by other means, such as the sqlite3 shell. */
const maxAgeMs = 100
const placeCheckIntervalMs = 1_000

/** Items in an SQLite file. Throws DataFileError. */
export function sqliteStores(
  path: string,
  { a, b }: Serializers,
  { random, access, monotonicNow, notice }: SqliteOptions,
): SqliteStores {
  const cacheOptions = { maxAgeMs: access === 'exclusive' ? maxAgeMs : 0, monotonicNow }
  // Entity tags are versions: those of another file differ.
  const firstVersion = Math.floor(random() * 2 ** 48)
  const file = openDataFile(path, access, (db) => {
    db.prepare('update lists set version = ?').run([firstVersion])
    numberedItems(db, a, cacheOptions).replaceAll(a.startingItems)
    namedItems(db, b, cacheOptions).replaceAll(b.startingItems)
  })
  const skipVersions = versionSkip(file, random)
  const itemsOfA = numberedItems(file, a, cacheOptions, skipVersions)
  const itemsOfB = namedItems(file, b, cacheOptions, skipVersions)
  const select = file.prepare('select 1')
  const checkPlace = setInterval(() => {
    if (file.isInPlace()) return
    clearInterval(checkPlace)
    notice?.(
      `The data file ${file.path} was deleted, moved or replaced while the service runs. Writes are rejected. The items can be read until the service stops: save them, stop it, and start it again.`,
    )
  }, placeCheckIntervalMs)
  checkPlace.unref()
  return {
    isInPlace: file.isInPlace,
    a: itemsOfA.store,
    b: itemsOfB.store,
    counts: () => ({ a: itemsOfA.count(), b: itemsOfB.count() }),
    exportItems: () => file.transaction('deferred', () => ({ a: itemsOfA.readAll(), b: itemsOfB.readAll() })),
    importItems(snapshot) {
      skipVersions()
      return file.transaction('immediate', () => {
        if (snapshot.a) itemsOfA.replaceAll(snapshot.a.items, snapshot.a.lastId)
        if (snapshot.b) itemsOfB.replaceAll(snapshot.b.items)
        return 'imported'
      })
    },
    async ping() {
      if (!file.isInPlace()) throw new UnavailableError(`The data file ${file.path} is gone.`)
      select.all([])
    },
    async close() {
      clearInterval(checkPlace)
      file.close()
    },
  }
}

/**
 * To be called before a change; the first time it skips versions. The file may be a restored backup: versions that were
 * used after the backup must not stand for other states.
 */
function versionSkip(db: Database, random: () => number): () => void {
  const skip = db.prepare('update lists set version = version + ?')
  let isDone = false
  return () => {
    if (!isDone) skip.run([1 + Math.floor(random() * 2 ** 32)])
    isDone = true
  }
}

/** A column of text. libsql cuts text at U+0000 when it reads it: such a text is read as bytes. */
const text = (column: string) =>
  `case when instr(cast(${column} as blob), x'00') then cast(${column} as blob) else ${column} end`

const toText = (value: Value | undefined) => (value === null ? null : `${value}`)

const etagOf = (version: Value | undefined) => `"${version}"`

/** The versions in entity tags, as a JSON array. */
const versionsIn = (etags: readonly string[]) =>
  `[${etags.flatMap((etag) => /^"(\d{1,15})"$/.exec(etag)?.[1] ?? []).join(',')}]`

const countOf = (statement: Statement) => Number(statement.all([])[0]?.[0])

function numberedItems(
  db: Database,
  { serialize }: Serializers['a'],
  cacheOptions: CacheOptions,
  beforeChange = () => {},
) {
  const nextVersion = "(select version + 1 from lists where profile = 'a')"
  const columns = `cast(id as text), ${text('name')}, is_complete`
  const selectRange = db.prepare(`select ${columns} from numbered_items where id between ? and ? order by id`)
  const selectAll = db.prepare(`select ${columns}, ${text('secret')} from numbered_items order by id`)
  const selectOne = db.prepare(`select ${text('name')}, is_complete, version from numbered_items where id = ?`)
  const selectId = db.prepare('select 1 from numbered_items where id = ?')
  const selectSecret = db.prepare(`select ${text('secret')} from numbered_items where id = ?`)
  const selectLastId = db.prepare("select cast(seq as text) from sqlite_sequence where name = 'numbered_items'")
  const selectCount = db.prepare('select count(*) from numbered_items')
  const insert = db.prepare(`
    insert into numbered_items (name, is_complete, version) values (?, ?, ${nextVersion})
    returning cast(id as text), version`)
  const insertWithId = db.prepare(`
    insert into numbered_items (id, name, is_complete, secret, version) values (?, ?, ?, ?, ${nextVersion})`)
  const changes = `update numbered_items set name = ?, is_complete = ?, version = ${nextVersion} where id = ?`
  const matches = 'version in (select value from json_each(?))'
  const update = db.prepare(changes)
  const updateIfMatch = db.prepare(`${changes} and ${matches}`)
  const remove = db.prepare('delete from numbered_items where id = ?')
  const removeIfMatch = db.prepare(`delete from numbered_items where id = ? and ${matches}`)
  const removeAll = db.prepare('delete from numbered_items')
  const removeLastId = db.prepare("delete from sqlite_sequence where name = 'numbered_items'")
  const insertLastId = db.prepare(
    "insert into sqlite_sequence (name, seq) values ('numbered_items', cast(? as integer))",
  )

  const readRows = (from: string, to: string) =>
    selectRange.all([from, to]).map(([key, name, isComplete]) => {
      const id = `${key}`
      return { key: id, json: serialize({ id, name: toText(name), isComplete: isComplete === 1, secret: null }) }
    })
  const cache = new Cache(db, 'a', readRows, cacheOptions)
  function readItem(id: string): Representation | 'not-found' {
    const [row] = selectOne.all([id])
    if (!row) return 'not-found'
    const [name, isComplete, version] = row
    const json = serialize({ id, name: toText(name), isComplete: isComplete === 1, secret: null })
    return cache.add(id, { json, etag: etagOf(version) })
  }
  const lastId = () => toText(selectLastId.all([])[0]?.[0]) ?? '0'

  /** Inside a write transaction. */
  function replaceAll(items: readonly ItemA[], last?: string): void {
    cache.expire()
    removeAll.run([])
    for (const { id, name, isComplete, secret } of items) insertWithId.run([id, name, isComplete ? 1 : 0, secret])
    removeLastId.run([])
    insertLastId.run([`${highestId(items, last)}`])
  }

  /** The outcome for an item that no statement has changed. */
  function unchanged(id: string, ifMatch: IfMatch): 'changed' | 'not-found' {
    return ifMatch && selectId.all([id]).length > 0 ? 'changed' : 'not-found'
  }

  const store: StoreA = {
    list: () => cache.list(),
    get: (id) => cache.item(id) ?? readItem(id),
    create({ name, isComplete }) {
      beforeChange()
      try {
        const [[id, version] = []] = insert.all([name, isComplete ? 1 : 0])
        const item = { id: `${id}`, name, isComplete, secret: null }
        cache.invalidate(item.id)
        return { id: item.id, json: serialize(item), etag: etagOf(version) }
      } catch (error) {
        // SQLite reports both as SQLITE_FULL: no room for data, and no next id.
        if (lastId() === maxInt64) return 'item-limit'
        throw error
      }
    },
    update(id, { name, isComplete }, ifMatch) {
      beforeChange()
      const parameters = [name, isComplete ? 1 : 0, id]
      const count = ifMatch ? updateIfMatch.run([...parameters, versionsIn(ifMatch)]) : update.run(parameters)
      if (count === 0) return unchanged(id, ifMatch)
      cache.invalidate(id)
      return 'updated'
    },
    delete(id, ifMatch) {
      beforeChange()
      const count = ifMatch ? removeIfMatch.run([id, versionsIn(ifMatch)]) : remove.run([id])
      if (count === 0) return unchanged(id, ifMatch)
      cache.invalidate(id)
      return 'deleted'
    },
    replaceAll(items) {
      beforeChange()
      db.transaction('immediate', () => replaceAll(items))
      return 'replaced'
    },
    secretOf(id) {
      const [row] = selectSecret.all([id])
      return row && toText(row[0])
    },
  }
  return {
    store,
    replaceAll,
    count: () => countOf(selectCount),
    readAll: (): NonNullable<Snapshot['a']> => ({
      items: selectAll.all([]).map(([id, name, isComplete, secret]) => ({
        id: `${id}`,
        name: toText(name),
        isComplete: isComplete === 1,
        secret: toText(secret),
      })),
      lastId: lastId(),
    }),
  }
}

function namedItems(
  db: Database,
  { serialize }: Serializers['b'],
  cacheOptions: CacheOptions,
  beforeChange = () => {},
) {
  const columns = `place, ${text('id')}, ${text('name')}, ${text('notes')}, done`
  const selectRange = db.prepare(`select ${columns} from named_items where place between ? and ? order by place`)
  const selectAll = db.prepare(`select ${columns} from named_items order by place`)
  const selectCount = db.prepare('select count(*) from named_items')
  const insert = db.prepare(`
    insert into named_items (id, name, notes, done) values (?, ?, ?, ?) on conflict (id) do nothing returning place`)
  const update = db.prepare('update named_items set name = ?, notes = ?, done = ? where id = ? returning place')
  const remove = db.prepare('delete from named_items where id = ? returning place')
  const removeAll = db.prepare('delete from named_items')

  const toItem = ([, id, name, notes, done]: Value[]): ItemB => ({
    id: `${id}`,
    name: `${name}`,
    notes: `${notes}`,
    done: done === 1,
  })
  const readRows = (from: string, to: string) =>
    selectRange.all([from, to]).map((row) => ({ key: `${row[0]}`, json: serialize(toItem(row)) }))
  const cache = new Cache(db, 'b', readRows, cacheOptions)

  /** Whether the statement has changed an item. */
  function change(statement: Statement, parameters: Value[]): boolean {
    beforeChange()
    const [row] = statement.all(parameters)
    if (row) cache.invalidate(`${row[0]}`)
    return row !== undefined
  }

  /** Inside a write transaction. */
  function replaceAll(items: readonly ItemB[]): void {
    cache.expire()
    removeAll.run([])
    for (const { id, name, notes, done } of items) insert.all([id, name, notes, done ? 1 : 0])
  }

  const store: StoreB = {
    list: () => cache.list(),
    create(item) {
      const { id, name, notes, done } = item
      return change(insert, [id, name, notes, done ? 1 : 0]) ? { json: serialize(item) } : 'in-use'
    },
    replace: ({ id, name, notes, done }) =>
      change(update, [name, notes, done ? 1 : 0, id]) ? 'replaced' : 'not-found',
    delete: (id) => (change(remove, [id]) ? 'deleted' : 'not-found'),
    replaceAll(items) {
      beforeChange()
      db.transaction('immediate', () => replaceAll(items))
      return 'replaced'
    },
  }
  return {
    store,
    replaceAll,
    count: () => countOf(selectCount),
    readAll: (): NonNullable<Snapshot['b']> => ({ items: selectAll.all([]).map(toItem) }),
  }
}
