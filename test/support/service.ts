import { type Config, readConfig } from '../../src/config/config.ts'
import { jsonLog } from '../../src/log.ts'
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

/** With profile A; destroyed when the test ends. */
export async function serveWith(
  t: Cleanup,
  args: readonly string[],
  settings: (config: Config) => Partial<Config>,
  monotonicNow = () => performance.now(),
): Promise<ServiceHere> {
  const now = () => new Date()
  const config = readConfig(['--profile', 'a', '--port', '0', '--host', '127.0.0.1', ...args], {}, now())
  if ('problems' in config) throw new Error(config.problems.join(' '))
  const service = await startService({
    config: { ...config, ...settings(config) },
    log: jsonLog(() => {}, 'silent', now),
    clock: { ...createClock({}), monotonicNow },
    directory: undefined,
    stop: new AbortController().signal,
  })
  if (typeof service === 'string') throw new Error(service)
  cleanUp(t, service.destroy)
  const [url = '', httpsUrl = 'https://none:0'] = service.profiles.flatMap(({ urls }) => urls.urls)
  return { url, port: Number(new URL(url).port), httpsPort: Number(new URL(httpsUrl).port), close: service.close }
}
