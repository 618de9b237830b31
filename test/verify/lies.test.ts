import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { verify } from '../../src/verify/index.ts'
import { type Answer, type Bend, bentAgent, type Request } from '../support/bent.ts'
import { tokenFor } from '../support/running.ts'

const items = '/api/todoitems'
type Test = (request: Request, answer: Answer) => boolean
type Change = (answer: Answer, request: Request) => Partial<Answer>

/** Answers for which the test holds are changed. */
const answering =
  (isMeant: Test, change: Change): Bend =>
  async (request, forward) => {
    const answer = await forward(request)
    return isMeant(request, answer) ? { ...answer, ...change(answer, request) } : answer
  }
/** Requests for which the test holds reach the server changed. */
const asking =
  (isMeant: (request: Request) => boolean, change: (request: Request) => Partial<Request>): Bend =>
  (request, forward) =>
    forward(isMeant(request) ? { ...request, ...change(request) } : request)

const is =
  (method: string, status?: number): Test =>
  (request, answer) =>
    request.method === method && (status === undefined || answer.status === status)
const isList: Test = ({ method, path }, { status }) => method === 'GET' && /todoitems\/?$/i.test(path) && status === 200
const isItem: Test = ({ method, path }, { status }) =>
  method === 'GET' && /todoitems\/\d+$/.test(path) && status === 200
const textual =
  (change: (text: string) => string): Change =>
  ({ text }) => ({ text: change(text) })
const json =
  (change: (value: never) => unknown): Change =>
  ({ text }) => ({ text: text && JSON.stringify(change(JSON.parse(text) as never)) })
const header =
  (name: string, value: string | undefined): Change =>
  ({ headers }) => ({ headers: { ...headers, [name]: value } })
const status =
  (code: number): Change =>
  () => ({ status: code })
const bodyOf = ({ body }: Request) => {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}
const withBody = (change: (body: Record<string, unknown>) => unknown) => (request: Request) => ({
  body: Buffer.from(JSON.stringify(change(bodyOf(request)))),
})
const hasObject = (request: Request) =>
  typeof bodyOf(request) === 'object' && bodyOf(request) !== null && !Array.isArray(bodyOf(request))

const problems: Test = (_, { headers }) => /problem/.test(headers['content-type'] ?? '')
const fake = '{"id":1,"name":"x","isComplete":true}'

