/** Leads from a version of the tables to the next one. */
interface Step {
  /** The tables that end with the version before. No later one has the same name: statements of others must fail. */
  readonly replaces: readonly string[]
  readonly create: readonly string[]
  /** What each table has, from the tables of the version before: queries with its columns, in their order. */
  readonly rows: Readonly<Record<string, string>>
}

const spaces: Step = {
  replaces: ['numbered_items', 'named_items', 'lists'],
  create: [
    `create table spaces (
      space text primary key,
      last_id integer,
      last_place integer,
      version_a integer not null,
      version_b integer not null
    ) strict, without rowid`,
    `create table items_a (
      space text,
      id integer,
      name text,
      is_complete integer not null,
      secret text,
      version integer not null,
      primary key (space, id)
    ) strict, without rowid`,
    `create table items_b (
      space text,
      place integer,
      id text not null,
      name text not null,
      notes text not null,
      done integer not null,
      primary key (space, place),
      unique (space, id)
    ) strict, without rowid`,
    ...triggers('items_a', 'version_a', 'last_id = max(last_id, new.id)'),
    ...triggers('items_b', 'version_b', 'last_place = max(last_place, new.place)'),
  ],
  /** Version 1 had the items of the default space. Its row comes last, so that no trigger changes it. */
  rows: {
    items_a: `select '' as space, id, name, is_complete, secret, version from numbered_items`,
    items_b: `select '' as space, place, id, name, notes, done from named_items`,
    spaces: `
      select '' as space,
        (select ifnull(max(seq), 0) from sqlite_sequence where name = 'numbered_items') as last_id,
        (select ifnull(max(seq), 0) from sqlite_sequence where name = 'named_items') as last_place,
        (select version from lists where profile = 'a') as version_a,
        (select version from lists where profile = 'b') as version_b`,
  },
}

/** The first one leads from version 1 to 2. Append only. */
const steps: readonly [Step, ...Step[]] = [spaces]
export const fileVersion = steps.length + 1

/** The statements that lead to the tables of this program, in one transaction. Version 0 has none. */
export const migrationFrom = (version: number): readonly string[] =>
  version === 0
    ? (steps[steps.length - 1] as Step).create
    : steps
        .slice(version - 1)
        .flatMap(({ replaces, create, rows }) => [
          ...create,
          ...Object.entries(rows).map(([table, query]) => `insert into ${table} ${query}`),
          ...replaces.map((table) => `drop table ${table}`),
        ])

/** The statements by which a version looks as that of this program, on a connection that only reads. */
export const viewsOf = (version: number): readonly string[] =>
  steps
    .slice(version - 1)
    .flatMap(({ rows }) => Object.entries(rows).map(([table, query]) => `create temp view ${table} as ${query}`))

/** Counts every change of an item, whoever makes it, and keeps the highest id and place. */
function triggers(table: string, version: string, setLast: string): string[] {
  const trigger = (event: string, row: string, more = '') => `
    create trigger ${table}_${event} after ${event} on ${table} begin
      update spaces set ${version} = ${version} + 1${more} where space = ${row}.space;
    end`
  return [trigger('insert', 'new', `, ${setLast}`), trigger('update', 'new'), trigger('delete', 'old')]
}
