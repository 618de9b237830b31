import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { nextTick } from 'node:process'
import type { ErrorCode } from '../http/errors.ts'

/** Memory for bodies that are still being received, of all connections together. */
export const maxBufferedBytes = (limitBytes: number) => Math.max(20 * 2 ** 20, 2 * limitBytes)
/** A body in many small buffers is copied into one after so many. */
const maxBuffers = 1_000

/** A rejected body is read up to so much, for so long, until the client sends nothing for so long. */
const maxDiscardedBytes = 32 * 2 ** 20
const discardTimeoutMs = 5_000
const discardIdleTimeoutMs = 500

/** A body that is being received. */
export interface Upload {
  fail(code: ErrorCode): void
}

/** Those that are incomplete, oldest first. */
const uploads = new Set<Upload>()
let bufferedBytes = 0

/**
 * The whole body, or why it was not received. Beyond `maxBufferedBytes` the oldest upload is rejected, not the newest: a
 * client that stalls must not keep others from sending.
 */
export function receiveBody(
  incoming: IncomingMessage,
  { contentLength, isChunked }: { readonly contentLength: number; readonly isChunked: boolean },
  limitBytes: number,
  connection: { upload: Upload | undefined },
  done: (body: Buffer | ErrorCode) => void,
): void {
  let buffers: Buffer[] = []
  let length = 0
  let heldBytes = 0
  let isSettled = false
  const settle = (result: Buffer | ErrorCode) => {
    if (isSettled) return
    isSettled = true
    buffers = []
    uploads.delete(upload)
    bufferedBytes -= heldBytes
    connection.upload = undefined
    done(result)
  }
  const upload: Upload = { fail: settle }
  connection.upload = upload
  if (isChunked) readInTurns(incoming)
  incoming.on('data', (buffer: Buffer) => {
    if (isSettled) return
    length += buffer.length
    if (length > limitBytes) return settle('body-too-large')
    buffers.push(buffer)
    // Nearly every body comes in one buffer.
    if (buffer.length === contentLength) return
    if (buffers.length === maxBuffers) buffers = [Buffer.concat(buffers)]
    uploads.add(upload)
    heldBytes += buffer.length
    bufferedBytes += buffer.length
    if (bufferedBytes > maxBufferedBytes(limitBytes)) uploads.values().next().value?.fail('uploads-exceeded')
  })
  incoming.on('end', () => settle(buffers.length === 1 ? (buffers[0] as Buffer) : Buffer.concat(buffers)))
}

/** Closing while the client still sends would reset the connection, and with it a response that is not read yet. */
export function discardBody(incoming: IncomingMessage, isChunked: boolean, done: () => void): void {
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
  if (isChunked && incoming.listenerCount('readable') === 0) readInTurns(incoming)
  incoming.on('data', (buffer: Buffer) => {
    if (isDone) return
    idleTimeout.refresh()
    discardedBytes += buffer.length
    if (discardedBytes > maxDiscardedBytes) finish()
  })
  incoming.on('end', finish)
  incoming.on('close', finish)
}

/** Connections with a chunked body that wait until they may send their next packet. */
const waiting = new Set<Socket>()

/**
 * A packet of one-byte chunks takes tens of milliseconds to parse. So in each turn of the event loop only one connection
 * with a chunked body may send another packet.
 */
function readInTurns(incoming: IncomingMessage): void {
  incoming.on('readable', () => {
    incoming.read()
    // `read`, which emits `data`, resumes the socket in the next tick.
    if (!incoming.complete) nextTick(waitForTurn, incoming.socket)
  })
}

function waitForTurn(socket: Socket): void {
  socket.pause()
  if (waiting.size === 0) setImmediate(resumeNext)
  waiting.add(socket)
}

function resumeNext(): void {
  const [socket] = waiting
  if (socket) waiting.delete(socket)
  socket?.resume()
  if (waiting.size > 0) setImmediate(resumeNext)
}
