import type { Snapshot, Snapshots } from '../store.ts'
import { DataFile } from './file.ts'

/** json_object() would write a column with 0 or 1 as a number. */
export const jsonBoolean = (column: string) => `json(iif(${column} = 1, 'true', 'false'))`

const selectItems = {
  a: `
    select json_object('id', cast(id as text), 'name', name, 'isComplete', ${jsonBoolean('is_complete')}, 'secret', secret)
    from items_a where space = ? order by id`,
  b: `
    select json_object('id', id, 'name', name, 'notes', notes, 'done', ${jsonBoolean('done')})
    from items_b where space = ? order by place`,
}

/** The items of this space, or of all, in a file of any version, which stays as it is. Throws a StartError. */
export function exportItems(path: string, name: string | undefined, monotonicNow: () => number): Snapshots {
  const file = new DataFile(path, { access: 'read', monotonicNow, notice: () => {}, initialize: () => {} })
  const read = (profile: keyof typeof selectItems, space: string) =>
    file
      .prepare(selectItems[profile])
      .all([space])
      .map(([json]) => JSON.parse(`${json}`))
  try {
    return file.transaction('deferred', () => {
      const snapshots = new Map<string, Snapshot>()
      const selectSpaces = file.prepare(`
        select space, cast(last_id as text), last_place is not null from spaces
        where ?1 is null or space = ?1 order by space`)
      for (const [space, lastId, hasB] of selectSpaces.all([name ?? null]))
        snapshots.set(`${space}`, {
          ...(lastId !== null && { a: { items: read('a', `${space}`), lastId: `${lastId}` } }),
          ...(hasB === 1 && { b: { items: read('b', `${space}`) } }),
        })
      return snapshots
    })
  } finally {
    file.close()
  }
}
