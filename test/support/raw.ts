import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** The statuses of all answers in what a server has said. */
export const statusesIn = (said: string) =>
  [...said.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status))

/** A connection on which anything can be said. */
export class Raw {
  readonly socket: Socket
  received = ''
  readonly closed: Promise<void>

  constructor(t: TestContext, port: number, options: { allowHalfOpen?: boolean } = {}) {
    this.socket = connect({ port, host: '127.0.0.1', ...options })
    this.socket.on('error', () => {})
    this.socket.on('data', (data) => {
      this.received += data.toString('latin1')
    })
    this.closed = new Promise((resolve) => this.socket.once('close', () => resolve()))
    t.after(() => this.socket.destroy())
  }

  /** The statuses of all answers so far. */
  get statuses(): number[] {
    return statusesIn(this.received)
  }

  /** Waits until so many answers have begun. */
  async answers(count: number): Promise<number[]> {
    while (this.statuses.length < count && !this.socket.destroyed)
      await new Promise((next) => this.socket.once('data', next).once('close', next))
    return this.statuses
  }
}
