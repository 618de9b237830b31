import { joinParts, KnownLists, LongReads, lengthOf, listReads, maxWholeBytes, partBytes } from '../list-reads.ts'
import { StartingCollection, type StoredCollection } from '../starting.ts'
import {
  type Awaitable,
  type CollectionType,
  type Document,
  defaultSpace,
  etagOf,
  type IfMatch,
  isRefusal,
  jsonOf,
  type ListRepresentation,
  maxInt64,
  type PersistentSpaces,
  type Reader,
  startingStateOf,
  WithdrawnError,
} from '../store.ts'
import { DataFile, lockTimeoutMs, type OpenOptions, type SqlValue } from './file.ts'
import { writeQueue } from './write-queue.ts'

export interface SqliteSpaces extends PersistentSpaces {
  /** Number of documents of all spaces, by collection. */
  counts(): Record<string, number>
  /** Whether the path still names the file that was opened. */
  isInPlace(): boolean
}

interface SqliteOptions extends Omit<OpenOptions, 'initialize'> {
  readonly random: () => number
}

/** Opens documents in an SQLite file. Throws a StartError if it cannot be used. */
export function sqliteSpaces(
  path: string,
  types: readonly CollectionType[],
  { random, ...options }: SqliteOptions,
): SqliteSpaces {
  let isWriting = false
  const write: Write = (operation, committed) => {
    if (isWriting) return operation()
    return queue.run(() => {
      isWriting = true
      try {
        const outcome = file.write(operation)
        if (!isRefusal(outcome)) committed?.()
        return outcome
      } finally {
        isWriting = false
      }
    })
  }
  const context = { write, random, longReads: new LongReads() }
  const openCollections = (file: DataFile) => new Map(types.map((type) => [type.name, openType(file, type, context)]))
  const initialize = (file: DataFile) => {
    for (const { make } of openCollections(file).values()) make(defaultSpace)
  }
  const file = new DataFile(path, { ...options, initialize })
  const queue = writeQueue(lockTimeoutMs[options.access], options.monotonicNow, file.writes)
  const collections = openCollections(file)
  const count =
    '(select count(*) from documents where (space, collection) = (collections.space, collections.collection))'
  const selectSpaces = file.prepare(`
    select space, json_group_object(collection, ${count}) from collections group by space order by space`)
  const selectCount = file.prepare(`select ifnull(sum(${count}), 0) from collections where collection = ?`)
  // Collections are deleted first, so that the triggers of documents have no rows to update.
  const removals = ['collections', 'documents'].map((table) => file.prepare(`delete from ${table} where space = ?`))

  function collectionOf(name: string) {
    const collection = collections.get(name)
    if (!collection) throw new Error(`There is no collection ${name}.`)
    return collection
  }

  const listSpaces = () =>
    selectSpaces.all([]).map(([name, items]) => ({ name: `${name}`, items: JSON.parse(`${items}`) }))

  function remove(space: string): void {
    for (const statement of removals) statement.run([space])
  }

  return {
    isInPlace: () => file.isInPlace(),
    collection(name, space) {
      const { stored, starting } = collectionOf(name)
      return new StartingCollection(stored(space), starting)
    },
    listSpaces,
    deleteSpace: (name) => write(() => remove(name)),
    counts: () => Object.fromEntries(types.map(({ name }) => [name, Number(selectCount.get([name])?.[0])])),
    importItems: (snapshots, deletesOthers) =>
      write(() => {
        if (deletesOthers) for (const { name } of listSpaces()) if (!snapshots.has(name)) remove(name)
        for (const [space, snapshot] of snapshots)
          for (const [name, { documents, lastNumber }] of Object.entries(snapshot))
            collectionOf(name).importAll(space, documents, lastNumber)
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

/** Executes an operation in the current transaction, or in a new one, which may begin later. */
type Write = <Outcome>(operation: () => Outcome, committed?: () => void) => Awaitable<Outcome>

interface Context {
  readonly write: Write
  readonly random: () => number
  readonly longReads: LongReads
}

const maxSkippedSpaces = 10_000
/** The lists that were read last stay in memory, up to this size together. */
const maxKeptBytes = 16 * 2 ** 20
/** A list with more items is read in parts. */
const maxWholeItems = 10_000
/** How many items the next part may have: SQLite reads documents to find out how long they are. */
const [minPartItems, maxPartItems] = [16, 1_024]

/** A number that is lower than every place. */
const beforeAll = '-1e19'

/** Opens the documents of a type in all spaces. */
function openType(file: DataFile, type: CollectionType, { write, random, longReads }: Context) {
  const { isNumbered = false } = type
  const collection = `space = ?1 and collection = '${type.name}'`
  const document = `${collection} and ${isNumbered ? 'place' : 'key'} = ?2`
  const nextVersion = `(select version + 1 from collections where ${collection})`

  const selectVersion = `select version from collections where ${collection}`
  const selectVersionNow = file.prepare(selectVersion)
  const insertCollection = file.prepare(`
    insert into collections (space, collection, last_number, version) values (?, '${type.name}', 0, ?)
    on conflict do nothing`)
  const skipVersions = file.prepare(`update collections set version = version + ?2 where ${collection}`)
  const setLastNumber = file.prepare(`update collections set last_number = cast(?2 as integer) where ${collection}`)
  const selectOne = file.prepare(`select content, version from documents where ${document}`)
  const [place, content] = isNumbered
    ? ['last_number + 1', `'{"${type.keyMember}":' || (last_number + 1) || ',' || ?3 || '}'`]
    : [`(select ifnull(max(place), 0) + 1 from documents where ${collection})`, '?3']
  const insertNext = file.prepare(`
    insert into documents (space, collection, place, key, version, content)
    select space, collection, ${place}, ?2, version + 1, ${content}
    from collections where ${collection} and last_number < ${maxInt64}
    on conflict do nothing
    returning cast(place as text), version, content`)
  const insert = file.prepare(`
    insert into documents (space, collection, place, key, version, content, secret)
    values (?1, '${type.name}', ?2, ?3, ?4, ?5, ?6)`)
  const update = file.prepare(`
    update documents set content = ?3, version = ${nextVersion} where ${document} returning version`)
  const remove = file.prepare(`delete from documents where ${document}`)
  const removeAll = file.prepare(`delete from documents where ${collection}`)

  const isShort = `(
    select count(*) <= ${maxWholeItems} and ifnull(sum(bytes), 0) <= ${maxWholeBytes}
    from (select octet_length(content) as bytes from documents where ${collection} limit ${maxWholeItems} + 1))`
  // SQLite ignores the order of a subquery only for count(), min() and max(). Text is read as bytes, because libsql
  // aborts the process on a text of 512 MiB.
  const selectList = file.prepare(`
    select version, case
      when version = ?2 then null
      when ${isShort} then (
        select cast('[' || ifnull(group_concat(content, ','), '') || ']' as blob)
        from (select content from documents where ${collection} order by place))
      else '' end
    from collections where ${collection}`)
  const selectEnd = `
    select cast(max(place) as text), count(*)
    from (select place, bytes, sum(bytes) over (order by place) as total from (
      select place, octet_length(content) as bytes from documents where ${collection} and place > ?2
      order by place limit ?3))
    where total - bytes < ${partBytes}`
  const selectPart = `
    select cast(',' || group_concat(content, ',') as blob)
    from (select content from documents where ${collection} and place > ?2 and place <= ?3 order by place)`

  const { list: startingJson, documents: startingDocuments, version: startingVersion } = startingStateOf(type)
  const startingEtag = etagOf(startingVersion)
  const startingList = { json: startingJson, etag: startingEtag }
  const known = new KnownLists<SqlValue>(maxKeptBytes)
  const listLong = listReads({ read: readLong, isLong: () => true, longReads })
  const skipped = new Set<string>()

  /** Random, because entity tags are versions, and must differ between spaces and between files. */
  const newVersion = () => Math.floor(random() * 2 ** 48)

  /** All documents may get the same version: only entity tags of one document are compared. */
  function insertAll(space: string, documents: readonly Document[], version: SqlValue): void {
    for (const [index, { key, json, secret }] of documents.entries())
      insert.run([space, isNumbered ? key : index + 1, isNumbered ? null : key, version, json, secret])
  }

  /** Creates the collection of a space with the starting documents, if it does not exist. */
  function make(space: string): void {
    const version = newVersion()
    if (insertCollection.run([space, version]) > 0)
      insertAll(space, type.startingDocuments, space === defaultSpace ? version : startingVersion)
  }

  /**
   * Skips versions before a change, until a change is committed: the file may be a restored backup, and versions that
   * were used after the backup must not stand for other states.
   */
  function skip(space: string): void {
    if (!skipped.has(space)) skipVersions.run([space, 1 + Math.floor(random() * 2 ** 32)])
  }

  const writeTo = <Outcome>(space: string, operation: () => Outcome) =>
    write(operation, () => {
      // Skipping versions again is harmless.
      if (skipped.size >= maxSkippedSpaces) skipped.clear()
      skipped.add(space)
    })

  const change = <Outcome>(space: string, operation: () => Outcome) =>
    writeTo(space, () => {
      skip(space)
      return operation()
    })

  /** The last number becomes the highest number of the documents, or `lastNumber` if that is higher. */
  function replace(space: string, documents: readonly Document[], lastNumber: string): 'replaced' {
    removeAll.run([space])
    setLastNumber.run([space, lastNumber])
    insertAll(space, documents, Number(selectVersionNow.get([space])?.[0]) + 1)
    return 'replaced'
  }

  const representation = (version: SqlValue, buffers: readonly Buffer[]) => ({
    json: buffers,
    etag: etagOf(`${version}`),
  })

  /** Returns a list, which is read again only if its version has changed. */
  function list(space: string, reader?: Reader): Awaitable<ListRepresentation> {
    const last = known.get(space)
    const kept = last?.buffers?.deref()
    if (!kept && last && last.bytes > maxWholeBytes) return listLong(space, reader)
    const row = selectList.get([space, (kept && last?.version) ?? null])
    if (!row) return startingList
    const [version = null, json] = row
    if (kept && json === null) return representation(version, kept)
    return Buffer.isBuffer(json) ? remember(space, version, [json]) : listLong(space, reader)
  }

  function remember(space: string, version: SqlValue, buffers: readonly Buffer[]): ListRepresentation {
    known.set(space, version, lengthOf(buffers), buffers)
    return representation(version, buffers)
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
        await pause()
        if (!isWanted()) throw new WithdrawnError()
      }
    })
  }

  /** Whether the document exists and has none of the entity tags. */
  function isChanged(space: string, key: string, ifMatch: IfMatch): boolean {
    const row = ifMatch && selectOne.get([space, key])
    return row !== undefined && !ifMatch?.includes(etagOf(`${row[1]}`))
  }

  const stored = (space: string): StoredCollection => {
    const isWritten = () => selectVersionNow.get([space]) !== undefined
    return {
      isWritten,
      list: (reader) => list(space, reader),
      get(key) {
        const [json, version] = selectOne.get([space, key]) ?? []
        return json === undefined ? 'not-found' : { json: `${json}`, etag: etagOf(`${version}`) }
      },
      create: (item, key) =>
        change(space, () => {
          const content = key === undefined ? type.serialize(item) : jsonOf(type, key, item)
          const [place, version, json] = insertNext.get([space, key ?? null, content]) ?? []
          if (json !== undefined) return { key: key ?? `${place}`, json: `${json}`, etag: etagOf(`${version}`) }
          if (!isWritten()) return undefined
          return key === undefined ? 'item-limit' : 'in-use'
        }),
      update: (key, item, ifMatch) =>
        change(space, () => {
          if (isChanged(space, key, ifMatch)) return 'changed'
          const [version] = update.get([space, key, jsonOf(type, key, item)]) ?? []
          return version === undefined ? 'not-found' : { etag: etagOf(`${version}`) }
        }),
      delete: (key, ifMatch) =>
        change(space, () => {
          if (isChanged(space, key, ifMatch)) return 'changed'
          return remove.run([space, key]) > 0 ? 'deleted' : 'not-found'
        }),
      replaceAll: (documents, ifMatch) =>
        writeTo(space, () => {
          const [version] = selectVersionNow.get([space]) ?? []
          if (version === undefined) return undefined
          if (ifMatch && !ifMatch.includes(etagOf(`${version}`))) return 'changed'
          skip(space)
          return replace(space, documents, '0')
        }),
      make: <Outcome>(operation: () => Awaitable<Outcome>) =>
        write(() => {
          make(space)
          const outcome = operation()
          if (outcome instanceof Promise) throw new Error('Nothing waits within a transaction.')
          return outcome
        }),
    }
  }

  return {
    starting: { documents: startingDocuments, etag: startingEtag, list: startingList },
    stored,
    make,
    importAll(space: string, documents: readonly Document[], lastNumber: string): void {
      insertCollection.run([space, newVersion()])
      skip(space)
      replace(space, documents, lastNumber)
    },
  }
}
