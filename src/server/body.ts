import type { IncomingMessage } from 'node:http'
import type { ErrorCode } from '../http/errors.ts'
import type { Upload, UploadBudget } from './uploads.ts'

/** Of a body that is received in small pieces; then they are copied into one. */
const maxBuffers = 1_000

/** A rejected body is read up to these limits: its size, the time, and the time without data. */
const maxDiscardedBytes = 32 * 2 ** 20
const discardTimeoutMs = 5_000
const discardIdleTimeoutMs = 500

/** Reads no more before its turn. */
interface ChunkReader {
  waitForTurn(): void
}

/** The whole body, or why it was not received. */
export function receiveBody(
  incoming: IncomingMessage,
  { contentLength, isChunked }: { readonly contentLength: number; readonly isChunked: boolean },
  limitBytes: number,
  connection: ChunkReader & { upload: Upload | undefined; readonly uploads: UploadBudget },
  done: (body: Buffer | ErrorCode) => void,
): void {
  const { uploads } = connection
  let buffers: Buffer[] = []
  let length = 0
  let isSettled = false
  const settle = (result: Buffer | ErrorCode) => {
    if (isSettled) return
    isSettled = true
    buffers = []
    uploads.remove(upload)
    connection.upload = undefined
    done(result)
  }
  const upload: Upload = { fail: settle }
  connection.upload = upload
  if (isChunked) readInTurns(incoming, connection)
  incoming.on('data', (buffer: Buffer) => {
    if (isSettled) return
    length += buffer.length
    if (length > limitBytes) return settle('body-too-large')
    buffers.push(buffer)
    // Nearly every body comes in one buffer.
    if (buffer.length === contentLength) return
    if (buffers.length === maxBuffers) buffers = [Buffer.concat(buffers)]
    uploads.add(upload, buffer.length)
  })
  incoming.on('end', () => settle(buffers.length === 1 ? (buffers[0] as Buffer) : Buffer.concat(buffers)))
}

/** Closing while the client still sends would reset the connection, and with it a response that is not read yet. */
export function discardBody(
  incoming: IncomingMessage,
  isChunked: boolean,
  connection: ChunkReader,
  done: () => void,
): void {
  let discardedBytes = 0
  let isDone = false
  const finish = () => {
    if (isDone) return
    isDone = true
    clearTimeout(timeout)
    clearTimeout(idleTimeout)
    done()
  }
  const timeout = setTimeout(finish, discardTimeoutMs)
  const idleTimeout = setTimeout(finish, discardIdleTimeoutMs)
  if (isChunked && incoming.listenerCount('readable') === 0) readInTurns(incoming, connection)
  incoming.on('data', (buffer: Buffer) => {
    if (isDone) return
    idleTimeout.refresh()
    discardedBytes += buffer.length
    if (discardedBytes > maxDiscardedBytes) finish()
  })
  incoming.on('end', finish)
  incoming.on('close', finish)
}

/** A packet of one-byte chunks takes tens of milliseconds to parse: connections with a chunked body take turns. */
function readInTurns(incoming: IncomingMessage, connection: ChunkReader): void {
  incoming.on('readable', () => {
    incoming.read()
    if (!incoming.complete) connection.waitForTurn()
  })
}
