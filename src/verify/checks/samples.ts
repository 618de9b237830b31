import { type Check, choice, itemsPath, providing, spec, withToken } from '../check.ts'
import type { Client, Response } from '../client.ts'
import {
  expectContentType,
  expectEmpty,
  expectItems,
  expectMediaType,
  expectObject,
  expectServed,
  expectStatus,
  expectThat,
  observe,
  setUp,
} from '../expect.ts'

/** The methods that a profile offers. */
export interface Methods {
  readonly collection: readonly string[]
  readonly item: readonly string[]
}

interface ForecastEntry {
  readonly date: string
  readonly temperatureC: number
  readonly temperatureF: number
  readonly summary: string | null
}

const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')
const dateTimeWithOffset = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i
const dayMs = 86_400_000

const secretPath = '/secret'
const pagePath = '/swagger/index.html'
const documentPath = '/swagger/v1/swagger.json'

type SamplePath = '/' | '/weatherforecast' | '/secret' | '/swagger/v1/swagger.json'

/** For what a check states about an endpoint that is served. */
export async function send(client: Client, path: string, method = 'GET', headers = {}): Promise<Response> {
  const response = await client.send(method, path, method === 'POST' ? {} : undefined, headers)
  const mark = method === 'GET' ? setUp : observe
  if (isSamplePath(path)) mark(path, () => expectServed(response))
  return response
}

const isSamplePath = (path: string): path is SamplePath =>
  ['/', '/weatherforecast', secretPath, documentPath].includes(path)

async function fetchForecast(client: Client) {
  const response = await client.send('GET', '/weatherforecast')
  const entries = setUp('/weatherforecast', () => {
    expectServed(response)
    return expectItems<ForecastEntry>(response)
  })
  return { response, entries }
}

/** Temperatures and summaries are random, so the checks look at 100 entries. */
async function fetchManyEntries(client: Client): Promise<ForecastEntry[]> {
  const forecasts = await Promise.all(Array.from({ length: 20 }, () => fetchForecast(client)))
  return forecasts.flatMap(({ entries }) => entries)
}

const dayNumber = (date: string) => Date.parse(`${date.slice(0, 10)}T00:00:00Z`) / dayMs

const openChecks: readonly Check[] = [
  spec('S1', 'the forecast has five entries with exactly four members', async (client) => {
    const { response, entries } = await fetchForecast(client)
    expectThat(entries.length === 5, 'five entries', response)
    for (const entry of entries) {
      const members = Object.keys(entry).sort()
      expectThat(members.join() === 'date,summary,temperatureC,temperatureF', 'exactly the four members', response)
    }
  }),
  spec('S1', 'dates are date-times with an offset, on successive days from tomorrow', async (client) => {
    const { response, entries } = await fetchForecast(client)
    const dates = entries.map(({ date }) => `${date}`)
    expectThat(
      dates.every((date) => dateTimeWithOffset.test(date)),
      'date-times with an offset',
      response,
    )
    const [first = Number.NaN] = dates.map(dayNumber)
    expectThat(
      dates.every((date, index) => dayNumber(date) === first + index),
      'successive days',
      response,
    )
    const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d\d):(\d\d)$/.exec(dates[0] ?? '') ?? []
    const offsetMs = (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
    const now = Date.parse(response.headers.date ?? '') || Date.now()
    const today = Math.floor((now + offsetMs) / dayMs)
    expectThat(first === today + 1, 'tomorrow as the first day', response)
  }),
  choice('S1', 'the offset is +00:00', async (client) => {
    const { response, entries } = await fetchForecast(client)
    expectThat(
      entries.every(({ date }) => `${date}`.endsWith('+00:00')),
      'offsets of +00:00',
      response,
    )
  }),
  spec('S1', 'temperatureC is a whole number from -20 to 54', async (client) => {
    for (const { temperatureC: c } of await fetchManyEntries(client))
      expectThat(Number.isInteger(c) && c >= -20 && c <= 54, 'a temperatureC from -20 to 54')
  }),
  spec('S1', 'temperatureF is 32 + truncate(temperatureC / 0.5556)', async (client) => {
    for (const { temperatureC: c, temperatureF: f } of await fetchManyEntries(client))
      expectThat(
        f === 32 + Math.trunc(c / 0.5556),
        `temperatureF of ${Number(c)} °C to be ${32 + Math.trunc(Number(c) / 0.5556)}`,
      )
  }),
  spec('S1', 'summary is one of the ten texts', async (client) => {
    for (const { summary } of await fetchManyEntries(client))
      expectThat(summary === null || summaries.includes(summary), 'one of the ten summaries')
  }),
  choice('S2', 'the greeting declares charset=utf-8', async (client) => {
    expectContentType(await send(client, '/'), 'text/plain; charset=utf-8')
  }),
]

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** S6: credentials are missing. */
function expectChallenge(response: Response): void {
  expectEmpty(response, 401)
  expectThat(/^Bearer$/i.test(response.headers['www-authenticate'] ?? ''), 'WWW-Authenticate: Bearer', response)
}

