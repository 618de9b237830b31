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
}

export interface ServiceConnection {
  readonly service: ControlClient
  /** Clients use it; it has the prefix of the space. */
  readonly baseUrl: string
  readonly isStartedHere: boolean
}

/** The services that the tools work on: those that run, or one for each profile in this process. */
export class Services {
  readonly #settings: ServiceSettings
  readonly #started = new Map<ProfileName, ReturnType<typeof startInProcess>>()

  constructor(settings: ServiceSettings) {
    this.#settings = settings
  }

  /**
   * Throws a `ControlError` where the profile is not served by those that it may use. It can be absent where there is one
   * service only.
   */
  async connect(profile: ProfileName | undefined, space?: string): Promise<ServiceConnection> {
    const { urls, token, searchedUrls, tokenCommand } = this.#settings
    const connectTo = async (url: string, isStartedHere: boolean): Promise<ServiceConnection> => {
      const service = await connectControl(url, { space, token: urls.length > 0 ? token : undefined, tokenCommand })
      return { service, baseUrl: space === undefined ? url : `${url}/~${space}`, isStartedHere }
    }
    if (profile === undefined) {
      const [url, ...others] = urls
      if (url === undefined || others.length > 0) throw new ControlError('The argument profile is missing: use a or b.')
      return connectTo(url, false)
    }
    if (urls.length > 0) {
      const connections = await Promise.allSettled(urls.map((url) => connectTo(url, false)))
      for (const { value } of connections.filter((one) => one.status === 'fulfilled'))
        if (value.service.profile === profile) return value
      for (const { reason } of connections.filter((one) => one.status === 'rejected')) throw reason
      throw new ControlError(`${profiles[profile].title} is not served at ${urls.join(', ')}: add its URL with --url.`)
    }
    if (!this.#started.has(profile)) {
      const connections = await Promise.all(
        searchedUrls[profile].map((url) => connectTo(url, false).catch(notControlled)),
      )
      const found = connections.find((connection) => connection?.service.profile === profile)
      if (found) return found
    }
    // Another call may have started it meanwhile.
    const started = this.#started.get(profile) ?? startInProcess({ profile }, this.#settings.directory)
    this.#started.set(profile, started)
    const { url } = await started.catch((cause) => {
      // The next call tries again.
      this.#started.delete(profile)
      throw cause
    })
    return connectTo(url, true)
  }

  /** Whether these tools may send requests to the server: it is on this machine, or the user has named it. */
  mayVerify(url: string): boolean {
    return isLocal(url) || this.#settings.urls.some((named) => new URL(named).origin === new URL(url).origin)
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#started.values()].map(async (started) => (await started).destroy()))
  }
}

export const isLocal = (url: string) => isOriginAllowed(new URL(url).origin, 'loopback')

/** No service, or one in production mode, is of no use here. A rejection is about the request. */
function notControlled(cause: unknown): undefined {
  if (!(cause instanceof ControlError) || cause.isRejection) throw cause
}
