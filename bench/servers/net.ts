import { createServer } from 'node:net'
import { port } from './items.ts'

/* The lower limit with a parser by hand: reads no more than the end of a request, and sends a constant. Profile A. */

const item = '{"id":1,"name":"walk the dog 1","isComplete":false}'
const respond = (status: string, body: string, headers = '') =>
  Buffer.from(
    `HTTP/1.1 ${status}\r\n${headers}Date: ${new Date().toUTCString()}\r\nConnection: keep-alive\r\n` +
      `${body && `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\n`}\r\n${body}`,
  )
const found = respond('200 OK', item)
const list = respond('200 OK', `[${Array(10).fill(item).join()}]`)
const created = respond('201 Created', item, `Location: http://127.0.0.1:${port}/api/todoitems/1\r\n`)
const noContent = respond('204 No Content', '')

createServer({ noDelay: true }, (socket) => {
  let received = ''
  socket.on('error', () => {})
  socket.on('data', (data) => {
    received += data.toString('latin1')
    for (let end = received.indexOf('\r\n\r\n'); end >= 0; end = received.indexOf('\r\n\r\n')) {
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(received.slice(0, end))?.[1] ?? 0)
      if (received.length < end + 4 + length) return
      const isGet = received.startsWith('GET')
      if (isGet) socket.write(received.startsWith('GET /api/todoitems ') ? list : found)
      else socket.write(received.startsWith('POST') ? created : noContent)
      received = received.slice(end + 4 + length)
    }
  })
}).listen(port, '127.0.0.1')