const lies: readonly (readonly [profile: 'a' | 'b', rule: string, name: string, bend: Bend])[] = [
  [
    'a',
    'A1',
    'the list is wrapped in an object',
    answering(
      isList,
      textual((text) => `{"items":${text}}`),
    ),
  ],
  [
    'a',
    'A1',
    'the list lacks the last item',
    answering(
      isList,
      json((list: unknown[]) => list.slice(0, -1)),
    ),
  ],
  [
    'a',
    'A1',
    'the list is in reverse',
    answering(
      isList,
      json((list: unknown[]) => list.reverse()),
    ),
  ],
  [
    'a',
    'A1',
    'ids in the list are text',
    answering(
      isList,
      textual((text) => text.replace(/"id":(\d+)/g, '"id":"$1"')),
    ),
  ],
  ['a', 'A2', 'a missing item is 200 null', answering(is('GET', 404), () => ({ status: 200, text: 'null' }))],
  ['a', 'A2', 'a missing item is 410', answering(is('GET', 404), status(410))],
  [
    'a',
    'A2',
    'an item is read in a list',
    answering(
      isItem,
      textual((text) => `[${text}]`),
    ),
  ],
  ['a', 'A3', 'a create answers 200', answering(is('POST', 201), status(200))],
  ['a', 'A3', 'a create has no Location', answering(is('POST', 201), header('location', undefined))],
  [
    'a',
    'A3',
    'Location names another item',
    answering(is('POST', 201), header('location', 'http://x/api/todoitems/999999')),
  ],
  [
    'a',
    'A3',
    'Location is relative',
    answering(is('POST', 201), ({ headers }) => ({
      headers: { ...headers, location: new URL(headers.location ?? '').pathname },
    })),
  ],
  ['a', 'A3', 'a create answers no item', answering(is('POST', 201), () => ({ text: '{}' }))],
  [
    'a',
    'A4',
    'an id that is no number is refused in a create',
    answering(
      (request, answer) => is('POST', 201)(request, answer) && typeof bodyOf(request)?.id === 'string',
      status(400),
    ),
  ],
  [
    'a',
    'A5',
    'null becomes an empty name',
    answering(
      isItem,
      textual((text) => text.replace('"name":null', '"name":""')),
    ),
  ],
  [
    'a',
    'A5',
    'names are trimmed',
    asking(
      hasObject,
      withBody((body) => ({ ...body, ...(typeof body.name === 'string' && { name: body.name.trim() }) })),
    ),
  ],
  [
    'a',
    'A5',
    'a name of another type is accepted',
    asking(
      (request) => hasObject(request) && typeof bodyOf(request).name === 'number',
      withBody((body) => ({ ...body, name: `${body.name}` })),
    ),
  ],
  [
    'a',
    'A6',
    'an absent isComplete is false',
    asking(
      (request) => hasObject(request) && bodyOf(request).isComplete === undefined,
      withBody((body) => ({ ...body, isComplete: false })),
    ),
  ],
  [
    'a',
    'A6',
    'isComplete as text is accepted',
    asking(
      (request) => hasObject(request) && typeof bodyOf(request).isComplete === 'string',
      withBody((body) => ({ ...body, isComplete: true })),
    ),
  ],
  ['a', 'A6', 'what is refused is 422', answering(is('POST', 400), status(422))],
  [
    'a',
    'A7',
    'a PUT answers 200 with the item',
    answering(is('PUT', 204), (_, { body }) => ({ status: 200, text: body.toString() })),
  ],
  [
    'a',
    'A7',
    'a PUT changes nothing',
    async (request, forward) =>
      request.method === 'PUT' &&
      (await forward({ ...request, method: 'GET', body: Buffer.alloc(0), headers: {} })).status === 200 &&
      bodyOf(request)?.isComplete !== undefined &&
      request.path.endsWith(`/${bodyOf(request)?.id}`)
        ? { status: 204, headers: {}, text: '' }
        : forward(request),
  ],
  ['a', 'A7', 'a body is announced after 204', answering(is('PUT', 204), header('content-length', '7'))],
  [
    'a',
    'A7',
    'a PUT always completes the item',
    asking(
      (request) => request.method === 'PUT' && hasObject(request),
      withBody((body) => ({ ...body, ...(body.isComplete === false && { isComplete: true }) })),
    ),
  ],
  [
    'a',
    'A8',
    'a differing id is taken from the path',
    asking(
      (request) => request.method === 'PUT' && hasObject(request),
      (request) => withBody((body) => ({ ...body, id: Number(request.path.split('/').at(-1)) }))(request),
    ),
  ],
  ['a', 'A8', 'a differing id is 409', answering(is('PUT', 400), status(409))],
  ['a', 'A8', 'a missing item is created by a PUT', answering(is('PUT', 404), status(204))],
  [
    'a',
    'A8',
    'a refused PUT changes the item',
    async (request, forward) => {
      const answer = await forward(request)
      const [, id] = /todoitems\/(\d+)$/.exec(request.path) ?? []
      if (request.method === 'PUT' && answer.status === 400 && id)
        await forward({
          ...request,
          headers: { 'content-type': 'application/json' },
          body: Buffer.from(`{"id":${id},"name":"oops","isComplete":true}`),
        })
      return answer
    },
  ],
  ['a', 'A7', 'a body comes after 204', answering(is('PUT', 204), () => ({ text: '{"leaked":true}' }))],
  [
    'a',
    'A9',
    'a DELETE takes the next item along',
    async (request, forward) => {
      const answer = await forward(request)
      const next = request.path.replace(/\d+$/, (id) => `${BigInt(id) + 1n}`)
      if (request.method === 'DELETE' && answer.status === 204) await forward({ ...request, path: next })
      return answer
    },
  ],
  [
    'a',
    'S3',
    'any token opens the secret',
    answering(
      ({ path, headers }) => path === '/secret' && /^Bearer .*\..*\./.test(`${headers.authorization}`),
      () => ({ status: 200, text: 'Hello ada.' }),
    ),
  ],
  [
    'b',
    'B7',
    'done cannot be undone',
    asking(
      (request) => request.method === 'PUT' && hasObject(request) && bodyOf(request).done === false,
      withBody((body) => ({ ...body, done: true })),
    ),
  ],
  ['a', 'A9', 'a DELETE answers 200', answering(is('DELETE', 204), status(200))],
  ['a', 'A9', 'a DELETE of nothing answers 204', answering(is('DELETE', 404), status(204))],
  [
    'a',
    'A9',
    'a DELETE deletes nothing',
    async (request, forward) =>
      request.method === 'DELETE'
        ? { status: (await forward({ ...request, method: 'GET' })).status === 200 ? 204 : 404, headers: {}, text: '' }
        : forward(request),
  ],
  ['a', 'A9', 'two DELETEs at once both win', racing('DELETE', 204)],
  [
    'a',
    'A10',
    'an item shows its secret',
    answering(
      isItem,
      textual((text) => text.replace('}', ',"secret":null}')),
    ),
  ],
  [
    'a',
    'A10',
    'the list shows secrets',
    answering(
      isList,
      textual((text) => text.replaceAll('}', ',"secret":"x"}')),
    ),
  ],
  [
    'a',
    'A11',
    'ids are rounded',
    answering(
      (request, answer) =>
        is('PUT', 400)(request, answer) && /740993$/.test(request.path) && /740992/.test(request.body.toString()),
      status(404),
    ),
  ],
  [
    'a',
    'A11',
    'ids have 32 bits',
    asking(
      ({ path }) => /todoitems\/\d{10,18}$/.test(path),
      ({ path }) => ({ path: path.replace(/\d+$/, (id) => `${BigInt.asUintN(32, BigInt(id))}`) }),
    ),
  ],
  [
    'a',
    'A12',
    'a malformed id is 404',
    answering((request, answer) => answer.status === 400 && /todoitems\/\D/.test(request.path), status(404)),
  ],
  [
    'a',
    'A12',
    '01 is 1',
    asking(
      ({ path }) => /todoitems\/0\d/.test(path),
      ({ path }) => ({ path: path.replace('/0', '/') }),
    ),
  ],
  ['a', 'A13', 'problems are plain JSON', answering(problems, header('content-type', 'application/json'))],
  [
    'a',
    'A13',
    'problems lack a traceId',
    answering(
      problems,
      json(({ traceId: _, ...rest }: Record<string, unknown>) => rest),
    ),
  ],
  [
    'a',
    'A13',
    'problems have another status inside',
    answering(
      problems,
      json((problem: object) => ({ ...problem, status: 418 })),
    ),
  ],
  [
    'a',
    'A13',
    'problems list no errors',
    answering(
      problems,
      json(({ errors: _, ...rest }: Record<string, unknown>) => rest),
    ),
  ],
  [
    'a',
    'A13',
    'every problem has the same traceId',
    answering(
      problems,
      json((problem: object) => ({ ...problem, traceId: 'x' })),
    ),
  ],
  ['a', 'A14', 'another media type is 400', answering((_, answer) => answer.status === 415, status(400))],
  [
    'a',
    'A15',
    'deep JSON is a failure of the service',
    answering((request, answer) => answer.status === 400 && request.body.length > 50_000, status(500)),
  ],
  [
    'a',
    'G8',
    'a problem tells a stack',
    answering(
      problems,
      json((problem: object) => ({ ...problem, detail: 'at Store.get (store.js:1)' })),
    ),
  ],
  ['a', 'G5', 'a large body is 400', answering((_, answer) => answer.status === 413, status(400))],
  [
    'a',
    'G5',
    'any media type is taken',
    asking(
      () => true,
      ({ headers }) => ({
        headers: { ...headers, ...(headers['content-type'] && { 'content-type': 'application/json' }) },
      }),
    ),
  ],
  [
    'a',
    'G5',
    'a lone surrogate is stored',
    asking(
      (request) => /\\ud800|\\udc00/.test(request.body.toString()),
      ({ body }) => ({ body: Buffer.from(body.toString().replace(/\\u[\da-f]{4}/g, '?')) }),
    ),
  ],
  [
    'a',
    'G4',
    'unknown members are refused',
    answering(
      (request, answer) => is('POST', 201)(request, answer) && 'colour' in (bodyOf(request) ?? {}),
      status(400),
    ),
  ],
  [
    'a',
    'G4',
    'names are matched in any case',
    asking(
      hasObject,
      withBody((body) =>
        Object.fromEntries(
          Object.entries(body).map(([name, value]) => [(name[0]?.toLowerCase() ?? '') + name.slice(1), value]),
        ),
      ),
    ),
  ],
  ['a', 'G1', 'paths match in one case only', answering(({ path }) => path !== path.toLowerCase(), status(404))],
  [
    'a',
    'G2',
    'a trailing slash names nothing',
    answering(({ path }) => path !== '/' && path.endsWith('/'), status(404)),
  ],
  [
    'a',
    'G3',
    'JSON has no charset',
    answering(
      (_, { headers }) => /^application\/json/.test(headers['content-type'] ?? ''),
      header('content-type', 'application/json'),
    ),
  ],
  [
    'a',
    'G3',
    'names begin with capitals',
    answering(
      is('POST', 201),
      textual((text) => text.replace(/"(\w)(\w+)":/g, (_, first, rest) => `"${first.toUpperCase()}${rest}":`)),
    ),
  ],
  ['a', 'G6', '405 without Allow', answering((_, answer) => answer.status === 405, header('allow', undefined))],
  [
    'a',
    'G6',
    'Allow lacks HEAD',
    answering(
      (_, { headers }) => headers.allow !== undefined,
      ({ headers }) => ({ headers: { ...headers, allow: headers.allow?.replace(', HEAD', '') } }),
    ),
  ],
  [
    'a',
    'G6',
    '405 with a body',
    answering(
      (_, answer) => answer.status === 405,
      () => ({ text: 'no' }),
    ),
  ],
  ['a', 'G6', 'HEAD is not offered', answering(is('HEAD'), status(405))],
  ['a', 'G6', 'OPTIONS answers 200', answering(is('OPTIONS'), status(200))],
  [
    'a',
    'G6',
    'an unknown path is 200',
    answering(({ path }, answer) => answer.status === 404 && path === '/nowhere', status(200)),
  ],
  ['a', 'G9', 'Accept: text/html is 406', answering(({ headers }) => headers.accept === 'text/html', status(406))],
  [
    'b',
    'B1',
    'the list is in order of id',
    answering(
      isList,
      json((list: { id: string }[]) => list.sort((a, b) => (a.id < b.id ? -1 : 1))),
    ),
  ],
  [
    'b',
    'B1',
    'the list has an extra member',
    answering(
      isList,
      json((list: object[]) => list.map((item) => ({ ...item, order: 1 }))),
    ),
  ],
  [
    'b',
    'B2',
    'no starting item is done',
    answering(
      isList,
      json((list: object[]) => list.map((item, at) => (at < 3 ? { ...item, done: false } : item))),
    ),
  ],
  ['b', 'B3', 'a create answers 201', answering(is('POST', 200), status(201))],
  ['b', 'B3', 'a create answers nothing', answering(is('POST', 200), () => ({ text: '' }))],
  [
    'b',
    'B4',
    'a missing body is 415',
    answering((request, answer) => answer.status === 400 && request.body.length === 0, status(415)),
  ],
  [
    'b',
    'B4',
    'blank notes are accepted',
    asking(
      (request) => hasObject(request) && bodyOf(request).notes === ' ',
      withBody((body) => ({ ...body, notes: 'x' })),
    ),
  ],
  [
    'b',
    'B4',
    'done as text is accepted',
    asking(
      (request) => hasObject(request) && typeof bodyOf(request).done === 'string',
      withBody((body) => ({ ...body, done: true })),
    ),
  ],
  ['b', 'B5', 'an id in use is 400', answering((_, answer) => answer.status === 409, status(400))],
  ['b', 'B5', 'two creates of one id at once both win', racing('POST', 200)],
  [
    'b',
    'B5',
    'ids are compared in one case',
    asking(
      (request) => hasObject(request) && request.method === 'POST',
      withBody((body) => ({ ...body, ...(typeof body.id === 'string' && { id: body.id.toLowerCase() }) })),
    ),
  ],
  [
    'b',
    'B6',
    'a large body is 413',
    answering((request, answer) => answer.status === 400 && request.body.length > 2 ** 20, status(413)),
  ],
  [
    'b',
    'B6',
    'a long id is RecordNotFound',
    answering(
      ({ method, path }) => method === 'DELETE' && path.length >= 1040 && /x{1025}/.test(path),
      () => ({ status: 404, text: 'RecordNotFound' }),
    ),
  ],
  ['b', 'B7', 'a PUT answers 200', answering(is('PUT', 204), status(200))],
  [
    'b',
    'B7',
    'a PUT keeps done when it is absent',
    asking(
      (request) => request.method === 'PUT' && hasObject(request) && bodyOf(request).done === undefined,
      withBody((body) => ({ ...body, done: true })),
    ),
  ],
  ['b', 'B7', 'a PUT of nothing is 204', answering(is('PUT', 404), () => ({ status: 204, text: '' }))],
  [
    'b',
    'B7',
    'a replaced item goes to the end',
    async (request, forward) => {
      if (request.method !== 'PUT') return forward(request)
      const answer = await forward(request)
      if (answer.status === 204) {
        await forward({
          method: 'DELETE',
          path: `${items}/${encodeURIComponent(bodyOf(request).id)}`,
          headers: {},
          body: Buffer.alloc(0),
        })
        await forward({ ...request, method: 'POST' })
      }
      return answer
    },
  ],
  ['b', 'B8', 'a DELETE of nothing is 204', answering(is('DELETE', 404), () => ({ status: 204, text: '' }))],
  ['b', 'B8', 'two DELETEs at once both win', racing('DELETE', 204)],
  [
    'b',
    'B9',
    'codes are JSON strings',
    answering(
      (_, { headers }) => /text\/plain/.test(headers['content-type'] ?? ''),
      textual((text) => JSON.stringify(text)),
    ),
  ],
  [
    'b',
    'B9',
    'codes are sent as HTML',
    answering(
      (_, { headers, status: code }) => code >= 400 && /text\/plain/.test(headers['content-type'] ?? ''),
      header('content-type', 'text/html'),
    ),
  ],
  [
    'b',
    'B10',
    'one item can be read',
    answering(
      (request) => request.method === 'GET' && /todoitems\/./.test(request.path),
      () => ({ status: 200, text: fake }),
    ),
  ],
  [
    'b',
    'B11',
    'an encoded slash parts segments',
    asking(
      ({ path }) => /todoitems\/.*%2f/i.test(path),
      ({ path }) => ({ path: path.replace(/%2f/gi, '/') }),
    ),
  ],
  [
    'b',
    'B11',
    'ids are decoded twice',
    asking(
      ({ method, path }) => method === 'DELETE' && /%25(?:41|2F)/.test(path),
      ({ path }) => ({ path: path.replace('%25', '%') }),
    ),
  ],
  [
    'b',
    'B11',
    'a broken percent-encoding is 400',
    answering((request, answer) => answer.status === 404 && /%(?![\da-f]{2})/i.test(request.path), status(400)),
  ],
  [
    'b',
    'B12',
    'plain HTTP goes nowhere',
    answering(
      ({ path }) => path.endsWith('?a=b'),
      () => ({ status: 301, headers: { location: 'https://x/' } }),
    ),
  ],
  [
    'b',
    'B2',
    'the store starts with a nameless item',
    answering(
      isList,
      json((list: object[]) => list.map((item, at) => (at === 0 ? { ...item, name: '' } : item))),
    ),
  ],
  [
    'b',
    'G1',
    'ids in paths lose their case',
    asking(
      () => true,
      ({ method, path }) => (method === 'DELETE' ? { path: path.toLowerCase() } : {}),
    ),
  ],
  [
    'a',
    'S1',
    'the forecast has six entries',
    answering(
      ({ path }) => /forecast/.test(path),
      json((list: unknown[]) => [...list, list[0]]),
    ),
  ],
  [
    'a',
    'S1',
    'dates end in Z',
    answering(
      ({ path }) => /forecast/.test(path),
      textual((text) => text.replaceAll('+00:00', 'Z')),
    ),
  ],
  [
    'a',
    'S1',
    'the forecast starts today',
    answering(
      ({ path }) => /forecast/.test(path),
      json((list: { date: string }[]) =>
        list.map((one) => ({
          ...one,
          date: new Date(Date.parse(one.date) - 86_400_000).toISOString().replace('Z', '+00:00'),
        })),
      ),
    ),
  ],
  [
    'a',
    'S1',
    'fahrenheit is rounded',
    answering(
      ({ path }) => /forecast/.test(path),
      json((list: { temperatureC: number }[]) =>
        list.map((one) => ({ ...one, temperatureF: 32 + Math.round(one.temperatureC * 1.8) })),
      ),
    ),
  ],
  [
    'a',
    'S1',
    'it is 55 degrees',
    answering(
      ({ path }) => /forecast/.test(path),
      json((list: object[]) => list.map((one) => ({ ...one, temperatureC: 55, temperatureF: 130 }))),
    ),
  ],
  ['a', 'S2', 'the greeting is HTML', answering(({ path }) => path === '/', header('content-type', 'text/html'))],
  [
    'a',
    'S3',
    'the secret is open to everybody',
    answering(
      ({ path }) => path === '/secret',
      () => ({ status: 200, text: 'Hello ada.' }),
    ),
  ],
  [
    'a',
    'S4',
    'the document is OpenAPI 3.1',
    answering(
      ({ path }) => /swagger\.json/.test(path),
      textual((text) => text.replace('3.0.1', '3.1.0')),
    ),
  ],
  [
    'a',
    'S5',
    'the page is plain text',
    answering(({ path }) => /index\.html/.test(path), header('content-type', 'text/plain')),
  ],
  [
    'a',
    'S6',
    '401 has no challenge',
    answering((_, answer) => answer.status === 401, header('www-authenticate', undefined)),
  ],
  [
    'a',
    'S6',
    'a bad token is 403',
    answering((request, answer) => answer.status === 401 && request.headers.authorization !== undefined, status(403)),
  ],
  [
    'a',
    'S7',
    'the forecast needs a token',
    answering(({ path, headers }) => /forecast/.test(path) && !headers.authorization, status(401)),
  ],
]

