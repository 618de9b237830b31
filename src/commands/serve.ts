import { type KeyObject, randomUUID } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import { type AppSettings, app, profiles } from '../app.ts'
import { type Config, type Mode, readConfig, serveOptions } from '../config.ts'
import { configFolder } from '../folder.ts'
import { type Credentials, developmentCertificate } from '../http/https.ts'
import { type Address, listen } from '../http/server.ts'
import { jsonLog, type Log, readableLog, type Served } from '../log.ts'
import { optionsHelp } from '../options.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import { memoryStores } from '../store/memory.ts'
import type { Stores } from '../store/store.ts'
import { developmentWish } from '../tokens/development.ts'
import { guardOf } from '../tokens/guard.ts'
import { mint } from '../tokens/mint.ts'
import { version } from '../version.ts'
import type { Command, Process } from './command.ts'
import { tokenTerms } from './token-terms.ts'

export const serve: Command = {
  help: `Runs the service: Profile A, Profile B or both, each with its own items, kept in memory.

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
    const stores = memoryStores({ a: profiles.a.startingItems, b: profiles.b.startingItems })
    const { terms, development, notes: tokenNotes } = await tokenTerms(config, process.env, log.trouble)
    const pageToken = development && (() => newPageToken(development.key))
    const settings = { ...config, redirectPort: undefined, guard: guardOf(terms), pageToken, log, ...surroundings }
    const credentials =
      config.https &&
      (config.https.credentials ?? (await developmentCertificate(configFolder(process.env), new Date())))
    const stop = new Promise((resolve) => {
      for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, resolve)
    })

    const running: Running[] = []
    const closeAll = () => Promise.all(running.map(({ close }) => close()))
    for (const name of config.profiles) {
      const started = await start(profiles[name], stores, config, settings, credentials)
      if (typeof started === 'object') running.push(started)
      else {
        await closeAll()
        process.stderr.write(`todo-service: ${started}\n`)
        return 1
      }
    }
    const served = running.map(({ close: _, ...one }) => one)
    const notes = [...tokenNotes, ...httpsNotes(config)]
    log.started({ version, mode: config.mode, store: 'memory', profiles: served, notes })
    await stop
    await closeAll()
    log.stopped()
    return 0
  },
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

function logOf({ mode, logLevel }: Config, { stdout }: Process): Log {
  const write = (line: string) => void stdout.write(line)
  return mode === 'development' ? readableLog(write, logLevel) : jsonLog(write, logLevel, () => new Date())
}

interface Running extends Served {
  close(): Promise<unknown>
}

/** The profile on its ports, or the sentence that says why not. */
async function start<Name extends ProfileName>(
  profile: Profile<Name>,
  stores: Stores,
  config: Config,
  settings: AppSettings,
  credentials: Credentials | undefined,
): Promise<Running | string> {
  const { host, port = profile.defaultPort } = config
  const open = async (address: Address, redirectPort?: number) =>
    listen(app(profile, stores, { ...settings, redirectPort }), address).catch((cause: NodeJS.ErrnoException) =>
      sentence(cause, profile.name, address),
    )
  const securePort = httpsPortOf(profile, config)
  const secure =
    credentials && securePort !== undefined ? await open({ host, port: securePort, credentials }) : undefined
  if (typeof secure === 'string') return secure
  const redirectPort = config.mode === 'production' ? (secure?.port ?? config.httpsRedirectPort) : undefined
  const plain = await open({ host, port }, redirectPort)
  if (typeof plain === 'string') {
    await secure?.close()
    return plain
  }
  const ports = { http: plain.port, ...(secure && { https: secure.port }) }
  const close = () => Promise.all([plain.close(), secure?.close()])
  return { title: profile.title, ...urlsOf(host, ports, config.mode), close }
}

/** A profile that is moved to another port has HTTPS only where it is told to. */
function httpsPortOf({ defaultPort, defaultHttpsPort }: Profile<ProfileName>, { port = defaultPort, https }: Config) {
  return https?.port ?? (port === defaultPort || https?.credentials ? defaultHttpsPort : undefined)
}

function urlsOf(host: string | undefined, ports: Record<string, number>, mode: Mode): Omit<Served, 'title'> {
  const at = (name: string) => Object.entries(ports).map(([scheme, port]) => `${scheme}://${name}:${port}`)
  const isEverywhere = host === undefined || host === '0.0.0.0' || host === '::'
  const name = isEverywhere ? 'localhost' : host.includes(':') ? `[${host}]` : host
  const addresses = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.filter(({ internal, family }) => !internal && family === 'IPv4'),
  )
  if (mode === 'production') return { urls: at(name) }
  return {
    urls: at(name),
    ...(name === 'localhost' && { emulatorUrls: at('10.0.2.2') }),
    ...(isEverywhere && { networkUrls: addresses.flatMap(({ address }) => at(address)) }),
    page: `${at(name)[0]}/swagger`,
  }
}

/** Why a port cannot be had, and what to do. */
function sentence(
  { code, message }: NodeJS.ErrnoException,
  profile: string,
  { host = '', port, credentials }: Address,
): string {
  const flag = credentials ? '--https-port' : '--port'
  switch (code) {
    case 'EADDRINUSE': {
      const airPlay =
        port === 5000 ? ' (on macOS it is often AirPlay Receiver: System Settings, AirDrop & Handoff)' : ''
      const another = `todo-service serve --profile ${profile} ${flag} ${port < 65535 ? port + 1 : port - 1}`
      return `Port ${port} is in use. Stop the program that holds it${airPlay}, or take another port: ${another}${credentials ? ', or do without: --no-https' : ''}`
    }
    case 'EACCES':
      return `Port ${port} needs more rights than this process has. Take a port above 1023 with ${flag}.`
    case 'ENOTFOUND':
    case 'EADDRNOTAVAIL':
      return `Host ${host} is not an address of this machine. Leave --host out, or name one that is.`
    default:
      return `Cannot listen on ${host} port ${port}: ${message}.`
  }
}
