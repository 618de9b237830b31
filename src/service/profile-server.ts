import { networkInterfaces } from 'node:os'
import { type AppSettings, app } from '../app.ts'
import type { ProfileUrls } from '../common/profile-urls.ts'
import { StartError } from '../common/start-error.ts'
import type { Config } from '../config/config.ts'
import type { Control } from '../control/control.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import type { Credentials } from '../server/dev-certificate.ts'
import type { listen } from '../server/listen.ts'
import type { Address, Listening, ServerContext } from '../server/server.ts'
import type { Spaces } from '../store/store.ts'
import type { CreateControl } from './profile-control.ts'
import type { UnusablePort } from './unusable-ports.ts'

export interface RunningProfile extends Pick<Listening, 'close' | 'destroy'> {
  readonly urls: ProfileUrls
  /** Undefined without a control API, as always in production. */
  readonly control: Control | undefined
}

/** Settings that are the same for all profiles of a service. */
interface ProfileSettings {
  readonly config: Config
  readonly spaces: Spaces
  /** Undefined without a control API. */
  readonly createControl: CreateControl | undefined
  readonly appSettings: Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'>
  readonly serverContext: ServerContext
  readonly credentials: Credentials | undefined
  readonly listen: typeof listen
}

export interface StartedProfile {
  readonly title: string
  /** Undefined if the HTTP port is unusable; in production also if the HTTPS port is. */
  readonly running: RunningProfile | undefined
  readonly unusable: readonly UnusablePort[]
}

/** Listens on the ports of a profile. Throws a `StartError` for a failure that another port would not mend. */
export async function startProfile(profile: Profile, shared: ProfileSettings): Promise<StartedProfile> {
  const { config, credentials } = shared
  const { title } = profile
  const { host, mode, httpsRedirectPort } = config
  const { port = profile.defaultPort } = config.ports[profile.name].http
  const httpsPort = credentials && httpsPortOf(profile, config)
  const redirectsToHttps = mode === 'production' && (httpsRedirectPort ?? httpsPort) !== undefined
  const settings = { ...shared.appSettings, redirectPort: undefined, redirectsToHttps }
  let https: Listening | undefined
  const control = shared.createControl?.(profile, settings, () => (https ? credentials?.cert : undefined))
  const listeners: Listening[] = []
  const unusable: UnusablePort[] = []
  /** Listens on a port; returns undefined if the port is in use or needs privileges. */
  const open = async (address: Address, redirectPort?: number) => {
    const handler = control ?? app(profile, shared.spaces, { ...settings, redirectPort })
    const listening = await shared.listen(handler, address, shared.serverContext).catch((cause) => {
      unusable.push(unusablePort(cause, address, config.ports[profile.name]))
      return undefined
    })
    if (listening) listeners.push(listening)
    return listening
  }
  const openHttps = async () =>
    httpsPort === undefined ? undefined : open({ name: profile.name, host, port: httpsPort, credentials })
  const stop = async (how: 'close' | 'destroy') => {
    control?.close()
    await Promise.all(listeners.map((listening) => listening[how]()))
  }
  try {
    // In production HTTPS listens first, because HTTP redirects to its port.
    if (mode === 'production') https = await openHttps()
    const http = await open(
      { name: profile.name, host, port },
      redirectsToHttps ? (httpsRedirectPort ?? https?.port) : undefined,
    )
    if (mode === 'development' && http) https = await openHttps()
    if (!http || (mode === 'production' && unusable.length > 0)) {
      await stop('destroy')
      return { title, running: undefined, unusable }
    }
    const ports = { http: http.port, ...(https && { https: https.port }) }
    const running = {
      // Computed each time, because the network addresses of a machine change.
      get urls() {
        // In production these are the addresses on which it listens: `[::]` or `0.0.0.0` means all interfaces.
        if (mode === 'production') return { title, urls: urlsAt(http.host, ports) }
        return { title, ...urlsOf(host, ports, control !== undefined, config.spaces === 'path') }
      },
      control,
      close: () => stop('close'),
      destroy: () => stop('destroy'),
    }
    return { title, running, unusable }
  } catch (error) {
    await stop('destroy').catch(() => {})
    throw error
  }
}

/** Returns the HTTPS port. On another HTTP port than its default, a profile with a development certificate has none. */
function httpsPortOf(profile: Profile, { ports, https: config }: Config) {
  const { http, https } = ports[profile.name]
  const isDefault = (http.port ?? profile.defaultPort) === profile.defaultPort
  return https.port ?? (isDefault || config?.credentials ? profile.defaultHttpsPort : undefined)
}

const urlsAt = (host: string, ports: Record<string, number>) =>
  Object.entries(ports).map(([scheme, port]) => `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`)

function urlsOf(
  host: string | undefined,
  ports: Record<string, number>,
  hasApp: boolean,
  hasSpaces: boolean,
): Omit<ProfileUrls, 'title'> {
  const isEveryInterface = host === undefined || host === '0.0.0.0' || host === '::'
  const name = isEveryInterface ? 'localhost' : host
  const urls = urlsAt(name, ports)
  const networkUrls = isEveryInterface ? networkAddresses().flatMap((address) => urlsAt(address, ports)) : []
  return {
    urls,
    ...(name === 'localhost' && { emulatorUrls: urlsAt('10.0.2.2', ports) }),
    ...(isEveryInterface && { isListeningOnNetwork: true, networkUrls }),
    ...(hasSpaces && networkUrls.length > 0 && { spaceUrls: [`${networkUrls[0]}/~NAME`] }),
    ...(hasApp && { app: `${urls[0]}/app` }),
    swagger: `${urls[0]}/swagger`,
  }
}

const networkAddresses = () =>
  Object.values(networkInterfaces())
    .flatMap((all = []) => all.filter(({ internal, family }) => !internal && family === 'IPv4'))
    .map(({ address }) => address)

/** Returns the port of an address on which listening has failed. Throws if another port would fail, too. */
function unusablePort(cause: NodeJS.ErrnoException, address: Address, ports: Config['ports'][ProfileName]) {
  const { code = '', message } = cause
  if (code !== 'EADDRINUSE' && code !== 'EACCES') throw new StartError(describeListenError(code, message, address))
  const isHttps = address.credentials !== undefined
  const { flag } = ports[isHttps ? 'https' : 'http']
  return { port: address.port, isHttps, flag, needsPrivileges: code === 'EACCES' }
}

const describeListenError = (code: string, message: string, { host = '', port }: Address) =>
  code === 'ENOTFOUND' || code === 'EADDRNOTAVAIL'
    ? `Host ${host} is not an address of this machine. Leave --host out, or name one that is.`
    : `Cannot listen on ${host} port ${port}: ${message}.`
