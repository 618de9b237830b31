import { createClient } from '../common/client.ts'
import { isLoopbackHost } from '../http/proxy.ts'
import { commandHeader } from './find-service.ts'
import { createDevToken } from './tokens.ts'

const responseTimeoutMs = 2_000
const validForSeconds = 3600

/** Creates tokens of two callers for a service in development mode on this machine; undefined for any other server. */
export async function developmentTokens(
  url: string,
  directory: string | undefined,
): Promise<{ readonly token: string; readonly otherToken: string } | undefined> {
  if (!isLoopbackHost(new URL(url).hostname)) return undefined
  const client = createClient(url, { insecure: true, timeout: responseTimeoutMs })
  const succeeds = async (path: string, headers: object) =>
    client.send('GET', path, undefined, { ...commandHeader, ...headers }).then(
      ({ status }) => status === 200,
      () => false,
    )
  if (!(await succeeds('/__admin/info', {}))) return undefined
  const create = async (name: string) => {
    const created = await createDevToken(directory, { name, roles: [], scopes: [], claims: {}, validForSeconds })
    return typeof created === 'string' ? '' : created.token
  }
  const [token, otherToken] = [await create('verify'), await create('verify-other')]
  return (await succeeds('/secret', { authorization: `Bearer ${token}` })) ? { token, otherToken } : undefined
}
