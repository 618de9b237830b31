import { escapeIdentifier, Pool } from 'pg'

class Identifier {
  readonly sql: string

  constructor(name: string) {
    this.sql = escapeIdentifier(name)
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a test states what it selects.
type Row = Record<string, any>

/** Runs a template as one statement, its values as parameters; with a name, a quoted identifier for such a template. */
export interface Sql {
  (strings: TemplateStringsArray, ...values: unknown[]): Promise<Row[]>
  (name: string): Identifier
  unsafe(text: string): Promise<unknown>
  end(): Promise<void>
}

/** With one connection, statements share a session. */
export function openSql(url: string, maxConnections = 1): Sql {
  // An idle connection may be in a transaction, which holds a lock.
  const pool = new Pool({ connectionString: url, max: maxConnections, idleTimeoutMillis: 0 })
  // The server was stopped while a connection was idle.
  pool.on('error', () => {})
  function sql(template: TemplateStringsArray | string, ...values: unknown[]) {
    if (typeof template === 'string') return new Identifier(template)
    const parameters: unknown[] = []
    const placeholder = (value: unknown) => (value instanceof Identifier ? value.sql : `$${parameters.push(value)}`)
    const text = template.map((part, index) => (index === 0 ? part : `${placeholder(values[index - 1])}${part}`))
    return pool.query(text.join(''), parameters).then(({ rows }) => rows)
  }
  return Object.assign(sql, { unsafe: (text: string) => pool.query(text), end: () => pool.end() }) as Sql
}
