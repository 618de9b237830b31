import { METHODS, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

/** Why the parser gave up, and on what. */
export interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
}

/** What is wrong with bytes that are no request. */
export function statusFor({ code, rawPacket }: ParserError): number {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408
    case 'HPE_INVALID_VERSION':
      return / HTTP\/\d+\.\d+\r\n/.test(begin(rawPacket)) ? 505 : 400
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 413
    case 'HPE_INVALID_METHOD':
      return METHODS.includes(/^[A-Z][A-Z-]*(?= [/*])/.exec(begin(rawPacket))?.[0] ?? 'GET') ? 400 : 501
    default:
      return 400
  }
}

const begin = (bytes: Buffer | undefined) => bytes?.toString('latin1', 0, 1_024) ?? ''

/** The framing is in doubt: the shortest of answers, and the end of the connection. */
export function refuseBytes(socket: Socket, status: number): void {
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
  socket.on('error', () => {})
  socket.end(head, () => socket.destroy())
}
