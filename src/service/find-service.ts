import { createClient } from '../common/client.ts'
import { profileA } from '../profiles/a.ts'
import { profileB } from '../profiles/b.ts'

/** Long enough for a busy service on this machine, short enough to wait for a program that does not respond. */
const responseTimeoutMs = 500

/** Tells requests of a command from those of the clients that somebody watches. */
export const commandHeader = { 'x-todo-client': 'command' }

/** Where `serve` listens without flags: the HTTP and the HTTPS port of each profile. */
export const defaultUrlsByProfile: readonly (readonly [http: string, https: string])[] = [profileA, profileB].map(
  ({ defaultPort, defaultHttpsPort }) => [`http://localhost:${defaultPort}`, `https://localhost:${defaultHttpsPort}`],
)

/** HTTP first. */
export const defaultUrls: readonly string[] = [
  ...defaultUrlsByProfile.map(([http]) => http),
  ...defaultUrlsByProfile.map(([, https]) => https),
]

/** The first of the URLs where this service runs. The token is not sent: another program may listen there. */
export async function findService(urls: readonly string[], timeoutMs = responseTimeoutMs): Promise<string | undefined> {
  const found = await Promise.all(
    urls.map(async (url) => {
      const client = createClient(url, { timeout: timeoutMs, insecure: true })
      const response = await client.send('GET', '/health/live', undefined, commandHeader).catch(() => undefined)
      return response?.status === 200 && response.text === 'live'
    }),
  )
  return urls.find((_, index) => found[index])
}