/** S6: the token is invalid. */
function expectInvalidToken(response: Response): void {
  expectEmpty(response, 401)
  const challenge = /^Bearer error="invalid_token", error_description="[^"\\\r\n]+"$/
  expectThat(
    challenge.test(response.headers['www-authenticate'] ?? ''),
    'WWW-Authenticate: Bearer error="invalid_token", error_description="…"',
    response,
  )
}

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** No claims if the token is encrypted or not a JSON Web Token. */
function decodeClaims(token: string): Record<string, unknown> {
  try {
    return { ...JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) }
  } catch {
    return {}
  }
}

/** What the specification may mean by the name of the caller, the preferred one first. */
function callerNames({ token = '' }: Client): string[] {
  const { unique_name, name, sub } = decodeClaims(token)
  return [unique_name, name, sub].filter((claim) => typeof claim === 'string' && claim !== '') as string[]
}

interface OpenApiDocument {
  readonly openapi?: unknown
  readonly info?: { readonly version?: unknown }
  readonly paths?: Record<string, object>
}

async function fetchDocument(client: Client): Promise<{ response: Response; document: OpenApiDocument }> {
  const response = await send(client, documentPath, 'GET', bearer(client.token as string))
  observe(documentPath, () => expectStatus(response, 200))
  return { response, document: expectObject(response) }
}

/** Tokens derived from a valid one, without a valid signature. */
function forgeTokens(token: string): string[] {
  const [header = '', claims = '', signature = ''] = token.split('.')
  const parsed = decodeClaims(token)
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

async function expectNoTokenNeeded(client: Client, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const response = await send(client, path)
    expectThat(![401, 403, 407].includes(response.status), 'a response without a token', response)
  }
}

/** The specification does not say with which status a server requires a token. */
async function expectDenied(client: Client, path: SamplePath, headers = {}): Promise<void> {
  const response = await send(client, path, 'GET', headers)
  const isDenied = [301, 302, 303, 307, 308, 401, 403].includes(response.status)
  observe(path, () => expectThat(isDenied, '401, 403 or a redirect without a valid token', response))
}

/** The checks of whether the endpoints are served, on which others build. */
export const endpointChecks: readonly Check[] = [
  providing(
    '/',
    spec('S2', 'GET / returns a plain-text greeting', async (client) => {
      const response = await send(client, '/')
      expectStatus(response, 200)
      expectThat(/^text\/plain\b/i.test(response.headers['content-type'] ?? ''), 'content-type text/plain', response)
      expectThat(response.text.trim() !== '', 'a greeting', response)
    }),
  ),
  providing(
    '/weatherforecast',
    spec('S1', 'GET /weatherforecast returns 200 with an array of entries', async (client) => {
      await fetchForecast(client)
    }),
  ),
  providing(
    secretPath,
    spec('S3', 'GET /secret requires a token', async (client) => {
      await expectDenied(client, secretPath)
    }),
  ),
  providing(
    documentPath,
    spec('S4', 'the OpenAPI document requires a token', async (client) => {
      await expectDenied(client, documentPath)
    }),
  ),
]

/** S1, S3, S4: the specification states it of the to-do items (G1). */
const anyCaseChecks = (
  [
    ['S1', '/weatherforecast'],
    ['S3', secretPath],
    ['S4', documentPath],
  ] as const
).map(([rule, path]) =>
  choice(rule, `the path ${path} matches case-insensitively`, async (client) => {
    const { status } = await send(client, path)
    expectStatus(await client.send('GET', path.toUpperCase()), status)
  }),
)

const forgedTokenChecks = (
  [
    ['S3', secretPath],
    ['S4', documentPath],
  ] as const
).map(([rule, path]) =>
  withToken(
    spec(rule, `GET ${path} rejects forged tokens`, async (client) => {
      for (const token of forgeTokens(client.token as string)) await expectDenied(client, path, bearer(token))
    }),
  ),
)

