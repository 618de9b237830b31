import { escapeText } from './common/escape.ts'
import type { ProfileUrls } from './common/profile-urls.ts'

export const logLevels = ['silent', 'error', 'warn', 'info'] as const
export type LogLevel = (typeof logLevels)[number]

export interface StartMessage {
  readonly version: string
  readonly mode: string
  readonly store: 'memory' | `the file ${string}` | `PostgreSQL, ${string}`
  readonly notes: readonly string[]
  readonly profiles: readonly ProfileUrls[]
  /** The URL of the metrics; undefined: no metrics. */
  readonly metrics: string | undefined
  /** Name and version of the runtime; undefined: Node. */
  readonly runtime?: string | undefined
  /** How many processes serve; undefined: this one alone. */
  readonly workers?: number | undefined
}

interface LoggedRequest {
  readonly traceId: string
  readonly method: string
  /** The path without the query, which may contain a secret. */
  readonly path: string
  /** The address of the client; empty if the socket no longer knows it. */
  readonly client: string
  readonly space: { readonly name: string }
}

interface LoggedResponse {
  /** The status; or text that says how the request ended without a response, in development. */
  readonly status: number | string
  readonly reason?: string | undefined
}

export interface Log {
  started(message: StartMessage): void
  stopped(): void
  /** Whether the log level lets `request` write any line. */
  readonly showsRequests: boolean
  request(profile: string, request: LoggedRequest, response: LoggedResponse, milliseconds: number): void
  malformedRequest(profile: string, status: number, reason: string, client: string): void
  requestFailed(profile: string, request: LoggedRequest, cause: unknown): void
  /** Logs a failure that belongs to no request. */
  error(message: string, cause: unknown): void
  /** Shown at every level but `silent`. */
  notice(message: string, level?: 'warn' | 'error'): void
}

type WriteLine = (line: string) => void

/** Writes lines for a terminal. A line from a worker process begins with the number of the worker. */
export function readableLog(writeLine: WriteLine, level: LogLevel, worker?: number): Log {
  const write: WriteLine = worker === undefined ? writeLine : (line) => writeLine(`[${worker}] ${line}`)
  const shows = (lineLevel: LogLevel) => isShown(lineLevel, level)
  return {
    started({ version, mode, store, profiles, metrics, runtime, workers, notes }) {
      if (!shows('error')) return
      const volatility = store === 'memory' ? ': lost when the service stops' : ''
      const lines = [
        [
          `todo-item-service ${version}`,
          `${mode} mode`,
          `items in ${store}${volatility}`,
          ...(workers === undefined ? [] : [`${workers} workers`]),
          ...(runtime === undefined ? [] : [`on ${runtime}`]),
        ].join(', '),
        '',
        ...profiles.flatMap((profile) => [formatUrls(profile), '']),
        ...(metrics ? [`Metrics: ${metrics}`] : []),
        ...notes,
        'Stop it with Ctrl+C.',
        '',
      ]
      write(`${lines.join('\n')}\n`)
    },
    showsRequests: shows('warn'),
    stopped() {
      if (shows('error')) write('Stopped.\n')
    },
    request(profile, request, { status, reason }, milliseconds) {
      if (!shows(levelOf(status))) return
      const { method, path, space } = request
      const trace = levelOf(status) === 'warn' ? `, trace ${request.traceId}` : ''
      const why = reason ? `: ${escapeText(reason)}` : ''
      write(
        `${method} ${shorten(path)} ${status} ${milliseconds.toFixed(1)} ms (${profile}${inSpace(space)}${trace})${why}\n`,
      )
    },
    malformedRequest(profile, status, reason) {
      if (shows('warn')) write(`Malformed request: ${status} (${profile}): ${escapeText(reason)}\n`)
    },
    requestFailed(profile, { traceId, method, path, space }, cause) {
      if (shows('error'))
        write(
          `${method} ${shorten(path)} failed (${profile}${inSpace(space)}, trace ${traceId}): ${escapeText(describe(cause), 'lines')}\n`,
        )
    },
    error(message, cause) {
      if (shows('error')) write(`${message}: ${escapeText(describe(cause).replace(/\s*\n\s*/g, ' '))}\n`)
    },
    notice(message) {
      if (shows('error')) write(`${message}\n`)
    },
  }
}

