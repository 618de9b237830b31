import { setImmediate as nextTurn } from 'node:timers/promises'
import Libsql from 'libsql'
import { WithdrawnError } from '../store.ts'

/** Lets other requests be served. */
export type Pause = () => Promise<void>

/**
 * Reads the items of one moment, whatever is written meanwhile. The connection attaches the file as long as it reads:
 * libsql does not finalize statements, and those of a connection to the file itself would keep it open.
 */
export class LongReader {
  readonly connection: Libsql.Database = new Libsql(':memory:')
  #isReading = false

  /** The next call begins when this one has ended. */
  async read<T>(path: string, read: (pause: Pause) => Promise<T>): Promise<T> {
    this.connection.exec(`attach '${path.replaceAll("'", "''")}' as file`)
    this.connection.exec('begin')
    this.#isReading = true
    try {
      return await read(() => this.#pause())
    } finally {
      this.end()
    }
  }

  /** Ends what is being read. */
  end(): void {
    if (!this.#isReading) return
    this.#isReading = false
    if (this.connection.inTransaction) this.connection.exec('rollback')
    this.connection.exec('detach file')
  }

  async #pause(): Promise<void> {
    await nextTurn()
    if (!this.#isReading) throw new WithdrawnError()
  }
}
