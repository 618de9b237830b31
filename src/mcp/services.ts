import { profiles } from '../app.ts'
import { isOriginAllowed } from '../http/cors.ts'
import type { ProfileName } from '../profiles/profile.ts'
import { type ControlClient, ControlError, connectControl } from '../service/control-client.ts'
import { startInProcess } from '../service/start.ts'

export interface ServiceSettings {
  /** The URLs of --url. If there are any, no other service is used, and none is started. */
  readonly urls: readonly string[]
  readonly token: string | undefined
  /** If `urls` is empty, a running service is looked for at these URLs. */
  readonly searchedUrls: Readonly<Record<ProfileName, readonly string[]>>
  /** The configuration directory of the user, with the key of development tokens. */
  readonly directory: string | undefined
  /** The command that creates a token, for messages. */
  readonly tokenCommand: string
  /** The name of a space for this session alone, in services whose items are in a file or a database. */
  readonly ownSpace: string
}

export interface ServiceConnection {
  /** The URL without a space. */
  readonly url: string
  readonly service: ControlClient
  /** The base URL for clients, with the prefix of the space. */
  readonly baseUrl: string
  readonly isStartedHere: boolean
  /** Why the service was started here, or why the session has its own space in it. */
  readonly note?: string | undefined
}

/** The services on which the tools work: those that already run, and those that are started in this process. */
export function findServices(settings: ServiceSettings) {
  const { urls, token, searchedUrls, directory, tokenCommand, ownSpace } = settings
  const startedServices = new Map<ProfileName, ReturnType<typeof startInProcess>>()
  /** Tells by profile why a service was started although another one runs. */
  const notes = new Map<ProfileName, string>()
  /** The services in which this session has its own space; the key is the URL. */
  const owned = new Map<string, ControlClient>()

  /**
   * Returns a service of the profile, which may be undefined if --url names a single one. Throws a `ControlError` if no
   * service can be used. Items in a file or a database belong to the user: a caller that changes items gets the space
   * of this session instead, or a service that is started here.
   */
  async function connect(
    profile: ProfileName | undefined,
    space: string | undefined,
    use: 'read' | 'change',
  ): Promise<ServiceConnection> {
    const connectTo = async (url: string, isStartedHere: boolean, note?: string): Promise<ServiceConnection> => {
      const named = space ?? (owned.has(url) ? ownSpace : undefined)
      const sent = urls.length > 0 ? token : undefined
      const service = await connectControl(url, { space: named, token: sent, tokenCommand })
      return { url, service, baseUrl: named === undefined ? url : `${url}/~${named}`, isStartedHere, note }
    }
    // An agent may also change the items of a space that it names.
    const mayUse = ({ service, baseUrl }: ServiceConnection) =>
      use === 'read' || !service.isPersistent || baseUrl.includes('/~')
    const withOwnSpace = async (connection: ServiceConnection) => {
      if (mayUse(connection)) return connection
      const { url, service } = connection
      const keeps = `${service.name} keeps its items: ${service.store}.`
      if (service.spaces !== 'path')
        throw new ControlError(`${keeps} It has no spaces by path: ask the user to start one that keeps none.`)
      owned.set(url, service)
      return connectTo(url, false, `${keeps} This is a space of your own, which is deleted with this session.`)
    }
    if (profile === undefined) {
      const [url, ...others] = urls
      if (url === undefined || others.length > 0) throw new ControlError('The argument profile is missing: use a or b.')
      return withOwnSpace(await connectTo(url, false))
    }
    if (urls.length > 0) {
      const connections = await Promise.allSettled(urls.map((url) => connectTo(url, false)))
      for (const { value } of connections.filter((result) => result.status === 'fulfilled'))
        if (value.service.profile === profile) return withOwnSpace(value)
      for (const { reason } of connections.filter((result) => result.status === 'rejected')) throw reason
      throw new ControlError(`${profiles[profile].title} is not served at ${urls.join(', ')}: add its URL with --url.`)
    }
    if (!startedServices.has(profile)) {
      const connections = await Promise.all(
        searchedUrls[profile].map((url) => connectTo(url, false).catch(notControlled)),
      )
      const found = connections.find((connection) => connection?.service.profile === profile)
      if (found && mayUse(found)) return found
      if (use === 'read')
        throw new ControlError(`No service of ${profiles[profile].title} runs. The tool service starts one.`)
      const { name, store } = found?.service ?? {}
      if (name) notes.set(profile, `${name} keeps its items: ${store}. This one was started for this session.`)
    }
    // Another call may have started a service meanwhile.
    const started = startedServices.get(profile) ?? startInProcess({ profile }, directory)
    startedServices.set(profile, started)
    const { url } = await started.catch((cause) => {
      // Forgets the failure, so that the next call tries again.
      startedServices.delete(profile)
      throw cause
    })
    return connectTo(url, true, notes.get(profile))
  }

  return {
    /** The id of the last request that this session has seen; the key is the base URL. */
    lastIds: new Map<string, number>(),
    connect,
    /** Whether the tools may send requests to a server: only on this machine, or if the user has passed it with --url. */
    mayVerify: (url: string) => isLocal(url) || urls.some((named) => new URL(named).origin === new URL(url).origin),
    async close(): Promise<void> {
      await Promise.allSettled([
        ...[...startedServices.values()].map(async (started) => (await started).destroy()),
        ...[...owned.values()].map((service) => service.send('DELETE', `/spaces/${ownSpace}`)),
      ])
    },
  }
}

export type Services = ReturnType<typeof findServices>

export const isLocal = (url: string) => isOriginAllowed(new URL(url).origin, 'loopback')

/** Ignores a URL without a service in development mode; throws other errors, such as a rejection by the service. */
function notControlled(cause: unknown): undefined {
  if (!(cause instanceof ControlError) || cause.isRejection) throw cause
}
