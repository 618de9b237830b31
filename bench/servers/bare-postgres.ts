import { Client } from 'pg'
import { serve } from './bare-sql.ts'

/** The statements of this service through the same driver, pipelined on as many connections, without a store or a queue. */
const clients = Array.from({ length: 10 }, () => new Client({ connectionString: process.argv[3], pipeline: true }))
await Promise.all(clients.map((client) => client.connect()))
let last = 0
const query = (name: string, text: string, values: unknown[] = []) => {
  last = (last + 1) % clients.length
  return (clients[last] as Client).query({ name, text, values })
}
const inCollection = "space = '' and collection = 'a'"
const inDocument = `${inCollection} and place = $1`
const newVersion = () => Math.floor(Math.random() * 2 ** 52)

serve({
  async list() {
    const { rows } = await query(
      'list',
      `select '[' || coalesce(string_agg(content, ',' order by place), '') || ']' as json
      from todo.documents where ${inCollection}`,
    )
    return rows[0].json
  },
  async get(id) {
    const { rows } = await query('get', `select content, version from todo.documents where ${inDocument}`, [id])
    return rows[0]?.content
  },
  async create(members) {
    const { rows } = await query(
      'create',
      `with counted as (update todo.collections set last = last + 1 where ${inCollection} returning last)
      insert into todo.documents (space, collection, place, version, content)
      select '', 'a', last, $1::bigint, '{"id":' || last || ',' || $2 from counted returning place`,
      [newVersion(), members],
    )
    return rows[0].place
  },
  async update(id, json) {
    const text = `update todo.documents set content = $2, version = $3 where ${inDocument}`
    return (await query('update', text, [id, json, newVersion()])).rowCount ?? 0
  },
  async remove(id) {
    return (await query('delete', `delete from todo.documents where ${inDocument}`, [id])).rowCount ?? 0
  },
})
