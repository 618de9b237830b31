import { type Check, choice, itemsPath, spec, withToken } from '../check.ts'
import type { Client, Response } from '../client.ts'
import {
  expectArray,
  expectContentType,
  expectEmpty,
  expectMediaType,
  expectStatus,
  expectThat,
  parseJson,
} from '../expect.ts'

interface ForecastEntry {
  readonly date: string
  readonly temperatureC: number
  readonly temperatureF: number
  readonly summary: string | null
}

const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')
const dateTimeWithOffset = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d:\d\d$/
const dayMs = 86_400_000

/** Temperatures and summaries are random, so the checks look at 100 entries. */
async function fetchManyEntries(client: Client): Promise<ForecastEntry[]> {
  const responses = await Promise.all(Array.from({ length: 20 }, () => client.send('GET', '/weatherforecast')))
  return responses.flatMap((response) => expectArray(response) as ForecastEntry[])
}

const dayNumber = (date: string) => Date.parse(`${date.slice(0, 10)}T00:00:00Z`) / dayMs

const openChecks: readonly Check[] = [
  spec('S1', 'the forecast has five entries with exactly four members', async (client) => {
    const response = await client.send('GET', '/weatherforecast')
    const entries = expectArray(response)
    expectThat(entries.length === 5, 'five entries', response)
    for (const entry of entries) {
      const members = Object.keys(entry as object).sort()
      expectThat(members.join() === 'date,summary,temperatureC,temperatureF', 'exactly the four members', response)
    }
  }),
  spec('S1', 'dates are date-times with an offset, on successive days from tomorrow', async (client) => {
    const response = await client.send('GET', '/weatherforecast')
    const dates = (expectArray(response) as ForecastEntry[]).map(({ date }) => date)
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
    const response = await client.send('GET', '/weatherforecast')
    expectThat(
      (expectArray(response) as ForecastEntry[]).every(({ date }) => date.endsWith('+00:00')),
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
  spec('S2', 'GET / returns a plain-text greeting', async (client) => {
    const response = await client.send('GET', '/')
    expectStatus(response, 200)
    expectThat(/^text\/plain\b/i.test(response.headers['content-type'] ?? ''), 'content-type text/plain', response)
    expectThat(response.text.trim() !== '', 'a greeting', response)
  }),
  choice('S2', 'the greeting declares charset=utf-8', async (client) => {
    expectContentType(await client.send('GET', '/'), 'text/plain; charset=utf-8')
  }),
]

const secretPath = '/secret'
const pagePath = '/swagger/index.html'
const documentPath = '/swagger/v1/swagger.json'
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

function decodeClaims(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
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
    const response = await client.send('GET', path)
    expectThat(![401, 403, 407].includes(response.status), 'a response without a token', response)
  }
}

/** The specification does not say with which status a server requires a token. */
function expectDenied(response: Response): void {
  expectThat(
    [301, 302, 303, 307, 308, 401, 403].includes(response.status),
    'access denied without a valid token',
    response,
  )
}

const securedChecks: readonly Check[] = [
  spec('S3', 'GET /secret requires a token', async (client) => {
    expectDenied(await client.send('GET', secretPath))
  }),
  withToken(
    spec('S3', "GET /secret with a token returns the caller's name", async (client) => {
      const token = client.token as string
      const { unique_name, name, sub } = decodeClaims(token)
      const response = await client.send('GET', secretPath, undefined, bearer(token))
      expectStatus(response, 200)
      expectThat(/^text\/plain\b/.test(response.headers['content-type'] ?? ''), 'content-type text/plain', response)
      expectThat(
        response.text.includes(`${unique_name ?? name ?? sub}`),
        `the name ${unique_name ?? name ?? sub}`,
        response,
      )
      const again = await client.send('GET', secretPath, undefined, bearer(token))
      expectThat(again.text === response.text, 'the same text again', again)
    }),
  ),
  withToken(
    spec('S3', 'GET /secret and the OpenAPI document reject forged tokens', async (client) => {
      for (const token of forgeTokens(client.token as string))
        for (const path of [secretPath, documentPath])
          expectDenied(await client.send('GET', path, undefined, bearer(token)))
    }),
  ),
  withToken(
    choice('S3', 'the scheme matches case-insensitively, and the response declares charset=utf-8', async (client) => {
      for (const scheme of ['bearer', 'BEARER']) {
        const authorization = `${scheme} ${client.token}`
        expectContentType(
          await client.send('GET', secretPath, undefined, { authorization }),
          'text/plain; charset=utf-8',
        )
      }
    }),
  ),
  spec('S4', 'the OpenAPI document requires a token', async (client) => {
    expectDenied(await client.send('GET', documentPath))
  }),
  withToken(
    spec('S4', 'the OpenAPI document has version 3.0.1 and info.version v1', async (client) => {
      const response = await client.send('GET', documentPath, undefined, bearer(client.token as string))
      expectStatus(response, 200)
      const document = parseJson(response) as { openapi?: unknown; info?: { version?: unknown }; paths?: object }
      expectThat(document.openapi === '3.0.1', 'openapi 3.0.1', response)
      expectThat(document.info?.version === 'v1', 'info.version v1', response)
      const paths = Object.keys(document.paths ?? {}).map((path) => path.toLowerCase())
      for (const path of [itemsPath, `${itemsPath}/{id}`, '/weatherforecast', '/', secretPath])
        expectThat(paths.includes(path), `the path ${path} in the document`, response)
      expectMediaType(response, 'application/json')
    }),
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
    expectThat(/\/swagger\/index\.html$/.test(response.headers.location ?? ''), `a Location of ${pagePath}`, response)
  }),
  choice('S6', "no credentials or another scheme's return 401 with a Bearer challenge", async (client) => {
    expectChallenge(await client.send('GET', secretPath))
    expectChallenge(await client.send('HEAD', secretPath))
    for (const authorization of ['Basic YWRhOnBhc3M=', 'Bearer', 'Bearerx', 'Token abc', 'abc'])
      expectChallenge(await client.send('GET', secretPath, undefined, { authorization }))
  }),
  choice('S6', 'a malformed token returns 401 with error="invalid_token"', async (client) => {
    for (const token of ['x', 'a.b.c', '..', 'e30.e30.e30', 'null', '{}', '%00', 'a'.repeat(5000)])
      expectInvalidToken(await client.send('GET', secretPath, undefined, bearer(token)))
  }),
  withToken(
    choice('S6', 'a forged token returns 401 with error="invalid_token"', async (client) => {
      for (const token of forgeTokens(client.token as string))
        expectInvalidToken(await client.send('GET', secretPath, undefined, bearer(token)))
    }),
  ),
  choice('S6', 'two Authorization headers return 400', async (client) => {
    expectStatus(await client.send('GET', secretPath, undefined, { authorization: ['Bearer a', 'Bearer b'] }), 400)
  }),
  spec('S7', 'the greeting and the forecast require no token', async (client) => {
    await expectNoTokenNeeded(client, ['/', '/weatherforecast'])
  }),
  choice('S7', 'an invalid token is ignored where none is required', async (client) => {
    for (const path of ['/', '/weatherforecast', itemsPath])
      expectStatus(await client.send('GET', path, undefined, bearer('nonsense')), 200)
  }),
  choice('S7', 'the to-do endpoints require no token', async (client) => {
    await expectNoTokenNeeded(client, [itemsPath])
  }),
]

export const sampleChecks: readonly Check[] = [...openChecks, ...securedChecks]
