/** Leads from a version of the tables to the next one. */
interface Step {
  /** The tables of the version before. No later one has the same name: statements of others must fail. */
  readonly replaces: readonly string[]
  /** What each table has, from the tables of the version before: queries with its columns, in their order. */
  readonly rows: Readonly<Record<string, string>>
}

const spaces: Step = {
  replaces: ['numbered_items', 'named_items', 'lists'],
  /** Version 1 had the items of the default space. */
  rows: {
    items_a: `select '' as space, id, name, is_complete, secret, version from numbered_items`,
    items_b: `select '' as space, place, id, name, notes, done from named_items`,
    spaces: `
      select '' as space,
        (select max(ifnull(max(seq), 0), (select ifnull(max(id), 0) from numbered_items))
          from sqlite_sequence where name = 'numbered_items') as last_id,
        (select ifnull(max(seq), 0) from sqlite_sequence where name = 'named_items') as last_place,
        (select version from lists where profile = 'a') as version_a,
        (select version from lists where profile = 'b') as version_b`,
  },
}

/** json_object() would write a column with 0 or 1 as a number. */
const jsonBoolean = (column: string) => `json(iif(${column} = 1, 'true', 'false'))`

const changed = (event: string, row: string, more = '') => `
  create trigger documents_${event} after ${event} on documents begin
    update collections set version = version + 1${more} where space = ${row}.space and collection = ${row}.collection;
  end`

const documents: Step = {
  replaces: ['spaces', 'items_a', 'items_b'],
  /** An item of Profile B had no version: each change of the list gives it a higher one. */
  rows: {
    documents: `
      select space, 'a' as collection, id as place, null as key, version,
        json_object('id', id, 'name', name, 'isComplete', ${jsonBoolean('is_complete')}) as content, secret
      from items_a
      union all
      select space, 'b', place, id, version_b,
        json_object('id', id, 'name', name, 'notes', notes, 'done', ${jsonBoolean('done')}), null
      from spaces join items_b using (space)`,
    collections: `
      select space, 'a' as collection, last_id as last_number, version_a as version
      from spaces where last_id is not null
      union all
      select space, 'b', 0, version_b from spaces where last_place is not null`,
  },
}

/** The first one leads from version 1 to 2. Append only. */
const steps: readonly Step[] = [spaces, documents]
export const fileVersion = steps.length + 1

/** The tables of this program. */
const create = [
  `create table collections (
    space text,
    collection text,
    last_number integer not null,
    version integer not null,
    primary key (space, collection)
  ) strict, without rowid`,
  `create table documents (
    space text,
    collection text,
    place integer,
    key text,
    version integer not null,
    content text not null,
    secret text,
    primary key (space, collection, place)
  ) strict, without rowid`,
]

/** Made when the rows are there. The triggers count every change of a document, whoever makes it, and keep the highest number. */
const finish = [
  'create unique index documents_key on documents (space, collection, key) where key is not null',
  changed('insert', 'new', ', last_number = iif(new.key is null, max(last_number, new.place), last_number)'),
  changed('update', 'new'),
  changed('delete', 'old'),
]

/** What the tables of the versions after this one have; each query uses those before it. */
const queriesFrom = (version: number) => steps.slice(version - 1).flatMap(({ rows }) => Object.entries(rows))

/** The statements by which a version looks as that of this program, on this connection alone. */
export const viewsOf = (version: number): readonly string[] =>
  queriesFrom(version).map(([table, query]) => `create temp view ${table} as ${query}`)

/** The statements that lead to the tables of this program, in one transaction. Version 0 has none. */
export function migrationFrom(version: number): readonly string[] {
  if (version === 0) return [...create, ...finish]
  return [
    ...viewsOf(version),
    ...create,
    ...['documents', 'collections'].map((table) => `insert into main.${table} select * from temp.${table}`),
    ...queriesFrom(version).map(([table]) => `drop view temp.${table}`),
    ...(steps[version - 1]?.replaces ?? []).map((table) => `drop table ${table}`),
    ...finish,
  ]
}
