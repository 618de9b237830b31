import { type IncomingMessage, METHODS, STATUS_CODES } from 'node:http'

/** Why the parser gave up, and on what. */
export interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
  readonly reason?: string
}

/** What is wrong with bytes that are no request. */
export function statusFor({ code, rawPacket, bytesParsed }: ParserError): number {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408
    case 'HPE_INVALID_VERSION':
      return / HTTP\/\d\.\d\r?$/.test(lineAt(bytesParsed, rawPacket)) ? 505 : 400
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 413
    case 'HPE_INVALID_METHOD':
      return METHODS.includes(/^[A-Z][A-Z-]*(?= [/*])/.exec(lineAt(bytesParsed, rawPacket))?.[0] ?? 'GET') ? 400 : 501
    default:
      return 400
  }
}

/** The line in which the parser gave up. */
function lineAt(place = 0, bytes: Buffer = Buffer.alloc(0)): string {
  const start = place === 0 ? 0 : bytes.lastIndexOf('\n', place - 1) + 1
  const end = bytes.indexOf('\n', start)
  return bytes.toString('latin1', start, end < 0 ? undefined : end)
}

interface Parsed {
  readonly parser?: { getCurrentBuffer?(): Buffer }
}

/** Node's parser takes RTSP for HTTP, and several spaces for one: the bytes tell, if the request came in one piece. */
export function isMisread({ method, url, httpVersion, httpVersionMajor, socket }: IncomingMessage): boolean {
  const bytes = (socket as Parsed).parser?.getCurrentBuffer?.()
  if (httpVersionMajor !== 1 || bytes?.length !== socket.bytesRead) return false
  return !bytes.toString('latin1').trimStart().startsWith(`${method} ${url} HTTP/${httpVersion}\r\n`)
}

/** The shortest of answers, where there is no request to answer. */
export const refusalOf = (status: number) =>
  `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
