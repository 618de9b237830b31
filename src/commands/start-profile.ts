import { networkInterfaces } from 'node:os'
import { type AppSettings, app } from '../app.ts'
import type { Config } from '../config/config.ts'
import type { Mode } from '../config/token-options.ts'
import type { ProfileUrls } from '../log.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import type { Credentials } from '../server/dev-certificate.ts'
import type { listen } from '../server/listen.ts'
import type { Address, ServerContext } from '../server/server.ts'
import type { Stores } from '../store/store.ts'
import type { ServiceInfo } from './develop.ts'
import { controlBodyBytes, type OpenStores } from './stores.ts'

export interface RunningProfile {
  readonly urls: ProfileUrls
  close(): Promise<void>
}

interface StartSettings {
  readonly stores: Stores
  readonly openAnother: OpenStores['openAnother']
  readonly config: Config
  readonly appSettings: Omit<AppSettings, 'redirectPort' | 'redirectsToHttps'>
  readonly context: ServerContext
  readonly credentials: Credentials | undefined
  readonly listen: typeof listen
  /** For the page. */
  readonly service: () => Omit<ServiceInfo, 'certificate'>
}

/** Listens on the profile's ports; returns an error message where one cannot be bound. */
export async function startProfile<Name extends ProfileName>(
  profile: Profile<Name>,
  { stores, openAnother, config, appSettings, context, credentials, service, listen }: StartSettings,
): Promise<RunningProfile | string> {
  const { host, port = profile.defaultPort, mode, httpsRedirectPort } = config
  const httpsPort = credentials && httpsPortOf(profile, config)
  const redirectsToHttps = mode === 'production' && (httpsRedirectPort ?? httpsPort) !== undefined
  const settings = { ...appSettings, redirectPort: undefined, redirectsToHttps }
  // Not loaded in production.
  const development =
    config.control &&
    (await import('./develop.ts')).developmentHandler(
      profile,
      stores,
      openAnother,
      settings,
      config.control,
      () => ({ ...service(), certificate: httpsPort === undefined ? undefined : credentials?.cert }),
      controlBodyBytes(config),
    )
  const open = async (address: Address, redirectPort?: number) => {
    const handler = development ?? app(profile, stores, { ...settings, redirectPort })
    return listen(handler, address, context).catch((cause: NodeJS.ErrnoException) =>
      describeListenError(cause, profile.name, address, port),
    )
  }
  const https = httpsPort !== undefined ? await open({ host, port: httpsPort, credentials }) : undefined
  if (typeof https === 'string') return https
  const http = await open({ host, port }, redirectsToHttps ? (httpsRedirectPort ?? https?.port) : undefined)
  if (typeof http === 'string') {
    await https?.close()
    return http
  }
  const ports = { http: http.port, ...(https && { https: https.port }) }
  return {
    urls: { title: profile.title, ...urlsOf(host, ports, mode, development !== undefined) },
    async close() {
      development?.close()
      await Promise.all([http.close(), https?.close()])
    },
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
  const addresses = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.filter(({ internal, family }) => !internal && family === 'IPv4'),
  )
  if (mode === 'production') return { urls: urlsAt(name) }
  return {
    urls: urlsAt(name),
    ...(name === 'localhost' && { emulatorUrls: urlsAt('10.0.2.2') }),
    ...(isEveryInterface && { networkUrls: addresses.flatMap(({ address }) => urlsAt(address)) }),
    ...(hasApp && { app: `${urlsAt(name)[0]}/app` }),
    swagger: `${urlsAt(name)[0]}/swagger`,
  }
}

/** The ports in between may be those of HTTPS. */
const alternative = (port: number) => (port < 65_525 ? port + 10 : port - 10)

function describeListenError(
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
      const another = `todo-service serve --profile ${profile} --port ${alternative(plainPort)}${credentials ? ` --https-port ${alternative(port)}` : ''}`
      return `Port ${port} is in use. Stop the program that uses it${airPlay}, or choose another port: ${another}`
    }
    case 'EACCES':
      return `Port ${port} needs privileges that this process does not have. Choose a port above 1023 with ${flag}.`
    case 'ENOTFOUND':
    case 'EADDRNOTAVAIL':
      return `Host ${host} is not an address of this machine. Leave --host out, or name one that is.`
    default:
      return `Cannot listen on ${host} port ${port}: ${message}.`
  }
}
