import type { Socket } from 'node:net'

/** How often connections are looked at. */
const beat = 1_000
/** For how many looks a connection may do nothing between requests, */
const mostIdle = 65
/** and a client may take nothing of what is sent to it. */
const mostStuck = 30

/** What was seen of a connection, and for how many looks it has not changed. */
interface Seen {
  read: number
  written: number
  looks: number
}

/** Ends connections that do nothing. Nothing is noted down while they are at work: their counters are enough. */
export function watchOver(isAtWork: (socket: Socket) => boolean) {
  const all = new Map<Socket, Seen>()
  const timer = setInterval(() => {
    for (const [socket, seen] of all) look(socket, seen)
  }, beat)
  timer.unref()

  function look(socket: Socket, seen: Seen): void {
    const { bytesRead, bytesWritten, writableLength } = socket
    // What Node has taken but could not send counts as written, too.
    const written = bytesWritten - writableLength
    const hasMoved = bytesRead !== seen.read || written !== seen.written
    seen.read = bytesRead
    seen.written = written
    seen.looks = hasMoved ? 0 : seen.looks + 1
    const most = writableLength > 0 ? mostStuck : isAtWork(socket) ? Number.POSITIVE_INFINITY : mostIdle
    if (seen.looks > most) socket.destroy()
  }

  return {
    add(socket: Socket): void {
      all.set(socket, { read: 0, written: 0, looks: 0 })
      socket.once('close', () => all.delete(socket))
    },
    end: () => clearInterval(timer),
  }
}
