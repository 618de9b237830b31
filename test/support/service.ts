import { profiles } from '../../src/app.ts'
import { type Config, readConfig } from '../../src/config/config.ts'
import { jsonLog } from '../../src/log.ts'
import type { ProfileName } from '../../src/profiles/profile.ts'
import { createClock } from '../../src/service/clock.ts'
import { startService } from '../../src/service/service.ts'
import { type Cleanup, cleanUp } from './cleanup.ts'

/** A service in this process, with settings that no flag has. */
interface ServiceHere {
  readonly port: number
  readonly httpsPort: number
  readonly url: string
  /** Without failing a request. */
  close(): Promise<void>
}

/** With one of these profiles, A; destroyed when the test ends. */
export async function serveWith(
  t: Cleanup,
  args: readonly string[],
  settings: (config: Config) => Partial<Config>,
  monotonicNow = () => performance.now(),
  served = profiles,
  name: ProfileName = 'a',
): Promise<ServiceHere> {
  const now = () => new Date()
  const config = readConfig(['--profile', name, '--port', '0', '--host', '127.0.0.1', ...args], {}, now())
  if ('problems' in config) throw new Error(config.problems.join(' '))
  const service = await startService({
    config: { ...config, ...settings(config) },
    log: jsonLog(() => {}, 'silent', now),
    clock: { ...createClock({}), monotonicNow },
    directory: undefined,
    profiles: served,
    stop: new AbortController().signal,
  })
  if (typeof service === 'string') throw new Error(service)
  cleanUp(t, service.destroy)
  const [url = '', httpsUrl = 'https://none:0'] = service.profiles.flatMap(({ urls }) => urls.urls)
  return { url, port: Number(new URL(url).port), httpsPort: Number(new URL(httpsUrl).port), close: service.close }
}
