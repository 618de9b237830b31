import { createHash } from 'node:crypto'
import type { QueryResult } from 'pg'

/** A statement and its possible results: any other result that the server returns belongs to another statement. */
export interface PreparedStatement {
  readonly text: string
  readonly command: string
  /** The columns of the rows that it returns; none where it returns no row. */
  readonly columns: readonly string[]
  /** How many rows it returns or changes, unless the call says otherwise. */
  readonly rows: RowCount
  readonly isWrite: boolean
  /** The driver prepares it once for each connection. */
  readonly named: object
  /** The server parses it each time. */
  readonly unnamed: object
}

export type RowCount = readonly [min: number, max: number]
const exactlyOne: RowCount = [1, 1]
export const oneAtMost: RowCount = [0, 1]

/**
 * `read` takes the text of each value that is not null; without it they are read by their types.
 *
 * The name of a prepared statement contains a hash of its text. Behind a connection pooler the statement may have been
 * prepared by another program, on a schema of its own: the same name always means the same text.
 */
export function prepared(
  name: string,
  text: string,
  columns: readonly string[] = [],
  rows = columns.length > 0 ? exactlyOne : oneAtMost,
  read?: (text: string) => unknown,
): PreparedStatement {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32)
  const types = read && { getTypeParser: () => read }
  // The command is at the beginning of a line, because a `with` clause may come first.
  const [command = 'select'] = /^ *(?:insert|update|delete)\b/m.exec(text)?.map((word) => word.trim()) ?? []
  return {
    text,
    command: command.toUpperCase(),
    columns,
    rows,
    isWrite: command !== 'select',
    named: inherited({ name: `${name}_${hash}`, text, types }),
    unnamed: inherited({ text, types }),
  }
}

/** Returns an object with inherited members: the driver copies own ones, which would more than double a call's time. */
const inherited = (config: object): object => Object.create(config)

type SqlValue = string | number | boolean | Buffer | null
export type SqlParameters = (SqlValue | readonly SqlValue[])[]

export interface StatementCall {
  readonly statement: PreparedStatement
  readonly parameters: SqlParameters
  readonly rows: RowCount
  /** How often it was sent. */
  attempts: number
}

/** Whether this can be the result of the statement. */
export function isPossible({ statement, rows: [min, max] }: StatementCall, result: QueryResult): boolean {
  const { command, columns } = statement
  const { rows, rowCount, fields } = result
  if (result.command !== command || rowCount === null || rowCount < min || rowCount > max) return false
  if (fields.length !== columns.length) return false
  for (let at = 0; at < columns.length; at++) if (fields[at]?.name !== columns[at]) return false
  return rows.length === (columns.length === 0 ? 0 : rowCount)
}
