import { profiles } from '../app.ts'
import { isOriginAllowed } from '../http/cors.ts'
import type { ProfileName } from '../profiles/profile.ts'
import { type ControlClient, ControlError, connectControl } from '../service/control-client.ts'
import { startInProcess } from '../service/start.ts'

export interface ServiceSettings {
  /** With the flag --url, no other services are used, and none is started. */
  readonly urls: readonly string[]
  readonly token: string | undefined
  /** Where a service is looked for, without `urls`. */
  readonly searchedUrls: Readonly<Record<ProfileName, readonly string[]>>
  /** The user's configuration directory, with the key of development tokens. */
  readonly directory: string | undefined
  /** The command that makes a token, to be shown. */
  readonly tokenCommand: string
  /** A space that no other session uses, for services that keep their items. */
  readonly ownSpace: string
}

export interface ServiceConnection {
  readonly service: ControlClient
  /** Clients use it; it has the prefix of the space. */
  readonly baseUrl: string
  readonly isStartedHere: boolean
  /** Why it is not the service, or the space, that was asked for. */
  readonly note?: string | undefined
}

/** The services that the tools work on: those that run, or one for each profile in this process. */
export class Services {
  /** The id of the last request that this session has seen, by base URL. */
  readonly lastIds = new Map<string, number>()
  readonly #settings: ServiceSettings
  readonly #started = new Map<ProfileName, ReturnType<typeof startInProcess>>()
  /** Why one was started though another runs. */
  readonly #notes = new Map<ProfileName, string>()
  /** Services in which this session has a space of its own. */
  readonly #owned = new Map<string, ControlClient>()

  constructor(settings: ServiceSettings) {
    this.#settings = settings
  }

  /**
   * Throws a `ControlError` where the profile is not served by those that it may use. It can be absent where there is one
   * service only. Items that a service keeps are the user's: unless the caller only reads, it gets a space of this session,
   * or a service that is started here.
   */
  async connect(
    profile: ProfileName | undefined,
    space: string | undefined,
    use: 'read' | 'change',
  ): Promise<ServiceConnection> {
    const { urls, token, searchedUrls, tokenCommand, ownSpace } = this.#settings
    const connectTo = async (url: string, isStartedHere: boolean, note?: string): Promise<ServiceConnection> => {
      const named = space ?? (this.#owned.has(url) ? ownSpace : undefined)
      const sent = urls.length > 0 ? token : undefined
      const service = await connectControl(url, { space: named, token: sent, tokenCommand })
      return { service, baseUrl: named === undefined ? url : `${url}/~${named}`, isStartedHere, note }
    }
    // A named space is the agent's own, too.
    const mayUse = ({ service, baseUrl }: ServiceConnection) =>
      use === 'read' || !service.isPersistent || baseUrl.includes('/~')
    const withOwnSpace = async (url: string, connection: ServiceConnection) => {
      if (mayUse(connection)) return connection
      const { service } = connection
      const keeps = `${service.name} keeps its items: ${service.store}.`
      if (service.spaces !== 'path')
        throw new ControlError(`${keeps} It has no spaces by path: ask the user to start one that keeps none.`)
      this.#owned.set(url, service)
      return connectTo(url, false, `${keeps} This is a space of your own, which is deleted with this session.`)
    }
    if (profile === undefined) {
      const [url, ...others] = urls
      if (url === undefined || others.length > 0) throw new ControlError('The argument profile is missing: use a or b.')
      return withOwnSpace(url, await connectTo(url, false))
    }
    if (urls.length > 0) {
      const connections = await Promise.allSettled(
        urls.map(async (url) => ({ url, connection: await connectTo(url, false) })),
      )
      for (const { value } of connections.filter((one) => one.status === 'fulfilled'))
        if (value.connection.service.profile === profile) return withOwnSpace(value.url, value.connection)
      for (const { reason } of connections.filter((one) => one.status === 'rejected')) throw reason
      throw new ControlError(`${profiles[profile].title} is not served at ${urls.join(', ')}: add its URL with --url.`)
    }
    if (!this.#started.has(profile)) {
      const connections = await Promise.all(
        searchedUrls[profile].map((url) => connectTo(url, false).catch(notControlled)),
      )
      const found = connections.find((connection) => connection?.service.profile === profile)
      if (found && mayUse(found)) return found
      if (use === 'read')
        throw new ControlError(`No service of ${profiles[profile].title} runs. The tool service starts one.`)
      const { name, store } = found?.service ?? {}
      if (name) this.#notes.set(profile, `${name} keeps its items: ${store}. This one was started for this session.`)
    }
    // Another call may have started it meanwhile.
    const started = this.#started.get(profile) ?? startInProcess({ profile }, this.#settings.directory)
    this.#started.set(profile, started)
    const { url } = await started.catch((cause) => {
      // The next call tries again.
      this.#started.delete(profile)
      throw cause
    })
    return connectTo(url, true, this.#notes.get(profile))
  }

  /** Whether these tools may send requests to the server: it is on this machine, or the user has named it. */
  mayVerify(url: string): boolean {
    return isLocal(url) || this.#settings.urls.some((named) => new URL(named).origin === new URL(url).origin)
  }

  async close(): Promise<void> {
    const { ownSpace } = this.#settings
    await Promise.allSettled([
      ...[...this.#started.values()].map(async (started) => (await started).destroy()),
      ...[...this.#owned.values()].map((service) => service.send('DELETE', `/spaces/${ownSpace}`)),
    ])
  }
}

export const isLocal = (url: string) => isOriginAllowed(new URL(url).origin, 'loopback')

/** No service, or one in production mode, is of no use here. A rejection is about the request. */
function notControlled(cause: unknown): undefined {
  if (!(cause instanceof ControlError) || cause.isRejection) throw cause
}
