import { createHmac, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { asSecondCaller, bearer, type Client, type Response, singleByteCharset } from '../engine/client.ts'
import { type Check, choice, spec, withToken, withTwoTokens } from '../engine/contract.ts'
import {
  expectEmpty,
  expectExactly,
  expectItems,
  expectMediaType,
  expectServed,
  expectStatus,
  expectTextType,
  expectThat,
} from '../engine/expect.ts'
import { documentChecks, documentPath, forecastPath, secretPath, summaries } from './document.ts'
import { type Methods, type ModelItem, type Profile, rewriting, StoreModel } from './model.ts'
import { itemsPath, observe, providing, setUp } from './rules.ts'

interface ForecastEntry {
  readonly date: unknown
  readonly temperatureC: number
  readonly temperatureF: number
  readonly summary: string | null
}

const forecastMembers = ['date', 'temperatureC', 'temperatureF', 'summary']
const dayMs = 86_400_000

const pagePath = '/swagger/index.html'

/** The endpoints that require a token, each with its rule. */
const secured = [
  [secretPath, 'S3'],
  [documentPath, 'S4'],
] as const
type SecuredPath = (typeof secured)[number][0]
const isSecured = (path: string) => secured.some(([one]) => one === path)
const samplePaths = ['/', forecastPath, secretPath, documentPath] as const

/** Sends a request to an endpoint that must be served. */
export async function send(client: Client, path: string, method = 'GET', headers = {}): Promise<Response> {
  const response = await client.send(method, path, method === 'POST' ? {} : undefined, headers)
  // A server may hide a secured endpoint from callers without a token (RFC 9110, 15.5.4).
  const mayBeHidden = method === 'GET' && isSecured(path) && client.token !== undefined
  const mark = method === 'GET' ? setUp : observe
  const known = samplePaths.find((one) => one === path)
  if (known && !mayBeHidden) mark(known, () => expectServed(response))
  return response
}

const sendToken = (client: Client, path: string) => client.send('GET', path, undefined, bearer(client.token))

/** Text without markup; where it is not in the charset that it declares, it contains replacement characters. */
function expectPlainText(response: Response): void {
  const { text, headers } = response
  if (singleByteCharset.test(`${headers['content-type']}`)) expectTextType(response)
  else expectMediaType(response, 'text/plain')
  const isText = text.trim() !== '' && !text.includes('\ufffd') && !/^\s*(<[!a-z]|\{)/i.test(text)
  expectThat(isText, 'plain text in the charset that it declares', response)
}

function expectDeclaredUtf8(response: Response): void {
  expectMediaType(response, 'text/plain')
  expectThat(/;\s*charset=/i.test(response.headers['content-type'] ?? ''), 'charset=utf-8', response)
}

async function fetchForecast(client: Client) {
  const response = await client.send('GET', forecastPath)
  const entries = setUp(forecastPath, () => {
    expectServed(response)
    return expectItems<ForecastEntry>(response)
  })
  return { response, entries }
}

const manyForecasts = 100

/** All of 500 random temperatures miss the same fifth of their range once in 10^48 runs. */
async function fetchManyForecasts(client: Client) {
  const batches: Awaited<ReturnType<typeof fetchForecast>>[] = []
  while (batches.length < manyForecasts)
    batches.push(...(await Promise.all([client, asSecondCaller(client), client, client].map(fetchForecast))))
  return batches
}

const dateTimeWithOffset = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/

/** The local day and the offset of a date-time (RFC 3339); undefined if there is no such day or time. */
function readDateTime(text: unknown): { day: number; offsetMs: number } | undefined {
  const [, local = '', offset] = dateTimeWithOffset.exec(`${text}`.toUpperCase()) ?? []
  const [time, instant] = [Date.parse(`${local}Z`), Date.parse(`${local}${offset}`)]
  // Of a day that does not exist, another one is made.
  const exists = !Number.isNaN(instant) && new Date(time).toISOString().startsWith(local)
  return exists ? { day: Math.floor(time / dayMs), offsetMs: time - instant } : undefined
}

/** Between a request and the time in its response, midnight may pass. */
const clockToleranceMs = 2000

function expectDates({ response, entries }: Awaited<ReturnType<typeof fetchForecast>>): void {
  const dates = entries.map(({ date }) => {
    const read = readDateTime(date)
    expectThat(read !== undefined, 'date-times with an offset, of days that exist', response)
    return read
  })
  const [{ day: first, offsetMs } = { day: Number.NaN, offsetMs: 0 }] = dates
  expectThat(
    dates.every(({ day }, index) => day === first + index),
    'successive days',
    response,
  )
  const now = Date.parse(response.headers.date ?? '') || Date.now()
  const today = [-clockToleranceMs, clockToleranceMs].map((ms) => Math.floor((now + ms + offsetMs) / dayMs))
  expectThat(today.includes(first - 1), 'tomorrow as the first day', response)
}

const minCelsius = -20

const browserHeaders = {
  accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0',
}

const openChecks: readonly Check[] = [
  choice('S1', 'an entry of the forecast has no other members, and its date the offset +00:00', async (client) => {
    const { response, entries } = await fetchForecast(client)
    for (const entry of entries) {
      expectExactly(response, entry, forecastMembers)
      expectThat(`${entry.date}`.endsWith('+00:00'), 'offsets of +00:00', response)
    }
  }),
  spec(
    'S1',
    'forecasts have five entries: successive days from tomorrow, random temperatures, and one of the ten summaries',
    async (client) => {
      const forecasts = await fetchManyForecasts(client)
      for (const forecast of forecasts) {
        const { response, entries } = forecast
        expectMediaType(response, 'application/json')
        expectThat(entries.length === 5, 'five entries', response)
        expectDates(forecast)
        for (const { temperatureC: c, temperatureF: f, summary } of entries) {
          expectThat(Number.isInteger(c) && c >= minCelsius && c <= 54, 'a temperatureC from -20 to 54', response)
          const expected = 32 + Math.trunc(c / 0.5556)
          expectThat(f === expected, `temperatureF of ${c} °C to be ${expected}`, response)
          expectThat(summary === null || summaries.includes(summary), 'one of the ten summaries', response)
        }
      }
      const last = forecasts.at(-1)?.response
      const temperatures = forecasts.map(({ entries }) => entries.map(({ temperatureC }) => temperatureC))
      const fifths = new Set(temperatures.flat().map((c) => Math.floor((c - minCelsius) / 15)))
      // A cache may have sent the same one again (RFC 9111, 5.1).
      if (forecasts.some(({ response }) => Number(response.headers.age) > 0)) return
      const isRandom = fifths.size === 5 && new Set(temperatures.flat()).size >= 20
      expectThat(isRandom, `many temperatures from the whole range in ${manyForecasts} forecasts`, last)
      const areEqual = temperatures.every(([first, ...others]) => others.every((c) => c === first))
      expectThat(!areEqual, `entries with different temperatures in ${manyForecasts} forecasts`, last)
    },
  ),
  spec('S2', 'the greeting is plain text for a browser, too', async (client) => {
    const response = await client.send('GET', '/', undefined, browserHeaders)
    // A server may refuse with 406 (choice, G9).
    if (response.status === 406) return
    observe('/', () => {
      expectStatus(response, 200)
      expectPlainText(response)
    })
  }),
  choice('S2', 'the greeting declares charset=utf-8', async (client) => {
    expectDeclaredUtf8(await send(client, '/'))
  }),
]

function expectUnauthorized(response: Response, challenge: RegExp, expected: string): void {
  observe(secretPath, () => {
    expectEmpty(response, 401)
    expectThat(challenge.test(response.headers['www-authenticate'] ?? ''), `WWW-Authenticate: ${expected}`, response)
  })
}

/** S6: credentials are missing. */
const expectChallenge = (response: Response) => expectUnauthorized(response, /^Bearer$/i, 'Bearer')

/** S6: the token is invalid. */
const expectInvalidToken = (response: Response) =>
  expectUnauthorized(
    response,
    /^Bearer error="invalid_token", error_description="[^"\\\r\n]+"$/,
    'Bearer error="invalid_token", error_description="…"',
  )

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
function callerNames(token = ''): string[] {
  const { unique_name, name, sub } = decodeClaims(token)
  return [unique_name, name, sub].filter((claim) => typeof claim === 'string' && claim !== '') as string[]
}

const swapCase = (text: string) =>
  [...text].map((char) => (char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase())).join('')

/** A key of 1,024 bits is made in a few milliseconds. */
const keyPairs = () =>
  [
    ['RS256', generateKeyPairSync('rsa', { modulusLength: 1024 })],
    ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
  ] as const

/**
 * Tokens without a valid signature, made from a valid one. Expired tokens, and those of other audiences or issuers,
 * cannot be made without the key of the server.
 */
function forgeTokens(token: string): string[] {
  const [header = '', claims = '', signature = ''] = token.split('.')
  const half = signature.slice(0, signature.length / 2)
  const parsed = decodeClaims(token)
  const unsigned = [{ alg: 'none' }, { alg: 'None' }, {}, { alg: '' }, { alg: null }].map(base64url)
  // The key to check the signature with is in the token, or is not known to the server.
  const signedBy = (alg: string, key: { jwk: object } | { kid: string }, signContent: (content: string) => Buffer) => {
    const content = `${base64url({ alg, typ: 'JWT', ...key })}.${claims}`
    return `${content}.${signContent(content).toString('base64url')}`
  }
  const ownKeys = ['', 'secret', randomUUID()].flatMap((key) => {
    const jwk = { kty: 'oct', k: Buffer.from(key).toString('base64url') }
    return [{ jwk }, { kid: randomUUID() }].map((name) =>
      signedBy('HS256', name, (content) => createHmac('sha256', key).update(content).digest()),
    )
  })
  const ownKeyPairs = keyPairs().map(([alg, { privateKey, publicKey }]) =>
    signedBy(alg, { jwk: publicKey.export({ format: 'jwk' }) }, (content) =>
      sign('sha256', Buffer.from(content), { key: privateKey, dsaEncoding: 'ieee-p1363' }),
    ),
  )
  return [
    ...[Buffer.from('not JSON').toString('base64url'), ...unsigned].flatMap((other) => [
      `${other}.${claims}.`,
      `${other}.${claims}.${signature}`,
    ]),
    `${header}.${claims}`,
    `${header}.${base64url({ ...parsed, sub: `not ${parsed.sub}` })}.${signature}`,
    `${header}.${base64url({ ...parsed, exp: 9_999_999_999 })}.${signature}`,
    ...[
      '',
      `${signature.slice(0, -4)}${signature.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`,
      signature.slice(0, 8),
      swapCase(signature),
      `${half}${swapCase(signature.slice(half.length))}`,
      `${signature}AAAA`,
    ].map((other) => `${header}.${claims}.${other}`),
    ...ownKeys,
    ...ownKeyPairs,
  ]
}

/** Tokens with the valid signature in another form, which a lenient reader may accept. */
const reshapedTokens = (token: string) => [`${token}=`, `${token}.${token.split('.')[2]}`, `${token} x`]

const requiresToken = [401, 403, 407]

/** The specification does not say with which status a server requires a token. */
async function expectDenied(client: Client, path: SecuredPath, headers = {}): Promise<void> {
  const response = await send(client, path, 'GET', headers)
  if (response.status === 404) {
    const allowed = await sendToken(client, path)
    return observe(path, () => expectServed(allowed))
  }
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
      expectPlainText(response)
    }),
  ),
  providing(
    forecastPath,
    spec('S1', 'GET /weatherforecast returns 200 with an array of entries', async (client) => {
      await fetchForecast(client)
    }),
  ),
  ...secured.map(([path, rule]) =>
    providing(
      path,
      spec(rule, `GET ${path} requires a token`, (client) => expectDenied(client, path)),
    ),
  ),
]

