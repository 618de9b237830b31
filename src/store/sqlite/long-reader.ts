import { setImmediate as nextTurn } from 'node:timers/promises'
import Libsql from 'libsql'
import { WithdrawnError } from '../store.ts'

/** Waits for a turn of the event loop, in which other requests are served. */
export type Pause = () => Promise<void>

/**
 * Reads a snapshot of the items while others are written. The connection attaches the file only for a read: libsql
 * does not finalize statements, so a connection to the file itself would keep it open.
 */
export class LongReader {
  readonly connection: Libsql.Database = new Libsql(':memory:')
  #isReading = false

  /** Must not be called again before the promise is settled. */
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

  /** Ends the current read: its next pause rejects with a WithdrawnError. */
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
