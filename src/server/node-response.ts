import type { ServerResponse } from 'node:http'
import type { HeldMemory, MemoryHolder } from '../common/held-memory.ts'
import { buffersOf, byteLengthOf, piecesOf, type Response, type Stream } from '../http/response.ts'
import type { NodeRequest } from './node-request.ts'

/** Larger response bodies are written in pieces, as the client reads them. */
const writeSizeBytes = 256 * 1024

/** A response that a connection writes. */
interface Writing {
  readonly request: Pick<NodeRequest, 'method' | 'outgoing' | 'discardBody'>
  readonly response: Response
  readonly closesConnection: boolean
  /** Whether the rest of the request's body is discarded before the response ends. */
  readonly discardsBody: boolean
}

/** Writes and ends a response. The memory of a large body counts for `holder` until the client has read it. */
export function writeResponse(writing: Writing, held: HeldMemory, holder: MemoryHolder): void {
  const { request, response, closesConnection, discardsBody } = writing
  const { method, outgoing } = request
  const { status, headers, body = '', contentLength } = response
  const headerList: string[] = []
  for (const name in headers) headerList.push(name, headers[name] as string)
  if (closesConnection) headerList.push('connection', 'close')
  if (typeof body === 'function') {
    if (contentLength !== undefined) headerList.push('content-length', `${contentLength}`)
    outgoing.writeHead(status, headerList)
    if (method === 'HEAD') outgoing.end()
    else writeStream(outgoing, body)
    return
  }
  if (status !== 204 && status !== 304) {
    const length = typeof body === 'string' ? Buffer.byteLength(body) : byteLengthOf(body)
    headerList.push('content-length', `${length}`)
    outgoing.writeHead(status, headerList)
    if (length > writeSizeBytes) {
      void writeInPieces(writing, buffersOf(body), held, holder)
      return
    }
    if (typeof body !== 'string' && body.length === 1 && !discardsBody) {
      outgoing.end(body[0])
      return
    }
    // Head and body become one write to the socket. With a string, end(body) makes two.
    outgoing.socket?.cork()
    if (typeof body !== 'string') for (const part of body) outgoing.write(part)
    else if (length > 0) outgoing.write(body, length === body.length ? 'latin1' : 'utf8')
    outgoing.socket?.uncork()
  } else outgoing.writeHead(status, headerList)
  end(writing)
}

function end({ request, discardsBody }: Writing): void {
  if (discardsBody) request.discardBody()
  else request.outgoing.end()
}

function writeStream(outgoing: ServerResponse, stream: Stream): void {
  outgoing.flushHeaders()
  const { onDrain, onClose } = stream(
    (data) => !outgoing.writableEnded && outgoing.write(data),
    () => outgoing.end(),
    () => outgoing.destroy(),
  )
  outgoing.on('drain', onDrain)
  outgoing.once('close', onClose)
}

/**
 * Ends the response when its last piece is flushed: after end(), its connection counts as idle and is closed on
 * shutdown, even if the client has not read the response.
 */
async function writeInPieces(
  writing: Writing,
  body: readonly Buffer[],
  held: HeldMemory,
  holder: MemoryHolder,
): Promise<void> {
  const { outgoing } = writing.request
  const drained = () => new Promise((resolve) => outgoing.once('drain', resolve))
  held.addBuffers(holder, body)
  for (const piece of piecesOf(body, writeSizeBytes)) {
    outgoing.write(piece)
    if (outgoing.writableLength >= writeSizeBytes) await drained()
  }
  if (outgoing.writableNeedDrain) await drained()
  held.removeBuffers(holder, body)
  end(writing)
}
