export const logLevels = ['silent', 'error', 'warn', 'info'] as const
export type LogLevel = (typeof logLevels)[number]

interface Started {
  readonly version: string
  readonly mode: string
  readonly store: 'memory' | `PostgreSQL, ${string}`
  /** What a person should know before they wonder. */
  readonly notes: readonly string[]
  readonly profiles: readonly Served[]
}

/** Where a profile can be reached. */
export interface Served {
  readonly title: string
  readonly urls: readonly string[]
  readonly emulatorUrls?: readonly string[]
  readonly networkUrls?: readonly string[]
  readonly page?: string
}

export interface Exchange {
  readonly traceId: string
  readonly profile: string
  readonly method: string
  readonly path: string
}

export interface Log {
  started(started: Started): void
  stopped(): void
  /** Whether any request is shown, once it is answered. */
  readonly showsRequests: boolean
  request(exchange: Exchange, status: number, milliseconds: number, note?: string): void
  /** What came was no request. */
  refused(profile: string, status: number, reason: string): void
  failed(exchange: Exchange, cause: unknown): void
  /** Something besides a request failed. */
  trouble(what: string, cause: unknown): void
  /** Something changed that whoever runs the service should know. */
  notice(sentence: string): void
}

type Write = (line: string) => void

/** For a person at a terminal. */
export function readableLog(write: Write, level: LogLevel): Log {
  const shows = shown(level)
  return {
    started({ version, mode, store, profiles, notes }) {
      if (!shows('error')) return
      const said = notes.map((note) => `${note}\n`).join('')
      const rows = profiles.map(whereabouts).join('')
      write(
        `todo-item-service ${version}, ${mode} mode, items in ${store}${store === 'memory' ? ': gone when it stops' : ''}\n\n${rows}${said}Stop it with Ctrl+C.\n\n`,
      )
    },
    showsRequests: shows('warn'),
    stopped() {
      if (shows('error')) write('Stopped.\n')
    },
    request({ profile, method, path }, status, milliseconds, note) {
      if (shows(levelOf(status)))
        write(
          `${method} ${short(path)} ${status} ${milliseconds.toFixed(1)} ms (${profile})${note ? `: ${printable(note)}` : ''}\n`,
        )
    },
    refused(profile, status, reason) {
      if (shows('warn')) write(`No request: ${status} (${profile}): ${printable(reason)}\n`)
    },
    failed({ traceId: id, profile, method, path }, cause) {
      if (shows('error')) write(`${method} ${short(path)} failed (${profile}, request ${id}): ${describe(cause)}\n`)
    },
    trouble(what, cause) {
      if (shows('error')) write(`${what}: ${describe(cause).replace(/\s*\n\s*/g, ' ')}\n`)
    },
    notice(sentence) {
      if (shows('error')) write(`${sentence}\n`)
    },
  }
}

function whereabouts({ title, urls, emulatorUrls = [], networkUrls = [], page }: Served): string {
  const lines = [
    urls.join('   '),
    `try       curl ${urls[0]}/api/todoitems`,
    ...(page ? [`page      ${page}`] : []),
    ...(emulatorUrls.length > 0 ? [`emulator  ${emulatorUrls.join('   ')}`] : []),
    ...(networkUrls.length > 0 ? [`network   ${networkUrls.join('   ')}`] : []),
  ]
  return `  ${title}  ${lines.join('\n             ')}\n\n`
}

/** For a machine: one JSON object per line. */
export function jsonLog(write: Write, level: LogLevel, now: () => Date): Log {
  const shows = shown(level)
  const line = (lineLevel: LogLevel, message: string, details: object = {}) =>
    write(`${JSON.stringify({ time: now().toISOString(), level: lineLevel, message, ...details })}\n`)
  return {
    started(started) {
      if (shows('error')) line('info', 'started', started)
    },
    showsRequests: shows('warn'),
    stopped() {
      if (shows('error')) line('info', 'stopped')
    },
    request(exchange, status, milliseconds, note) {
      if (shows(levelOf(status)))
        line(levelOf(status), 'request', {
          ...details(exchange),
          status,
          milliseconds: Number(milliseconds.toFixed(1)),
          note,
        })
    },
    refused(profile, status, reason) {
      if (shows('warn')) line('warn', 'no request', { profile, status, reason })
    },
    failed(exchange, cause) {
      if (shows('error')) line('error', 'request failed', { ...details(exchange), cause: describe(cause) })
    },
    trouble(what, cause) {
      if (shows('error')) line('error', what, { cause: describe(cause) })
    },
    notice(sentence) {
      if (shows('error')) line('warn', sentence)
    },
  }
}

const details = ({ traceId: id, profile, method, path }: Exchange) => ({
  id,
  profile,
  method,
  path: path.slice(0, 2_000),
})

const shown = (level: LogLevel) => (line: LogLevel) => logLevels.indexOf(line) <= logLevels.indexOf(level)

const levelOf = (status: number): LogLevel => (status < 400 ? 'info' : 'warn')

/** A path may have thousands of characters, and a line is for reading. */
const short = (path: string) => printable(path.length > 200 ? `${path.slice(0, 199)}…` : path)

/** What a client sends must not move the cursor, or look like another line. */
const printable = (text: string) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`)

const describe = (cause: unknown) => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause))