function formatUrls({
  title,
  urls,
  emulatorUrls = [],
  networkUrls = [],
  spaceUrls = [],
  app,
  swagger,
  unusablePort = [],
}: ProfileUrls): string {
  const indent = '\n             '
  if (urls.length === 0) return `  ${title}  is not served: ${unusablePort.join(indent)}`
  const lines = [
    urls.join('   '),
    ...(app ? [`app       ${app}`] : []),
    `try       curl ${urls[0]}/api/todoitems`,
    ...(swagger ? [`swagger   ${swagger}`] : []),
    ...(emulatorUrls.length > 0 ? [`emulator  ${emulatorUrls.join('   ')}`] : []),
    ...(networkUrls.length > 0 ? [`network   ${networkUrls.join('   ')}`] : []),
    ...(spaceUrls.length > 0 ? [`a class   ${spaceUrls.join('   ')}   each NAME has its own items`] : []),
    ...unusablePort.map((line, index) => `${index === 0 ? 'no HTTPS' : ''}`.padEnd(10) + line),
  ]
  return `  ${title}  ${lines.join(indent)}`
}

/** Writes one JSON object per line. */
export function jsonLog(write: WriteLine, level: LogLevel, now: () => Date, worker?: number): Log {
  const log = (lineLevel: LogLevel, message: string, details: object = {}, shownAt = lineLevel) => {
    if (isShown(shownAt, level))
      write(`${toLine({ time: now().toISOString(), level: lineLevel, message, worker, ...details })}\n`)
  }
  const notice: Log['notice'] = (message, lineLevel = 'warn') => log(lineLevel, message, {}, 'error')
  const details = (profile: string, { traceId: id, method, path, client, space }: LoggedRequest) => ({
    id,
    profile,
    space: space.name || undefined,
    client: client || undefined,
    method,
    path: path.slice(0, 2_000),
  })
  return {
    started(message) {
      log('info', 'started', message, 'error')
      if (message.store === 'memory' && message.mode === 'production')
        notice('The items are in memory: lost when the service stops. Set --data or --database-url to keep them.')
    },
    showsRequests: isShown('warn', level),
    stopped: () => log('info', 'stopped', {}, 'error'),
    request(profile, request, { status, reason }, milliseconds) {
      if (!isShown(levelOf(status), level)) return
      const rounded = Number(milliseconds.toFixed(1))
      log(levelOf(status), 'request', { ...details(profile, request), status, milliseconds: rounded, reason })
    },
    malformedRequest: (profile, status, reason, client) =>
      log('warn', 'malformed request', { profile, client: client || undefined, status, reason }),
    requestFailed: (profile, request, cause) =>
      log('error', 'request failed', { ...details(profile, request), cause: describe(cause) }),
    error: (message, cause) => log('error', message, { cause: describe(cause) }),
    notice,
  }
}

/** Escapes only lines that need it: most have no character to escape, and a test is cheaper. */
function toLine(logged: object): string {
  const json = JSON.stringify(logged)
  return /[^ -~]|##/.test(json) ? escapeText(json, 'json') : json
}

const isShown = (lineLevel: LogLevel, level: LogLevel) => logLevels.indexOf(lineLevel) <= logLevels.indexOf(level)

const levelOf = (status: LoggedResponse['status']): LogLevel =>
  typeof status === 'number' && status < 400 ? 'info' : 'warn'

/** Shortens a path for a terminal: it can have thousands of characters. */
const shorten = (path: string) => escapeText(path.length > 200 ? `${path.slice(0, 199)}…` : path)

const inSpace = ({ name }: LoggedRequest['space']) => name && `, space ${shorten(name)}`

const describe = (cause: unknown) => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause))