/** Of two requests of a kind that meet, the second wins too. */
function racing(method: string, winning: number): Bend {
  let last: Promise<Answer> | undefined
  return async (request, forward) => {
    if (request.method !== method) {
      last = undefined
      return forward(request)
    }
    const before = last
    last = forward(request)
    const answer = await last
    const first = await before
    return first?.status === winning ? { ...first, status: winning } : answer
  }
}

suite('verify catches lies', () => {
  for (const [profile, rule, name, bend] of lies)
    test(`${rule} ${name}`, async (t) => {
      const agent = await bentAgent(t, profile, bend)
      const token = await tokenFor('ada')
      const { outcomes } = await verify({
        url: 'http://bent.example',
        profile,
        agent,
        token,
        only: [rule],
        strict: true,
        timeout: 2000,
      })
      const broken = [...new Set(outcomes.filter(({ status }) => status === 'failed').map((outcome) => outcome.rule))]
      assert.ok(broken.includes(rule), `cites ${broken.join(', ') || 'nothing'}`)
    })

  for (const profile of ['a', 'b'] as const)
    test(`and nothing where nobody lies, in profile ${profile}`, async (t) => {
      const agent = await bentAgent(t, profile, (request, forward) => forward(request))
      for (let run = 0; run < 5; run++) {
        const { failed, skipped, leftovers, outcomes } = await verify({
          url: 'http://true.example',
          profile,
          agent,
          token: await tokenFor('ada'),
          strict: true,
        })
        assert.deepEqual(
          outcomes.filter(({ status }) => status === 'failed'),
          [],
        )
        assert.deepEqual([failed, skipped, leftovers], [0, profile === 'a' ? 2 : 1, []])
      }
    })
})
