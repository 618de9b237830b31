import { createClient } from '../common/client.ts'
import { profileA } from '../profiles/a.ts'
import { profileB } from '../profiles/b.ts'

/** Long enough for a busy service on this machine, and short enough if another program there does not respond. */
const responseTimeoutMs = 500

/** Marks the requests of a command, so that /app can hide them among those of clients. */
export const commandHeader = { 'x-todo-client': 'command' }

/** The HTTP and HTTPS URLs of each profile if `serve` is started without flags. */
export const defaultUrlsByProfile: readonly (readonly [http: string, https: string])[] = [profileA, profileB].map(
  ({ defaultPort, defaultHttpsPort }) => [`http://localhost:${defaultPort}`, `https://localhost:${defaultHttpsPort}`],
)

/** All default URLs, those with HTTP first. */
export const defaultUrls: readonly string[] = [
  ...defaultUrlsByProfile.map(([http]) => http),
  ...defaultUrlsByProfile.map(([, https]) => https),
]

/** Returns the first URL at which this service responds. Sends no token, because another program may listen there. */
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
