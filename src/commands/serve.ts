import cluster from 'node:cluster'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { StartError } from '../common/start-error.ts'
import { type Config, readConfig, serveOptions } from '../config/config.ts'
import { findFlagsTakenByNpm, optionsHelp, withFlags } from '../config/options.ts'
import { configDirectory } from '../config-directory.ts'
import { jsonLog, type Log, readableLog } from '../log.ts'
import { runtime } from '../server/runtime.ts'
import { createClock } from '../service/clock.ts'
import { type ServiceOptions, startService } from '../service/service.ts'
import { type Command, commandLine, fail, type Process } from './command.ts'

export const serve: Command = {
  help: `Runs the service: Profile A, Profile B or both, each with its own items, in memory, in a file or in PostgreSQL.

Usage
  todo-service serve [flags]

Flags and environment variables; defaults in brackets. A flag wins over its variable.
${optionsHelp(serveOptions)}
Log levels, each including the ones above it
  silent   nothing
  error    start, stop, and failures of the service with their cause
  warn     requests answered with a 4xx or 5xx status
  info     every request
Text is for people. Of json, each line is an object; the first has the URLs: profiles[0].urls[0].

Examples
  todo-service serve                           both profiles: A on port 5080, B on port 5000
  todo-service serve --profile b               one profile, on its default port
  todo-service serve --profile a --port 8080   one profile, on another port
  todo-service serve --port-b 5005             both profiles, B on another port
  todo-service serve --data todo.db            items stay in a file
  todo-service serve --mode production         JSON log lines, every interface
  todo-service serve --profile b --port 0 --log-format json   for programs: the first line has the URL
`,

  async run(args, process) {
    const taken = findFlagsTakenByNpm(serveOptions, args, process.env)
    if (taken.length > 0) return { problems: taken }
    const config = readConfig(args, process.env, new Date(), runtime)
    if ('problems' in config) return config
    const { worker } = cluster
    const log = createLog(config, process, worker?.id)
    const stop = stopSignal(process, worker !== undefined)
    exitOnUncaught(process, log)
    const clock = createClock(config)
    // Imported here, because production does not load this code.
    const control = config.control && (await import('../service/profile-control.ts'))
    const { problems = [], notes = [] } = control?.findFaultProblems(config, clock) ?? {}
    if (problems.length > 0) return { problems }
    if (!worker) for (const note of notes) log.notice(note)
    const count = config.workers === 'auto' ? availableParallelism() : config.workers
    const options = {
      config,
      log,
      clock,
      stop,
      commandWith: (flags: Readonly<Record<string, string>>) =>
        commandLine(process, 'serve', ...withFlags(serveOptions, args, flags)),
      tokenCommand: commandLine(process, 'token'),
    }
    let code = 0
    try {
      const isInPlace =
        worker || count === 1
          ? await serveHere({ ...options, directory: configDirectory(process.env), worker, processes: count })
          : await (await import('../service/workers.ts')).serveInWorkers({ ...options, count })
      code = isInPlace ? 0 : 1
    } catch (error) {
      if (!(error instanceof StartError)) throw error
      // A signal stopped the service before it had started: the user needs no error message.
      if (!stop.aborted) code = fail(process, error.message)
    }
    // The IPC channel to the primary process would keep this process alive.
    worker?.disconnect()
    // An abandoned request may also keep the process alive: on Deno, a pending read of its body.
    setTimeout(() => process.exit(code), exitTimeoutMs).unref()
    return code
  },
}

/** Serves in this process until a signal. Returns false if the data file has been deleted or replaced. */
async function serveHere(options: ServiceOptions): Promise<boolean> {
  const { log, stop, worker } = options
  const service = await startService(options)
  if (worker) worker.send(service.startMessage)
  else log.started(service.startMessage)
  if (!stop.aborted) await once(stop, 'abort')
  const isInPlace = service.isInPlace()
  await service.close()
  if (!worker) log.stopped()
  return isInPlace
}

/**
 * Aborts on the first signal; the second one ends the process at once. A worker gets SIGTERM from the primary process,
 * and possibly from a service manager, too. Ctrl+C sends SIGINT to all processes, but the primary process alone handles
 * it.
 */
function stopSignal(process: Process, isWorker: boolean): AbortSignal {
  const stop = new AbortController()
  let first = { signal: '', at: 0 }
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.on(signal, () => {
      if (isWorker && signal === 'SIGINT') return
      const now = performance.now()
      const isRepeated = signal === first.signal && now - first.at < repeatedSignalMs
      if (stop.signal.aborted && !isRepeated && !isWorker) process.exit(1)
      if (!stop.signal.aborted) first = { signal, at: now }
      stop.abort()
    })
  return stop.signal
}

/** A process that does not end by itself after the service has stopped is ended after this time. */
const exitTimeoutMs = 500

/** npm and timeout send a signal to the process and to its group, so it may arrive twice within this time. */
const repeatedSignalMs = 200

/** Logs an uncaught exception and exits, because the state of the process is unknown after it. */
function exitOnUncaught(process: Process, log: Log): void {
  for (const event of ['uncaughtException', 'unhandledRejection'])
    process.on(event, (cause: unknown) => {
      log.error('Uncaught exception, exiting', cause)
      process.exit(1)
    })
}

/** Log lines wait in memory if standard output is read slowly; beyond this size, lines are dropped and counted. */
const maxLogBacklogBytes = 2 ** 20

function createLog({ logFormat, logLevel }: Config, { stdout }: Process, worker?: number): Log {
  let dropped = 0
  const write = (line: string) => {
    if (stdout.writableLength > maxLogBacklogBytes) {
      dropped++
      return
    }
    stdout.write(line)
    if (dropped === 0) return
    const count = dropped
    dropped = 0
    log.notice(`${count} log lines were dropped: standard output was not read in time.`)
  }
  const log =
    logFormat === 'text' ? readableLog(write, logLevel, worker) : jsonLog(write, logLevel, () => new Date(), worker)
  return log
}
