import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Cleanup, cleanUp } from './cleanup.ts'

/** The statuses of all responses in the bytes that a server has sent. */
export const statusesIn = (received: string) =>
  [...received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status))

/** A TCP connection that sends any bytes; destroyed when the test ends. */
export class RawConnection {
  readonly socket: Socket
  received = ''
  error: Error | undefined
  readonly closed: Promise<void>

  constructor(t: Cleanup, port: number, options: { allowHalfOpen?: boolean } = {}) {
    this.socket = connect({ port, host: '127.0.0.1', ...options })
    this.socket.on('error', (error) => {
      this.error = error
    })
    this.socket.on('data', (data) => {
      this.received += data.toString('latin1')
    })
    this.closed = new Promise((resolve) => this.socket.once('close', () => resolve()))
    cleanUp(t, () => this.socket.destroy())
  }

  get statuses(): number[] {
    return statusesIn(this.received)
  }

  /** Sends until the kernel takes no more, again and again, until the connection closes. */
  flood(bytes: Buffer): void {
    const send = () => {
      while (!this.socket.destroyed && this.socket.write(bytes));
    }
    this.socket.on('drain', send)
    send()
  }

  /** Waits until so many responses have begun. */
  async responses(count: number): Promise<number[]> {
    while (this.statuses.length < count && !this.socket.destroyed)
      await Promise.race([once(this.socket, 'data').catch(() => {}), this.closed])
    return this.statuses
  }
}
