import { networkInterfaces } from 'node:os'
import { type AppSettings, app } from '../app.ts'
import type { Config } from '../config.ts'
import type { Credentials } from '../http/https.ts'
import { type Address, listen } from '../http/server.ts'
import type { Served } from '../log.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import type { Stores } from '../store/store.ts'
import type { Mode } from '../token-config.ts'

export interface Running extends Served {
  close(): Promise<unknown>
}

/** The profile on its ports, or the sentence that says why not. */
export async function start<Name extends ProfileName>(
  profile: Profile<Name>,
  stores: Stores,
  config: Config,
  settings: AppSettings,
  credentials: Credentials | undefined,
): Promise<Running | string> {
  const { host, port = profile.defaultPort } = config
  const open = async (address: Address, redirectPort?: number) =>
    listen(app(profile, stores, { ...settings, redirectPort }), address, config.limits).catch(
      (cause: NodeJS.ErrnoException) => sentence(cause, profile.name, address, port),
    )
  const securePort = httpsPortOf(profile, config)
  const secure =
    credentials && securePort !== undefined ? await open({ host, port: securePort, credentials }) : undefined
  if (typeof secure === 'string') return secure
  const redirectPort = config.mode === 'production' ? (config.httpsRedirectPort ?? secure?.port) : undefined
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

/** The next ports are those of HTTPS. */
const beside = (port: number) => (port < 65_525 ? port + 10 : port - 10)

/** Why a port cannot be had, and what to do. */
function sentence(
  { code, message }: NodeJS.ErrnoException,
  profile: string,
  { host = '', port, credentials }: Address,
  plainPort: number,
): string {
  const flag = credentials ? '--https-port' : '--port'
  switch (code) {
    case 'EADDRINUSE': {
      const airPlay =
        port === 5000 ? ' (on macOS it is often AirPlay Receiver: System Settings, AirDrop & Handoff)' : ''
      const another = `todo-service serve --profile ${profile} --port ${beside(plainPort)}${credentials ? ` --https-port ${beside(port)}` : ''}`
      return `Port ${port} is in use. Stop the program that holds it${airPlay}, or take another: ${another}`
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
