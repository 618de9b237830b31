import { type Check, choice, items, spec, withToken } from './check.ts'
import { expectEmpty, expectMedia, expectStatus, expectThat, expectType, jsonOf } from './expect.ts'
import type { Received, Service } from './service.ts'

const secret = '/secret'
const pagePath = '/swagger/index.html'
const documentPath = '/swagger/v1/swagger.json'
const bearing = (token: string) => ({ authorization: `Bearer ${token}` })

const challengeOf = ({ headers }: Received) => headers['www-authenticate'] ?? ''

/** S6, where credentials are missing. */
function expectAsked(answer: Received): void {
  expectEmpty(answer, 401)
  expectThat(/^Bearer$/i.test(challengeOf(answer)), 'WWW-Authenticate: Bearer', answer)
}

/** S6, where a token is bad. */
function expectInvalid(answer: Received): void {
  expectEmpty(answer, 401)
  const form = /^Bearer error="invalid_token", error_description="[^"\\\r\n]+"$/
  expectThat(
    form.test(challengeOf(answer)),
    'WWW-Authenticate: Bearer error="invalid_token", error_description="…"',
    answer,
  )
}

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
}

/** Tokens made from the one at hand that nobody signed. */
function forgeries(token: string): string[] {
  const [header = '', claims = '', signature = ''] = token.split('.')
  const parsed = claimsOf(token)
  const unsigned = base64url({ alg: 'none', typ: 'JWT' })
  return [
    `${unsigned}.${claims}.`,
    `${unsigned}.${claims}.${signature}`,
    `${header}.${claims}.`,
    `${header}.${claims}`,
    `${header}.${base64url({ ...parsed, sub: `not ${parsed.sub}` })}.${signature}`,
    `${header}.${base64url({ ...parsed, exp: 9_999_999_999 })}.${signature}`,
    `${header}.${claims}.${signature.slice(0, -4)}AAAA`,
    `${header}.${claims}.${signature}=`,
    `${token}.${signature}`,
    `${token} x`,
  ]
}

async function expectOpen(service: Service, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const answer = await service.send('GET', path)
    expectThat(![401, 403, 407].includes(answer.status), 'an answer without a token', answer)
  }
}

/** How a server may say that it wants a token: which status it is, the specification does not say. */
function expectGuarded(answer: Received): void {
  expectThat([301, 302, 303, 307, 308, 401, 403].includes(answer.status), 'no answer without a good token', answer)
}

export const securedChecks: readonly Check[] = [
  spec('S3', 'the secured greeting asks for a token', async (service) => {
    expectGuarded(await service.send('GET', secret))
  }),
  withToken(
    spec('S3', "with a token it greets by the caller's name", async (service) => {
      const token = service.token as string
      const { unique_name, name, sub } = claimsOf(token)
      const answer = await service.send('GET', secret, undefined, bearing(token))
      expectStatus(answer, 200)
      expectThat(/^text\/plain\b/.test(answer.headers['content-type'] ?? ''), 'content-type text/plain', answer)
      expectThat(
        answer.text.includes(`${unique_name ?? name ?? sub}`),
        `the name ${unique_name ?? name ?? sub}`,
        answer,
      )
      const again = await service.send('GET', secret, undefined, bearing(token))
      expectThat(again.text === answer.text, 'a fixed phrase', again)
    }),
  ),
  withToken(
    spec('S3', 'a token that nobody signed opens nothing', async (service) => {
      for (const token of forgeries(service.token as string))
        for (const path of [secret, documentPath])
          expectGuarded(await service.send('GET', path, undefined, bearing(token)))
    }),
  ),
  withToken(
    choice('S3', 'the scheme is matched in any case, and the greeting is UTF-8', async (service) => {
      for (const scheme of ['bearer', 'BEARER']) {
        const authorization = `${scheme} ${service.token}`
        expectType(await service.send('GET', secret, undefined, { authorization }), 'text/plain; charset=utf-8')
      }
    }),
  ),
  spec('S4', 'the document asks for a token', async (service) => {
    expectGuarded(await service.send('GET', documentPath))
  }),
  withToken(
    spec('S4', 'with a token it is an OpenAPI 3.0.1 document, version v1', async (service) => {
      const answer = await service.send('GET', documentPath, undefined, bearing(service.token as string))
      expectStatus(answer, 200)
      const document = jsonOf(answer) as { openapi?: unknown; info?: { version?: unknown }; paths?: object }
      expectThat(document.openapi === '3.0.1', 'openapi 3.0.1', answer)
      expectThat(document.info?.version === 'v1', 'info.version v1', answer)
      const paths = Object.keys(document.paths ?? {}).map((path) => path.toLowerCase())
      for (const path of [items, `${items}/{id}`, '/weatherforecast', '/', secret])
        expectThat(paths.includes(path), `the path ${path} in the document`, answer)
      expectMedia(answer, 'application/json')
    }),
  ),
  spec('S5', 'the page is HTML in development, and not there otherwise', async (service) => {
    const answer = await service.send('GET', pagePath)
    if (answer.status === 404) return
    expectStatus(answer, 200)
    expectThat(/^text\/html\b/.test(answer.headers['content-type'] ?? ''), 'content-type text/html', answer)
  }),
  choice('S5', '/swagger leads to the page', async (service) => {
    const page = await service.send('GET', pagePath)
    const answer = await service.send('GET', '/swagger')
    if (page.status === 404) return expectStatus(answer, 404)
    expectThat(answer.status >= 301 && answer.status <= 308, 'a redirect', answer)
    expectThat(/\/swagger\/index\.html$/.test(answer.headers.location ?? ''), `a Location of ${pagePath}`, answer)
  }),
  choice('S6', "no or another scheme's credentials: 401, asking for a token", async (service) => {
    expectAsked(await service.send('GET', secret))
    expectAsked(await service.send('HEAD', secret))
    for (const authorization of ['Basic YWRhOnBhc3M=', 'Bearer', 'Bearerx', 'Token abc', 'abc'])
      expectAsked(await service.send('GET', secret, undefined, { authorization }))
  }),
  choice('S6', 'what is no token is a bad token', async (service) => {
    for (const token of ['x', 'a.b.c', '..', 'e30.e30.e30', 'null', '{}', '%00', 'a'.repeat(5000)])
      expectInvalid(await service.send('GET', secret, undefined, bearing(token)))
  }),
  withToken(
    choice('S6', 'a token that nobody signed is a bad token', async (service) => {
      for (const token of forgeries(service.token as string))
        expectInvalid(await service.send('GET', secret, undefined, bearing(token)))
    }),
  ),
  choice('S6', 'two Authorization headers: 400', async (service) => {
    expectStatus(await service.send('GET', secret, undefined, { authorization: ['Bearer a', 'Bearer b'] }), 400)
  }),
  spec('S7', 'the greeting and the forecast need no token', async (service) => {
    await expectOpen(service, ['/', '/weatherforecast'])
  }),
  choice('S7', 'a bad token is no hindrance where none is needed', async (service) => {
    for (const path of ['/', '/weatherforecast', items])
      expectStatus(await service.send('GET', path, undefined, bearing('nonsense')), 200)
  }),
  choice('S7', 'the to-do items need no token', async (service) => {
    await expectOpen(service, [items])
  }),
]
