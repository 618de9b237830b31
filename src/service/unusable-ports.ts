import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { attempt } from '../common/attempt.ts'
import { StartError } from '../common/start-error.ts'
import type { Config } from '../config/config.ts'
import { acceptConnections } from '../server/listen.ts'
import { findService } from './client.ts'

/** A port that is in use, or that this process has no permission to use. */
export interface UnusablePort {
  readonly port: number
  readonly isHttps: boolean
  /** The name of the flag that sets this port. */
  readonly flag: string
  readonly needsPrivileges: boolean
}

const describeUnusablePort = ({ port, needsPrivileges }: UnusablePort) =>
  `${port} ${needsPrivileges ? (port < 1024 ? 'needs privileges that this process does not have' : 'is reserved by the system') : 'is in use'}`

/** Returns the command line of this process with other values of these flags; undefined if no user has typed one. */
export type CommandWith = ((flags: Readonly<Record<string, string>>) => string) | undefined

interface Settings {
  readonly host: string | undefined
  /** The ports that this service uses. */
  readonly used: readonly number[]
  readonly commandWith: CommandWith
  readonly findHolder?: (port: number) => ReturnType<typeof findPortHolder>
  readonly responseTimeoutMs?: number | undefined
}

/** Returns why each port is unusable, as part of a sentence, and what to do: a command line with free ports. */
export async function explainUnusablePorts(
  unusable: readonly UnusablePort[],
  settings: Settings,
): Promise<{ reasons: readonly string[]; advice: string }> {
  const { host, used, commandWith } = settings
  if (!commandWith)
    return {
      reasons: unusable.map(describeUnusablePort),
      advice: 'Choose another, or leave it out for a free one.',
    }
  const explained = await Promise.all(unusable.map((port) => explain(port, settings)))
  const unavailable = [...used, ...unusable.map(({ port }) => port)]
  const flags: Record<string, string> = {}
  for (const { flag, port } of unusable) {
    const free = await findFreePort(host, port, unavailable)
    unavailable.push(free)
    flags[flag] = `${free}`
  }
  const remedies = new Set(explained.flatMap(({ remedy }) => remedy ?? []))
  const advice = [...remedies, unusable.length === 1 ? 'choose another port' : 'choose other ports'].join(', or ')
  return {
    reasons: explained.map(({ reason }) => reason),
    advice: `${advice.charAt(0).toUpperCase()}${advice.slice(1)}: ${commandWith(flags)}`,
  }
}

/** Waits until metrics are served. If they cannot be, throws a `StartError` that says why, and what to do. */
export const whenServed = <Server>(
  serving: Promise<Server>,
  { metricsPort: port = 0, metricsHost: host }: Config,
  commandWith: CommandWith,
): Promise<Server> =>
  serving.catch(async ({ code, message }: NodeJS.ErrnoException) => {
    if (code !== 'EADDRINUSE' && code !== 'EACCES')
      throw new StartError(`Metrics cannot be served on ${host} port ${port}: ${message}.`)
    const unusable = { port, isHttps: false, flag: 'metrics-port', needsPrivileges: code === 'EACCES' }
    const { reasons, advice } = await explainUnusablePorts([unusable], { host, used: [], commandWith })
    throw new StartError(`Port ${reasons}. ${advice}`)
  })

async function explain(
  unusable: UnusablePort,
  { used, findHolder = findPortHolder, responseTimeoutMs }: Settings,
): Promise<{ reason: string; remedy?: string }> {
  const { port, isHttps, needsPrivileges } = unusable
  const reason = describeUnusablePort(unusable)
  if (needsPrivileges) return { reason }
  if (used.includes(port)) return { reason: `${reason} by this service itself` }
  const [holder, url] = await Promise.all([
    findHolder(port),
    findService([`${isHttps ? 'https' : 'http'}://localhost:${port}`], responseTimeoutMs),
  ])
  const { program = '', pid } = holder ?? {}
  if (isAirPlay(port, program))
    return {
      reason: `${reason} by AirPlay Receiver of macOS (${program}, pid ${pid})`,
      remedy: 'switch off AirPlay Receiver in System Settings, General, AirDrop & Handoff',
    }
  const ofProcess = holder ? `${program} (pid ${pid})` : 'another program'
  const who = url ? `another todo-item-service${holder ? `, ${ofProcess}` : ''}` : ofProcess
  return { reason: `${reason} by ${who}`, remedy: 'stop the program' }
}

/** Whether the program is AirPlay Receiver. The system may cut off the name ControlCenter. */
const isAirPlay = (port: number, program: string) => [5000, 7000].includes(port) && /^ControlCe/.test(program)

const step = 5
const maxAttempts = 20

async function findFreePort(host: string | undefined, port: number, taken: readonly number[]): Promise<number> {
  // Starts at 8080 for port 80 and 8443 for port 443, which are usual and need no privileges.
  const first = port < 1024 ? port + 8000 : port
  const candidates = Array.from({ length: maxAttempts }, (_, index) => first + index * step)
  for (const candidate of [...candidates.filter((port) => port <= 65_535 && !taken.includes(port)), 0])
    try {
      const listener = await acceptConnections({ host, port: candidate }, (socket) => socket.destroy())
      await listener.close()
      return listener.port
    } catch {
      // This port is unusable, too.
    }
  return 0
}

/** Returns the program that listens on a port of this machine; undefined if the system does not tell in time. */
export async function findPortHolder(
  port: number,
  { platform = process.platform as string, env = process.env, timeoutMs = 1_000 } = {},
): Promise<{ readonly program: string; readonly pid: string } | undefined> {
  try {
    if (platform === 'linux') return findInProc(port, performance.now() + timeoutMs)
    if (platform === 'win32') return undefined
    // `+c 0` prints the whole name of the program.
    const args = ['+c', '0', '-nP', `-iTCP:${port}`, '-sTCP:LISTEN']
    const { stdout } = await promisify(execFile)('lsof', args, { timeout: timeoutMs, env })
    const [, program, pid] = /^(?!COMMAND)(\S+)\s+(\d+)/m.exec(stdout) ?? []
    return program && pid ? { program: program.replaceAll('\\x20', ' '), pid } : undefined
  } catch {
    return undefined
  }
}

/** Finds the process that has the listening socket open. Only root can look into the processes of other users. */
function findInProc(port: number, endsAt: number) {
  // Reading fails if a process has ended meanwhile, and /proc/net/tcp6 is missing if IPv6 is disabled.
  const sockets = ['tcp', 'tcp6'].flatMap((file) =>
    attempt(() => readFileSync(`/proc/net/${file}`, 'utf8'), '')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local = '', , state]) => state === '0A' && Number.parseInt(local.split(':')[1] ?? '', 16) === port)
      .map((fields) => `socket:[${fields[9]}]`),
  )
  const holds = (pid: string) =>
    attempt(() => readdirSync(`/proc/${pid}/fd`), []).some((fd) =>
      sockets.includes(attempt(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')),
    )
  const pid = readdirSync('/proc').find((name) => /^\d+$/.test(name) && performance.now() < endsAt && holds(name))
  return pid === undefined ? undefined : { program: basename(readlinkSync(`/proc/${pid}/exe`)), pid }
}
