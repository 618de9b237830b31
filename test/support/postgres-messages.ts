import type { Socket } from 'node:net'

/** Calls back with each message: a byte for its type, if it has one, and its length as int32, which counts itself. */
export function readMessages(socket: Socket, typeLength: 0 | 1, onMessage: (type: string, body: Buffer) => void): void {
  let received = Buffer.alloc(0)
  socket.on('data', (data) => {
    received = Buffer.concat([received, data])
    while (received.length >= typeLength + 4) {
      const end = typeLength + received.readInt32BE(typeLength)
      if (received.length < end) return
      onMessage(received.toString('latin1', 0, typeLength), received.subarray(typeLength + 4, end))
      received = received.subarray(end)
      typeLength = 1
    }
  })
}

export function message(type: string, body: Buffer | string): Buffer {
  const bytes = Buffer.from(body)
  const head = Buffer.alloc(type.length + 4)
  head.write(type, 'latin1')
  head.writeInt32BE(bytes.length + 4, type.length)
  return Buffer.concat([head, bytes])
}
