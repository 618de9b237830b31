import { createServer } from 'node:http'
import { add, named, numbered, port, profile } from './items.ts'

/** The lower limit for a list: sends the same bytes and does nothing else. Serialized once after each POST. */
let bytes: Buffer | undefined

createServer((request, response) => {
  if (request.method === 'POST') {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString())
      if (profile === 'b') named.set(body.id, body)
      else add(body)
      bytes = undefined
      response.writeHead(201).end()
    })
  } else {
    bytes ??= Buffer.from(JSON.stringify([...(profile === 'b' ? named : numbered).values()]))
    const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': bytes.length }
    response.writeHead(200, headers).end(bytes)
  }
}).listen(port, '127.0.0.1')
