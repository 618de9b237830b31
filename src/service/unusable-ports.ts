import { StartError } from '../common/start-error.ts'
import type { Config } from '../config/config.ts'
import { acceptConnections } from '../server/listen.ts'
import { findService } from './find-service.ts'
import { findPortHolder } from './port-holder.ts'
import { describeUnusablePort, type UnusablePort } from './profile-server.ts'

/** The command line with other values of these flags, to be shown; undefined where nobody types one. */
export type CommandWith = ((flags: Readonly<Record<string, string>>) => string) | undefined

interface Settings {
  readonly host: string | undefined
  /** Ports of this service. */
  readonly used: readonly number[]
  readonly commandWith: CommandWith
}

interface Lookup {
  readonly findHolder?: (port: number) => ReturnType<typeof findPortHolder>
  readonly responseTimeoutMs?: number | undefined
}

/** Why each port is unusable, as the end of a sentence; and what to do, with a command that chooses ports that are free. */
export async function explainUnusablePorts(
  unusable: readonly UnusablePort[],
  { host, used, commandWith }: Settings,
  { findHolder = findPortHolder, responseTimeoutMs }: Lookup = {},
): Promise<{ reasons: readonly string[]; advice: string }> {
  if (!commandWith)
    return {
      reasons: unusable.map(describeUnusablePort),
      advice: 'Choose another, or leave it out for a free one.',
    }
  const explained = await Promise.all(unusable.map((one) => explain(one, used, { findHolder, responseTimeoutMs })))
  const taken = [...used, ...unusable.map(({ port }) => port)]
  const flags: Record<string, string> = {}
  for (const { flag, port } of unusable) {
    const free = await findFreePort(host, port, taken)
    taken.push(free)
    flags[flag] = `${free}`
  }
  const remedies = new Set(explained.flatMap(({ remedy }) => remedy ?? []))
  const advice = [...remedies, unusable.length === 1 ? 'choose another port' : 'choose other ports'].join(', or ')
  return {
    reasons: explained.map(({ reason }) => reason),
    advice: `${advice.charAt(0).toUpperCase()}${advice.slice(1)}: ${commandWith(flags)}`,
  }
}

/** Why metrics cannot be served, and what to do. */
export async function explainMetricsPort(
  { code, message }: NodeJS.ErrnoException,
  { metricsPort: port = 0, metricsHost: host }: Config,
  commandWith: CommandWith,
): Promise<StartError> {
  if (code !== 'EADDRINUSE' && code !== 'EACCES')
    return new StartError(`Metrics cannot be served on ${host} port ${port}: ${message}.`)
  const unusable = { port, isHttps: false, flag: 'metrics-port', needsPrivileges: code === 'EACCES' }
  const { reasons, advice } = await explainUnusablePorts([unusable], { host, used: [], commandWith })
  return new StartError(`Port ${reasons}. ${advice}`)
}

async function explain(
  unusable: UnusablePort,
  used: readonly number[],
  { findHolder, responseTimeoutMs }: Required<Lookup>,
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

/** The name may be cut off. */
const isAirPlay = (port: number, program: string) => [5000, 7000].includes(port) && /^ControlCe/.test(program)

const step = 5
const maxAttempts = 20

async function findFreePort(host: string | undefined, port: number, taken: readonly number[]): Promise<number> {
  // 8080 and 8443 need no privileges, and are known for it.
  const first = port < 1024 ? port + 8000 : port
  const candidates = Array.from({ length: maxAttempts }, (_, index) => first + index * step)
  for (const candidate of [...candidates.filter((one) => one <= 65_535 && !taken.includes(one)), 0])
    try {
      const listener = await acceptConnections({ host, port: candidate }, (socket) => socket.destroy())
      await listener.close()
      return listener.port
    } catch {
      // In use, too.
    }
  return 0
}
