import type { CollectionSnapshot, Document, Snapshots } from '../store.ts'
import { DataFile } from './file.ts'

/** Reads the documents of this space, or of all, from a file of any version, which it does not change. */
export function exportItems(path: string, name: string | undefined, monotonicNow: () => number): Snapshots {
  const file = new DataFile(path, { access: 'read', monotonicNow, notice: () => {}, initialize: () => {} })
  try {
    return file.transaction('deferred', () => {
      const selectCollections = file.prepare(`
        select space, collection, cast(last_number as text) from collections
        where ?1 is null or space = ?1 order by space, collection`)
      // Documents are read as JSON, because libsql cuts a text at U+0000.
      const selectDocuments = file.prepare(`
        select json_array(ifnull(key, cast(place as text)), content, secret) from documents
        where space = ? and collection = ? order by place`)
      const documentsOf = (space: string, collection: string): Document[] =>
        selectDocuments.all([space, collection]).map(([row]) => {
          const [key, json, secret] = JSON.parse(`${row}`)
          return { key, json, secret }
        })
      const snapshots = new Map<string, Record<string, CollectionSnapshot>>()
      for (const [space, collection, lastNumber] of selectCollections.all([name ?? null])) {
        const snapshot = snapshots.get(`${space}`) ?? {}
        snapshot[`${collection}`] = { documents: documentsOf(`${space}`, `${collection}`), lastNumber: `${lastNumber}` }
        snapshots.set(`${space}`, snapshot)
      }
      return snapshots
    })
  } finally {
    file.close()
  }
}