/** Values of Authorization that are no bearer token. */
const emptyCredentials = ['Bearer', 'Bearer ', 'Bearer null', 'Bearer undefined', 'Bearer ..', 'bearer']

/** Headers that say who or where a client is, and prove nothing. */
const claimedHeaders = (client: Client): readonly Record<string, string>[] => [
  { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1', forwarded: 'for=127.0.0.1' },
  { referer: `${client.url}${pagePath}`, origin: new URL(client.url).origin },
  ...['x-user', 'x-forwarded-user', 'remote-user'].map((name) => ({
    // A header value is bytes: those of UTF-8.
    [name]: Buffer.from(callerNames(client.token).at(-1) ?? 'ada').toString('latin1'),
  })),
]

/** Other spellings of a path, which a server may route, but not past the check of tokens. */
const spellingsOf = (path: string) => [
  path.toUpperCase(),
  path.replace(/[a-z]/, (char) => char.toUpperCase()),
  path.replace(/[a-z]/g, (char, index: number) => (index % 2 === 0 ? char.toUpperCase() : char)),
  `${path}/`,
  `${path}?`,
  `/${path}`,
  `/.${path}`,
  `/x/..${path}`,
  path.replace(/[a-z]$/, percentEncode),
  path.replace(/[a-z]/, percentEncode),
]
const percentEncode = (char: string) => `%${char.charCodeAt(0).toString(16)}`

/** What only a caller with a token may see in the response to it. */
function secretsIn(path: SecuredPath, { text }: Response, token: string | undefined): string[] {
  if (path === documentPath) return ['"paths"', '"openapi"']
  const withoutNames = callerNames(token).reduce((rest, name) => rest.replaceAll(name, '\n'), text)
  return withoutNames.split('\n').filter((part) => phraseIn(part, []).length >= minPhraseLength)
}
const minPhraseLength = 4

/** Ways to ask for a secured endpoint without `Authorization: Bearer` and a token. */
async function expectBearerOnly(client: Client, path: SecuredPath): Promise<void> {
  const allowed = await sendToken(client, path)
  observe(path, () => expectStatus(allowed, 200))
  const secrets = secretsIn(path, allowed, client.token)
  const [mediaType] = (allowed.headers['content-type'] ?? '').split(';')
  const basic = Buffer.from(`${callerNames(client.token)[0] ?? 'ada'}:password`).toString('base64')
  const inQuery = ['access_token', 'token'].map((name) => `${path}?${name}=${client.token}`)
  for (const [other, headers] of [
    // A connection on which a token was sent gives no rights to later requests.
    [path, {}],
    [path, { authorization: `Basic ${client.token}` }],
    [path, { authorization: `Basic ${basic}` }],
    ...emptyCredentials.map((authorization) => [path, { authorization }] as const),
    ...claimedHeaders(client).map((headers) => [path, headers] as const),
    ...[...spellingsOf(path), ...inQuery].map((one) => [one, {}] as const),
  ] as const) {
    const response = await client.send('GET', other, undefined, headers)
    // A page for unknown paths is another response than that of the endpoint.
    const isAllowed = response.status === 200 && response.headers['content-type']?.split(';')[0] === mediaType
    observe(path, () => expectThat(!isAllowed, 'no response without a bearer token', response))
    const sent = `${response.text} ${Object.values(response.headers)}`
    const isLeaked = secrets.some((secret) => sent.includes(secret))
    observe(path, () => expectThat(!isLeaked, 'nothing of the response to a token', response))
  }
}

const tokenChecks = secured.flatMap(([path, rule]) => [
  withToken(
    spec(rule, `GET ${path} rejects forged tokens`, async (client) => {
      for (const token of forgeTokens(client.token as string)) await expectDenied(client, path, bearer(token))
    }),
  ),
  withToken(
    spec(rule, `GET ${path} requires the token in every request and spelling`, (client) =>
      expectBearerOnly(client, path),
    ),
  ),
])

/** Words of a greeting that are no secret phrase. */
const greetingWords =
  /\b(hello|hi|hey|welcome|back|greetings|good|morning|day|afternoon|evening|dear|there|user|secret)\b/gi

/** What is left of a greeting without the names of the caller; it cannot be seen which part of it is the phrase. */
const phraseIn = (text: string, names: readonly string[]) =>
  names
    .reduce((rest, name) => rest.replaceAll(name, ' '), text)
    .replace(greetingWords, '')
    .replace(/[^\p{L}\p{N}]+/gu, '')

/** Returns the secret phrase beside the name of the caller. */
function expectGreeting(response: Response, token: string | undefined): string {
  observe(secretPath, () => expectStatus(response, 200))
  const names = callerNames(token)
  const isNamed = names.length === 0 || names.some((name) => response.text.includes(name))
  expectThat(isNamed, `the name ${names.join(' or ')}`, response)
  return phraseIn(response.text, names)
}

/** Pages of a library that draws operations from the document. */
const drawsDocument = /swagger-?ui|redoc|rapi-?doc|scalar|elements-api|stoplight|openapi-explorer/i
const documentLink = /["'`(]([^"'`()\s]*(?:swagger|openapi)[\w-]*\.(?:json|ya?ml)[^"'`()\s]*)["'`)]/gi
const largeScript = 200_000

