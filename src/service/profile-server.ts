import { networkInterfaces } from 'node:os'
import { type AppSettings, app } from '../app.ts'
import type { Config } from '../config/config.ts'
import type { Mode } from '../config/token-options.ts'
import type { Control } from '../control/control.ts'
import type { ProfileUrls } from '../log.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import type { Credentials } from '../server/dev-certificate.ts'
import type { listen } from '../server/listen.ts'
import type { Address, ServerContext } from '../server/server.ts'
import type { ControlledService } from './profile-control.ts'

export interface RunningProfile {
  readonly urls: ProfileUrls
  /** Undefined where clients control nothing, as always in production. */
  readonly control: Control | undefined
  /** Without failing a request. */
  close(): Promise<void>
  /** At once: requests in flight get no response. */
  destroy(): Promise<void>
}

/** What the profiles of a service share. */
interface ProfileSettings extends ControlledService {
  readonly appSettings: Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'>
  readonly serverContext: ServerContext
  readonly credentials: Credentials | undefined
  readonly listen: typeof listen
  /** What to do about a port that is in use, behind "is in use"; undefined: what helps a user of `serve`. */
  readonly portInUseAdvice: string | undefined
}

/** Listens on the profile's ports; returns an error message where one cannot be bound. */
export async function startProfile<Name extends ProfileName>(
  profile: Profile<Name>,
  shared: ProfileSettings,
): Promise<RunningProfile | string> {
  const { config, credentials, portInUseAdvice } = shared
  const { host, port = profile.defaultPort, mode, httpsRedirectPort } = config
  const httpsPort = credentials && httpsPortOf(profile, config)
  const redirectsToHttps = mode === 'production' && (httpsRedirectPort ?? httpsPort) !== undefined
  const settings = { ...shared.appSettings, redirectPort: undefined, redirectsToHttps }
  const certificate = httpsPort === undefined ? undefined : credentials?.cert
  // Not loaded in production.
  const control =
    config.control &&
    (await import('./profile-control.ts')).controlledProfile(profile, shared, config.control, settings, certificate)
  const open = async (address: Address, redirectPort?: number) => {
    const handler = control ?? app(profile, shared.stores, { ...settings, redirectPort })
    const listening = shared.listen(handler, address, shared.serverContext)
    return listening.catch((cause: NodeJS.ErrnoException) => {
      control?.close()
      return describeListenError(cause, address, portInUseAdvice ?? adviceForServe(profile.name, port, address))
    })
  }
  const https = httpsPort === undefined ? undefined : await open({ host, port: httpsPort, credentials })
  if (typeof https === 'string') return https
  const http = await open({ host, port }, redirectsToHttps ? (httpsRedirectPort ?? https?.port) : undefined)
  if (typeof http === 'string') {
    await https?.destroy()
    return http
  }
  const ports = { http: http.port, ...(https && { https: https.port }) }
  const stop = async (how: 'close' | 'destroy') => {
    control?.close()
    await Promise.all([http[how](), https?.[how]()])
  }
  return {
    // Read again each time: a machine gets and loses its network addresses.
    get urls() {
      return { title: profile.title, ...urlsOf(host, ports, mode, control !== undefined) }
    },
    control,
    close: () => stop('close'),
    destroy: () => stop('destroy'),
  }
}

/** A profile on another port than its default has HTTPS only with --https-port. */
function httpsPortOf({ defaultPort, defaultHttpsPort }: Profile<ProfileName>, { port = defaultPort, https }: Config) {
  return https?.port ?? (port === defaultPort || https?.credentials ? defaultHttpsPort : undefined)
}

function urlsOf(
  host: string | undefined,
  ports: Record<string, number>,
  mode: Mode,
  hasApp: boolean,
): Omit<ProfileUrls, 'title'> {
  const urlsAt = (name: string) => Object.entries(ports).map(([scheme, port]) => `${scheme}://${name}:${port}`)
  const isEveryInterface = host === undefined || host === '0.0.0.0' || host === '::'
  const name = isEveryInterface ? 'localhost' : host.includes(':') ? `[${host}]` : host
  if (mode === 'production') return { urls: urlsAt(name) }
  return {
    urls: urlsAt(name),
    ...(name === 'localhost' && { emulatorUrls: urlsAt('10.0.2.2') }),
    ...(isEveryInterface && { isListeningOnNetwork: true, networkUrls: networkAddresses().flatMap(urlsAt) }),
    ...(hasApp && { app: `${urlsAt(name)[0]}/app` }),
    swagger: `${urlsAt(name)[0]}/swagger`,
  }
}

const networkAddresses = () =>
  Object.values(networkInterfaces())
    .flatMap((all = []) => all.filter(({ internal, family }) => !internal && family === 'IPv4'))
    .map(({ address }) => address)

/** The ports in between may be those of HTTPS. */
const alternative = (port: number) => (port < 65_525 ? port + 10 : port - 10)

function adviceForServe(profile: string, plainPort: number, { port, credentials }: Address): string {
  const airPlay = port === 5000 ? ' (on macOS it is often AirPlay Receiver: System Settings, AirDrop & Handoff)' : ''
  const httpsPort = credentials ? ` --https-port ${alternative(port)}` : ''
  const another = `todo-service serve --profile ${profile} --port ${alternative(plainPort)}${httpsPort}`
  return `. Stop the program that uses it${airPlay}, or choose another port: ${another}`
}

function describeListenError(
  { code, message }: NodeJS.ErrnoException,
  { host = '', port, credentials }: Address,
  portInUseAdvice: string,
): string {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} is in use${portInUseAdvice}`
    case 'EACCES':
      return `Port ${port} needs privileges that this process does not have. Choose a port above 1023 with ${credentials ? '--https-port' : '--port'}.`
    case 'ENOTFOUND':
    case 'EADDRNOTAVAIL':
      return `Host ${host} is not an address of this machine. Leave --host out, or name one that is.`
    default:
      return `Cannot listen on ${host} port ${port}: ${message}.`
  }
}