const securedChecks = (methods: Methods): Check[] => [
  withToken(
    spec('S3', "GET /secret with a token returns the caller's name", async (client) => {
      const response = await send(client, secretPath, 'GET', bearer(client.token as string))
      observe(secretPath, () => expectStatus(response, 200))
      expectThat(/^text\/plain\b/i.test(response.headers['content-type'] ?? ''), 'content-type text/plain', response)
      const names = callerNames(client)
      expectThat(
        names.length === 0 || names.some((name) => response.text.includes(name)),
        `the name ${names.join(' or ')}`,
        response,
      )
      const again = await send(client, secretPath, 'GET', bearer(client.token as string))
      expectThat(again.text === response.text, 'the same text again', again)
    }),
  ),
  withToken(
    choice('S3', 'the name is the claim unique_name, else name, else sub', async (client) => {
      const response = await send(client, secretPath, 'GET', bearer(client.token as string))
      const [name = ''] = callerNames(client)
      expectThat(response.text.includes(name), `the name ${name}`, response)
    }),
  ),
  withToken(
    choice('S3', 'the scheme matches case-insensitively, and the response declares charset=utf-8', async (client) => {
      for (const scheme of ['bearer', 'BEARER']) {
        const authorization = `${scheme} ${client.token}`
        expectContentType(await send(client, secretPath, 'GET', { authorization }), 'text/plain; charset=utf-8')
      }
    }),
  ),
  ...forgedTokenChecks,
  ...anyCaseChecks,
  withToken(
    spec('S4', 'the OpenAPI document has version 3.0.1 and info.version v1', async (client) => {
      const { response, document } = await fetchDocument(client)
      expectThat(document.openapi === '3.0.1', 'openapi 3.0.1', response)
      expectThat(document.info?.version === 'v1', 'info.version v1', response)
      expectMediaType(response, 'application/json')
    }),
  ),
  withToken(
    spec(
      'S4',
      'the OpenAPI document describes the operations of the profile and the sample endpoints',
      async (client) => {
        const { response, document } = await fetchDocument(client)
        const paths = Object.entries(document.paths ?? {}).map(([path, operations]) => ({
          path: path.toLowerCase().replace(/\{\w+\}$/, '{id}'),
          methods: Object.keys(operations).map((method) => method.toUpperCase()),
        }))
        for (const [path, expected] of [
          [itemsPath, methods.collection],
          [`${itemsPath}/{id}`, methods.item],
          ['/weatherforecast', ['GET']],
          ['/', ['GET']],
          [secretPath, ['GET']],
        ] as const) {
          const described = paths.filter((other) => other.path === path).flatMap((other) => other.methods)
          for (const method of expected.filter((method) => method !== 'HEAD'))
            expectThat(described.includes(method), `${method} ${path} in the document`, response)
        }
      },
    ),
  ),
  spec('S5', 'the Swagger page is HTML in development and 404 otherwise', async (client) => {
    const response = await client.send('GET', pagePath)
    if (response.status === 404) return
    expectStatus(response, 200)
    expectThat(/^text\/html\b/.test(response.headers['content-type'] ?? ''), 'content-type text/html', response)
  }),
  choice('S5', '/swagger redirects to the page', async (client) => {
    const page = await client.send('GET', pagePath)
    const response = await client.send('GET', '/swagger')
    if (page.status === 404) return expectStatus(response, 404)
    expectThat(response.status >= 301 && response.status <= 308, 'a redirect', response)
    // A relative Location is resolved against the URL of the request (RFC 9110, 10.2.2).
    const { location = '' } = response.headers
    const request = `${client.url}/swagger`
    const target = URL.canParse(location, request) ? new URL(location, request).pathname : ''
    expectThat(target === new URL(`${client.url}${pagePath}`).pathname, `a Location of ${pagePath}`, response)
  }),
  choice('S6', "no credentials or another scheme's return 401 with a Bearer challenge", async (client) => {
    expectChallenge(await send(client, secretPath))
    expectChallenge(await send(client, secretPath, 'HEAD'))
    for (const authorization of ['Basic YWRhOnBhc3M=', 'Bearer', 'Bearerx', 'Token abc', 'abc'])
      expectChallenge(await send(client, secretPath, 'GET', { authorization }))
  }),
  choice('S6', 'a malformed token returns 401 with error="invalid_token"', async (client) => {
    for (const token of ['x', 'a.b.c', 'a.b.c,d', '..', 'e30.e30.e30', 'null', '{}', '%00', 'a'.repeat(5000)])
      expectInvalidToken(await send(client, secretPath, 'GET', bearer(token)))
  }),
  withToken(
    choice('S6', 'a forged token returns 401 with error="invalid_token"', async (client) => {
      for (const token of forgeTokens(client.token as string))
        expectInvalidToken(await send(client, secretPath, 'GET', bearer(token)))
    }),
  ),
  choice('S6', 'two Authorization headers return 400', async (client) => {
    expectStatus(await send(client, secretPath, 'GET', { authorization: ['Bearer a', 'Bearer b'] }), 400)
  }),
  spec('S7', 'the greeting and the forecast require no token', async (client) => {
    await expectNoTokenNeeded(client, ['/', '/weatherforecast'])
  }),
  choice('S7', 'an invalid token is ignored where none is required', async (client) => {
    for (const path of ['/', '/weatherforecast', itemsPath]) {
      const { status } = await send(client, path)
      expectStatus(await send(client, path, 'GET', bearer('nonsense')), status)
    }
  }),
  choice('S7', 'the to-do endpoints require no token', async (client) => {
    await expectNoTokenNeeded(client, [itemsPath])
  }),
]

export const sampleChecks = (methods: Methods): Check[] => [...openChecks, ...securedChecks(methods)]
