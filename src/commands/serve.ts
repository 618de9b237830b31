import { type KeyObject, randomUUID } from 'node:crypto'
import { type AppSettings, profiles } from '../app.ts'
import { type Config, readConfig } from '../config.ts'
import { configFolder } from '../folder.ts'
import { developmentCertificate } from '../http/https.ts'
import { rateLimiter } from '../http/rate.ts'
import { jsonLog, type Log, readableLog } from '../log.ts'
import { optionsHelp } from '../options.ts'
import { serveOptions } from '../serve-options.ts'
import { developmentWish } from '../tokens/development.ts'
import { guardOf } from '../tokens/guard.ts'
import { mint } from '../tokens/mint.ts'
import { version } from '../version.ts'
import type { Command, Process } from './command.ts'
import { startMetrics } from './metrics.ts'
import { type Running, start } from './start.ts'
import { openStores } from './stores.ts'
import { tokenTerms } from './token-terms.ts'

export const serve: Command = {
  help: `Runs the service: Profile A, Profile B or both, each with its own items, in memory or in PostgreSQL.

Usage
  todo-service serve [flags]

Flags, their environment variables, and in brackets what holds without them. Flags win.
${optionsHelp(serveOptions)}
Log levels, each with all that the one before it shows
  silent   nothing
  error    start, stop, and failures of the service with their cause
  warn     requests answered with a 4xx or 5xx status
  info     every request
In development the log is for reading; in production each line is a JSON object.

Examples
  todo-service serve                           both profiles: A on port 5080, B on port 5000
  todo-service serve --profile b               one profile, on its own port
  todo-service serve --profile a --port 8080   one profile, on another port
  todo-service serve --mode production         JSON log lines, every interface
`,

  async run(args, process) {
    const config = readConfig(args, process.env, new Date())
    if ('problems' in config) return config
    const log = logOf(config, process)
    const stop = stopOn(process)
    endOnTheUnforeseen(process, log)
    const stores = await openStores(config, { ...surroundings, log, stop })
    if (stop.aborted) return 0
    if (typeof stores === 'string') {
      process.stderr.write(`todo-service: ${stores}\n`)
      return 1
    }
    const { terms, development, notes: tokenNotes } = await tokenTerms(config, process.env, log.trouble)
    const metrics = await startMetrics(config, stores, surroundings.ticks)
    if (typeof metrics === 'string') {
      await stores.close()
      process.stderr.write(`todo-service: ${metrics}\n`)
      return 1
    }
    const settings: AppSettings = {
      ...config,
      ...surroundings,
      redirectPort: undefined,
      guard: guardOf(terms),
      allows: config.rateLimit === undefined ? undefined : rateLimiter(config.rateLimit, surroundings.ticks),
      observe: metrics?.observe,
      pageToken: development && (() => newPageToken(development.key)),
      unready: () =>
        stop.aborted
          ? 'stopping'
          : stores.ping().then(
              () => undefined,
              () => 'the items cannot be reached',
            ),
      log,
    }
    const credentials =
      config.https &&
      (config.https.credentials ?? (await developmentCertificate(configFolder(process.env), new Date())))
    const running: Running[] = []
    const closeAll = async () => {
      await Promise.all(running.map(({ close }) => close()))
      await metrics?.close()
      await stores.close()
    }
    for (const name of config.profiles) {
      const started = await start(profiles[name], metrics?.stores ?? stores, config, settings, credentials)
      if (typeof started === 'object') running.push(started)
      else {
        await closeAll()
        process.stderr.write(`todo-service: ${started}\n`)
        return 1
      }
    }
    const served = running.map(({ close: _, ...one }) => one)
    const notes = [...tokenNotes, ...httpsNotes(config)]
    log.started({ version, mode: config.mode, store: stores.kind, profiles: served, notes })
    if (!stop.aborted) await new Promise((stopped) => stop.addEventListener('abort', stopped))
    await closeAll()
    log.stopped()
    return 0
  },
}

/** Aborted by the first signal; the second ends the process at once. */
function stopOn(process: Process): AbortSignal {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(1)
      stop.abort()
    })
  return stop.signal
}

/** Whatever nobody caught leaves the process in a state that nobody knows: it says so, and ends. */
function endOnTheUnforeseen(process: Process, log: Log): void {
  for (const event of ['uncaughtException', 'unhandledRejection'])
    process.on(event, (cause: unknown) => {
      log.trouble('The service cannot go on', cause)
      process.exit(1)
    })
}

/** B12. */
const httpsNotes = ({ mode, https, httpsRedirectPort }: Config) =>
  mode === 'production' && !https && httpsRedirectPort === undefined
    ? ['Plain HTTP is not redirected: no HTTPS port is known. Set --tls-cert and --tls-key, or --https-redirect-port.']
    : []

/** S5: for whoever opens the page on this machine. */
const newPageToken = async (key: KeyObject) =>
  (
    await mint(
      { ...developmentWish, id: randomUUID().slice(0, 8), name: 'developer', validForSeconds: 86_400 },
      key,
      new Date(),
    )
  ).token

/** Time and chance, for everything below. */
const surroundings = {
  newId: () => randomUUID().replaceAll('-', ''),
  ticks: () => performance.now(),
  now: () => new Date(),
  random: Math.random,
}

/** How much of the log may wait for whoever reads it. */
const mostBacklog = 2 ** 20

function logOf({ mode, logLevel }: Config, { stdout }: Process): Log {
  let dropped = 0
  const write = (line: string) => {
    if (stdout.writableLength > mostBacklog) dropped++
    else {
      const lost = dropped
      dropped = 0
      stdout.write(line)
      if (lost > 0) log.notice(`${lost} lines of the log are lost: nobody took them in time.`)
    }
  }
  const log = mode === 'development' ? readableLog(write, logLevel) : jsonLog(write, logLevel, () => new Date())
  return log
}