/** A server may require a token for everything but the greeting and the forecast. */
async function fetchWithTokenIfNeeded(client: Client, path: string): Promise<Response> {
  const response = await client.send('GET', path)
  return [401, 403].includes(response.status) && client.token ? sendToken(client, path) : response
}

/** The path of a link of the page on this server; undefined for other servers. */
function localPath(client: Client, link: string): string | undefined {
  const page = `${client.url}${pagePath}`
  if (!URL.canParse(link, page)) return undefined
  const { href } = new URL(link, page)
  return href.startsWith(`${client.url}/`) ? href.slice(client.url.length) : undefined
}

/**
 * S5, as far as it can be seen without running scripts: the page, its scripts or the documents that they name contain each
 * path and method, or a library of another server draws them.
 */
async function expectOperations(client: Client, page: Response, methods: Methods): Promise<void> {
  const links = [...page.text.matchAll(/<script\b[^>]*?\bsrc\s*=\s*["']?([^"'\s>]+)/gi)].map(([, link]) => `${link}`)
  const paths = links.map((link) => localPath(client, link))
  const texts = [page.text]
  for (const path of paths.filter((one) => one !== undefined)) {
    const script = await fetchWithTokenIfNeeded(client, path)
    const isScript = /javascript|ecmascript/i.test(script.headers['content-type'] ?? '')
    expectThat(script.status === 200 && isScript && script.text.trim() !== '', `the script ${path} of the page`, script)
    texts.push(script.text)
  }
  const own = texts.filter((text) => text.length < largeScript).join('\n')
  const isDrawn = texts.some((text) => drawsDocument.test(text))
  const listsItself =
    !isDrawn && [itemsPath, forecastPath, secretPath].every((path) => page.text.toLowerCase().includes(path))
  const documents = listsItself ? [] : [...own.matchAll(documentLink)].map(([, link]) => `${link}`)
  if (documents.length > 0) {
    // A script may complete a part of the path, or a template.
    const isNamed = (link: string) =>
      link.includes('${') || link.endsWith(documentPath) || documentPath.endsWith(link.replace(/^[./]*/, '/'))
    if (documents.some(isNamed) || client.token === undefined) return
    const local = documents.map((link) => localPath(client, link)).filter((path) => path !== undefined)
    const responses = await Promise.all(local.map((path) => sendToken(client, path)))
    const isServed = responses.some(
      ({ status, headers }) => status === 200 && !/html/i.test(headers['content-type'] ?? ''),
    )
    return expectThat(isServed, `a page that shows ${documentPath}, not ${documents.join(', ')}`, page)
  }
  if (!listsItself && (isDrawn || paths.includes(undefined))) return
  for (const path of [`${itemsPath}/`, forecastPath, secretPath])
    expectThat(own.toLowerCase().includes(path), `a page that lists the operations of ${path}`, page)
  for (const method of [...methods.collection, ...methods.item].filter((method) => method !== 'HEAD'))
    expectThat(new RegExp(`\\b${method}\\b`, 'i').test(own), `a page that lists the operations with ${method}`, page)
  expectThat(/<form\b|<script\b/i.test(page.text), 'a page that tries the operations', page)
}

/** Removes tokens and nonces, which differ from response to response. */
const withoutNonces = (text: string) => text.replace(/[\w+/=.-]{16,}/g, '')

const securedChecks = <T extends ModelItem>(profile: Profile<T>): Check[] => [
  withToken(
    spec('S3', "GET /secret with a token returns the caller's name and a phrase", async (client) => {
      const response = await sendToken(client, secretPath)
      const phrase = expectGreeting(response, client.token)
      expectPlainText(response)
      expectThat(phrase !== '', 'a secret phrase besides the name', response)
      const others = await Promise.all(Array.from({ length: 20 }, () => sendToken(client, secretPath)))
      for (const other of others) expectThat(other.text === response.text, 'the same text again', other)
    }),
  ),
  withTwoTokens(
    spec('S3', 'GET /secret returns the name of each caller, and the same phrase to all', async (client) => {
      const phrases: string[] = []
      for (const token of [client.token, client.otherToken, client.token]) {
        const response = await client.send('GET', secretPath, undefined, bearer(token))
        phrases.push(expectGreeting(response, token))
        expectThat(phrases[0] === phrases.at(-1), 'the phrase of the other caller', response)
      }
      const tokens = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? client.token : client.otherToken))
      const responses = await Promise.all(
        tokens.map((token) => client.send('GET', secretPath, undefined, bearer(token))),
      )
      for (const [index, response] of responses.entries()) expectGreeting(response, tokens[index])
    }),
  ),
  withToken(
    choice('S3', 'the name is the claim unique_name, else name, else sub', async (client) => {
      const response = await sendToken(client, secretPath)
      const [name = ''] = callerNames(client.token)
      observe(secretPath, () => expectThat(response.text.includes(name), `the name ${name}`, response))
    }),
  ),
  withToken(
    choice('S3', 'the scheme matches case-insensitively, and the response declares charset=utf-8', async (client) => {
      for (const scheme of ['bearer', 'BEARER']) {
        const authorization = `${scheme} ${client.token}`
        const response = await send(client, secretPath, 'GET', { authorization })
        observe(secretPath, () => expectDeclaredUtf8(response))
      }
    }),
  ),
  ...tokenChecks,
  spec('G1', 'the paths of the sample endpoints match case-insensitively', async (client) => {
    for (const path of [forecastPath, secretPath, documentPath] as const) {
      const { status } = await send(client, path)
      const other = await client.send('GET', path.toUpperCase())
      observe(path, () => expectStatus(other, status))
    }
  }),
  ...documentChecks(profile),
  spec('S5', 'the Swagger page is HTML in development and 404 otherwise', async (client) => {
    const page = await fetchWithTokenIfNeeded(client, pagePath)
    if (page.status === 404) return
    expectStatus(page, 200)
    expectMediaType(page, 'text/html')
    expectThat(/<\w+/.test(page.text), 'a page', page)
    const unknown = await client.send('GET', `/swagger/${randomUUID()}.html`)
    const isFallback = unknown.status === 200 && withoutNonces(unknown.text) === withoutNonces(page.text)
    // One page for every path may still be that of the operations, if it says so.
    const namesOperations =
      /todoitems/i.test(page.text) || drawsDocument.test(page.text) || /openapi|swagger\.json/i.test(page.text)
    expectThat(!isFallback || namesOperations, 'another page than for an unknown path', page)
    await expectOperations(client, page, profile.methods)
  }),
  spec('S5', 'the page can send requests: its Origin is not refused', async (client) => {
    const { status } = await fetchWithTokenIfNeeded(client, pagePath)
    if (status === 404) return
    const model = new StoreModel(rewriting(client, { headers: { origin: new URL(client.url).origin } }), profile)
    const item = await model.create()
    await model.update(item, model.changes(true))
    await model.remove(item)
    await model.expectStored('POST, PUT and DELETE from the page')
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
    const head = await client.send('HEAD', secretPath)
    if (![404, 405, 501].includes(head.status)) expectChallenge(head)
    const ofToken = client.token === undefined ? [] : [client.token, `Basic ${client.token}`]
    for (const authorization of ['Basic YWRhOnBhc3M=', 'Bearerx', ...ofToken])
      expectChallenge(await send(client, secretPath, 'GET', { authorization }))
  }),
  choice('G9', 'Accept does not change the response', async (client) => {
    const authorization = client.token === undefined ? {} : bearer(client.token)
    for (const [path, mediaType] of [
      [itemsPath, 'application/json'],
      ['/', 'text/plain'],
      [forecastPath, 'application/json'],
      [secretPath, 'text/plain'],
      [documentPath, 'application/json'],
    ] as const)
      for (const accept of ['text/html', 'application/xml', 'application/json;q=0', 'image/png', 'nonsense']) {
        if (isSecured(path) && client.token === undefined) continue
        const response = await client.send('GET', path, undefined, { ...authorization, accept })
        observe(path === itemsPath ? 'list' : path, () => expectStatus(response, 200))
        expectMediaType(response, mediaType)
      }
  }),
  choice('S6', 'a malformed or forged token returns 401 with error="invalid_token"', async (client) => {
    const { token } = client
    const forged = token === undefined ? [] : [...forgeTokens(token).slice(-2), ...reshapedTokens(token)]
    for (const other of ['x', 'a.b.c,d', '..', 'e30.e30.e30', '%00', 'a'.repeat(5000), ...forged])
      expectInvalidToken(await send(client, secretPath, 'GET', bearer(other)))
  }),
  choice('S6', 'two Authorization headers return 400', async (client) => {
    const response = await send(client, secretPath, 'GET', { authorization: ['Bearer a', 'Bearer b'] })
    observe(secretPath, () => expectStatus(response, 400))
  }),
  spec('S7', 'the greeting and the forecast require no token, nor a valid one', async (client) => {
    for (const path of ['/', forecastPath]) {
      const response = await send(client, path)
      expectThat(!requiresToken.includes(response.status), 'a response without a token', response)
      expectStatus(await send(client, path, 'GET', bearer('nonsense')), response.status)
    }
  }),
  choice('S7', 'an invalid token is ignored by the to-do endpoints', async (client) => {
    const { status } = await client.send('GET', itemsPath, undefined, { authorization: undefined })
    // The operator may require a token.
    if (requiresToken.includes(status)) return
    expectStatus(await client.send('GET', itemsPath, undefined, bearer('nonsense')), status)
  }),
]

export const sampleChecks = <T extends ModelItem>(profile: Profile<T>): Check[] => [
  ...openChecks,
  ...securedChecks(profile),
]
