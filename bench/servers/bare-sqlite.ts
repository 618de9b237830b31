import Libsql from 'libsql'
import { serve } from './bare-sql.ts'

/** The statements of this service on a file that it has made, each in a transaction of its own. */
const file = new Libsql(process.argv[3] as string)
file.exec('pragma synchronous = full')
const inCollection = "space = '' and collection = 'a'"
const inDocument = `${inCollection} and place = ?1`
const nextVersion = `(select version + 1 from collections where ${inCollection})`
const prepare = (sql: string) => {
  const statement = file.prepare(sql)
  return statement.reader ? statement.raw() : statement
}
const selectList = prepare(`
  select '[' || ifnull(group_concat(content, ','), '') || ']'
  from (select content from documents where ${inCollection} order by place)`)
const selectOne = prepare(`select content, version from documents where ${inDocument}`)
const insert = prepare(`
  insert into documents (space, collection, place, version, content)
  select space, collection, last_number + 1, version + 1, '{"id":' || (last_number + 1) || ',' || ?1
  from collections where ${inCollection} returning place`)
const update = prepare(`update documents set content = ?2, version = ${nextVersion} where ${inDocument}`)
const remove = prepare(`delete from documents where ${inDocument}`)

serve({
  list: () => (selectList.get([]) as [string])[0],
  get: (id) => (selectOne.get([id]) as [string] | undefined)?.[0],
  // libsql needs a transaction to report an error of the commit.
  create: file.transaction((members: string) => (insert.get([members]) as [number])[0]),
  update: file.transaction((id: string, json: string) => update.run([id, json]).changes),
  remove: file.transaction((id: string) => remove.run([id]).changes),
})
