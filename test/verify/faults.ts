import type { Mutation, ProxiedRequest as Request, ProxiedResponse as Response } from '../support/faulty-server.ts'

const itemsPath = '/api/todoitems'

type Match = (request: Request, response: Response) => boolean
type RequestMatch = (request: Request) => boolean
type Members = Record<string, unknown>

export const is =
  (method: string, status?: number): Match =>
  (request, response) =>
    request.method === method && (status === undefined || response.status === status)
const hasStatus =
  (status: number): Match =>
  (_, response) =>
    response.status === status
const hasType =
  (type: RegExp): Match =>
  (_, { headers }) =>
    type.test(headers['content-type'] ?? '')
export const hasPath =
  (path: RegExp): Match & RequestMatch =>
  (request: Request) =>
    path.test(request.path)
const isList: Match = ({ method, path }, { status }) =>
  method === 'GET' && /todoitems\/?$/i.test(path) && status === 200
const isItem: Match = ({ method, path }, { status }) =>
  method === 'GET' && /todoitems\/\d+$/.test(path) && status === 200
const isProblem = hasType(/problem/)
const isForecast = hasPath(/forecast/)
const isSecret = hasPath(/^\/secret$/)

const mutateResponse =
  (matches: Match, mutate: (response: Response, request: Request) => Partial<Response>): Mutation =>
  async (request, forward) => {
    const response = await forward(request)
    return matches(request, response) ? { ...response, ...mutate(response, request) } : response
  }
export const setStatus = (matches: Match, status: number) => mutateResponse(matches, () => ({ status }))
export const setHeader = (matches: Match, name: string, value: string | undefined) =>
  mutateResponse(matches, ({ headers }) => ({ headers: { ...headers, [name]: value } }))
const setText = (matches: Match, text: string, status?: number) =>
  mutateResponse(matches, (response) => ({ text, status: status ?? response.status }))
export const mutateText = (matches: Match, mutate: (text: string) => string) =>
  mutateResponse(matches, ({ text }) => ({ text: mutate(text) }))
const mutateJson = (matches: Match, mutate: (value: never) => unknown) =>
  mutateText(matches, (text) => text && JSON.stringify(mutate(JSON.parse(text) as never)))
const mutateEntries = (matches: Match, mutate: (item: never, index: number) => object) =>
  mutateJson(matches, (list: never[]) => list.map(mutate))

const mutateRequest =
  (matches: RequestMatch, mutate: (request: Request) => Partial<Request>): Mutation =>
  (request, forward) =>
    forward(matches(request) ? { ...request, ...mutate(request) } : request)
const mutatePath = (path: RegExp, mutate: (path: string) => string) =>
  mutateRequest(hasPath(path), (request) => ({ path: mutate(request.path) }))
/** Sets the returned members in a request body that is a JSON object; undefined leaves the request unchanged. */
const mutateBody =
  (mutate: (body: Members, request: Request) => Members | undefined): Mutation =>
  (request, forward) => {
    const body = isObject(request) ? parseBody(request) : undefined
    const changes = body && mutate(body, request)
    return forward(changes ? { ...request, body: Buffer.from(JSON.stringify({ ...body, ...changes })) } : request)
  }

function parseBody({ body }: Request) {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

function isObject(request: Request): boolean {
  const body = parseBody(request)
  return typeof body === 'object' && body !== null && !Array.isArray(body)
}

const isCapitalized = (request: Request) =>
  isObject(request) && Object.keys(parseBody(request)).some((name) => /^[A-Z]/.test(name))

/** Of concurrent requests, the second succeeds too. */
function letBothSucceed(method: string, successStatus: number): Mutation {
  let pending: Promise<Response> | undefined
  return async (request, forward) => {
    if (request.method !== method) return forward(request)
    const previous = pending
    const current = forward(request)
    pending = current
    const response = await current
    if (pending === current) pending = undefined
    const first = await previous
    return first?.status === successStatus ? { ...first, status: successStatus } : response
  }
}

const ignorePut: Mutation = async (request, forward) => {
  const body = parseBody(request)
  const isValid = request.method === 'PUT' && body?.isComplete !== undefined && request.path.endsWith(`/${body.id}`)
  const get = { ...request, method: 'GET', body: Buffer.alloc(0), headers: {} }
  return isValid && (await forward(get)).status === 200 ? { status: 204, headers: {}, text: '' } : forward(request)
}

const applyRejectedPut: Mutation = async (request, forward) => {
  const response = await forward(request)
  const [, id] = /todoitems\/(\d+)$/.exec(request.path) ?? []
  if (request.method === 'PUT' && response.status === 400 && id)
    await forward({
      ...request,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(`{"id":${id},"name":"oops","isComplete":true}`),
    })
  return response
}

const deleteNextItemToo: Mutation = async (request, forward) => {
  const response = await forward(request)
  const next = request.path.replace(/\d+$/, (id) => `${BigInt(id) + 1n}`)
  if (request.method === 'DELETE' && response.status === 204) await forward({ ...request, path: next })
  return response
}

const ignoreDelete: Mutation = async (request, forward) => {
  if (request.method !== 'DELETE') return forward(request)
  const { status } = await forward({ ...request, method: 'GET' })
  return { status: status === 200 ? 204 : 404, headers: {}, text: '' }
}

/** Lists the items whose PUT was last at the end. */
function moveReplacedItemToEnd(): Mutation {
  const replaced = new Set<string>()
  return async (request, forward) => {
    const response = await forward(request)
    if (request.method === 'PUT' && response.status === 204) {
      const { id } = parseBody(request)
      replaced.delete(id)
      replaced.add(id)
    }
    if (!isList(request, response)) return response
    const order = [...replaced]
    const items = (JSON.parse(response.text) as { id: string }[]).sort(
      (a, b) => order.indexOf(a.id) - order.indexOf(b.id),
    )
    return { ...response, text: JSON.stringify(items) }
  }
}

export const replaceResponse =
  (matches: RequestMatch, response: Response): Mutation =>
  async (request, forward) =>
    matches(request) ? response : forward(request)

const storeAndReject: Mutation = async (request, forward) => {
  const response = await forward(request)
  const body = isObject(request) ? parseBody(request) : undefined
  if (request.method === 'POST' && response.status === 400 && body?.isComplete === undefined)
    await forward({ ...request, body: Buffer.from(JSON.stringify({ ...body, isComplete: false })) })
  return response
}

/**
 * Faults by profile and by the basis of the broken part of the rule: `verify` must fail the first without `--strict`,
 * the second with it. A title starts with the id of the rule.
 */
export const faults: Record<'a' | 'b', Record<'spec' | 'choice', Record<string, Mutation>>> = {
  a: {
    spec: {
      'A1 GET wraps the list in an object': mutateText(isList, (text) => `{"items":${text}}`),
      'A1 GET omits the last item': mutateJson(isList, (list: unknown[]) => list.slice(0, -1)),
      'A1 ids in the list are strings': mutateText(isList, (text) => text.replace(/"id":(\d+)/g, '"id":"$1"')),
      'A2 GET returns 200 null for a missing item': setText(is('GET', 404), 'null', 200),
      'A2 GET returns 410 for a missing item': setStatus(is('GET', 404), 410),
      'A2 GET returns the item in an array': mutateText(isItem, (text) => `[${text}]`),
      'A3 POST returns 200': setStatus(is('POST', 201), 200),
      'A3 POST returns no Location': setHeader(is('POST', 201), 'location', undefined),
      'A3 Location is that of another item': setHeader(is('POST', 201), 'location', 'http://x/api/todoitems/999999'),
      'A3 Location is relative': mutateResponse(is('POST', 201), ({ headers }) => ({
        headers: { ...headers, location: new URL(headers.location ?? '').pathname },
      })),
      'A3 POST returns an empty object': setText(is('POST', 201), '{}'),
      'A5 a null name becomes an empty string': mutateText(isItem, (text) => text.replace('"name":null', '"name":""')),
      'A6 an absent isComplete means false': mutateBody(({ isComplete }) =>
        isComplete === undefined ? { isComplete: false } : undefined,
      ),
      'A6 a string is accepted as isComplete': mutateBody(({ isComplete }) =>
        typeof isComplete === 'string' ? { isComplete: true } : undefined,
      ),
      'A7 PUT returns 200 with the item': mutateResponse(is('PUT', 204), (_, { body }) => ({
        status: 200,
        text: body.toString(),
      })),
      'A7 PUT changes nothing': ignorePut,
      'A7 PUT returns 204 with a content-length': setHeader(is('PUT', 204), 'content-length', '7'),
      'A7 PUT returns 204 with a body': setText(is('PUT', 204), '{"leaked":true}'),
      'A7 PUT always sets isComplete to true': mutateBody(({ isComplete }, { method }) =>
        method === 'PUT' && isComplete === false ? { isComplete: true } : undefined,
      ),
      'A8 PUT ignores the body id': mutateBody((_, { method, path }) =>
        method === 'PUT' ? { id: Number(path.split('/').at(-1)) } : undefined,
      ),
      'A8 PUT returns 409 when the ids differ': setStatus(is('PUT', 400), 409),
      'A8 PUT returns 204 for a missing item': setStatus(is('PUT', 404), 204),
      'A8 PUT changes the item and returns 400': applyRejectedPut,
      'A9 DELETE removes the next item too': deleteNextItemToo,
      'A9 DELETE returns 200': setStatus(is('DELETE', 204), 200),
      'A9 DELETE returns 204 for a missing item': setStatus(is('DELETE', 404), 204),
      'A9 DELETE removes nothing': ignoreDelete,
      'A9 two concurrent DELETEs both return 204': letBothSucceed('DELETE', 204),
      'A10 an item contains its secret': mutateText(isItem, (text) => text.replace('}', ',"secret":null}')),
      'A10 the list contains secrets': mutateText(isList, (text) => text.replaceAll('}', ',"secret":"x"}')),
      'A11 ids are rounded': setStatus(
        (request, response) =>
          is('PUT', 400)(request, response) && /740993$/.test(request.path) && /740992/.test(request.body.toString()),
        404,
      ),
      'A11 ids have 32 bits': mutatePath(/todoitems\/\d{10,18}$/, (path) =>
        path.replace(/\d+$/, (id) => `${BigInt.asUintN(32, BigInt(id))}`),
      ),
      'G1 paths are case-sensitive': setStatus(({ path }) => path !== path.toLowerCase(), 404),
      'A3 member names start with a capital letter': mutateText(is('POST', 201), (text) =>
        text.replace(/"(\w)(\w+)":/g, (_, first, rest) => `"${first.toUpperCase()}${rest}":`),
      ),
      'S1 the forecast has six entries': mutateJson(isForecast, (list: unknown[]) => [...list, list[0]]),
      'S1 the forecast starts today': mutateEntries(isForecast, (entry: { date: string }) => ({
        ...entry,
        date: new Date(Date.parse(entry.date) - 86_400_000).toISOString().replace('Z', '+00:00'),
      })),
      'S1 temperatureF is rounded': mutateEntries(isForecast, (entry: { temperatureC: number }) => ({
        ...entry,
        temperatureF: 32 + Math.round(entry.temperatureC * 1.8),
      })),
      'S1 temperatureC is 55': mutateEntries(isForecast, (entry: object) => ({
        ...entry,
        temperatureC: 55,
        temperatureF: 130,
      })),
      'S2 the greeting is HTML': setHeader(hasPath(/^\/$/), 'content-type', 'text/html'),
      'S3 /secret accepts every token': setText(
        (request) => isSecret(request) && /^Bearer .*\..*\./.test(`${request.headers.authorization}`),
        'Hello ada.',
        200,
      ),
      'S3 /secret requires no token': setText(isSecret, 'Hello ada.', 200),
      'S4 the document is OpenAPI 3.1': mutateText(hasPath(/swagger\.json/), (text) => text.replace('3.0.1', '3.1.0')),
      'S5 the page is plain text': setHeader(hasPath(/index\.html/), 'content-type', 'text/plain'),
      'S7 the forecast requires a token': setStatus(
        (request) => isForecast(request) && !request.headers.authorization,
        401,
      ),

      'A3 POST is not served': replaceResponse(({ method, path }) => method === 'POST' && path === itemsPath, {
        status: 404,
        headers: {},
        text: '',
      }),
      'A3 names are trimmed': mutateBody(({ name }) =>
        typeof name === 'string' && name !== name.trim() ? { name: name.trim() } : undefined,
      ),
      'A4 POST rejects an id': setStatus(
        (request, response) => is('POST', 201)(request, response) && typeof parseBody(request)?.id === 'number',
        400,
      ),
      'A6 a null isComplete is accepted on PUT': mutateBody(({ isComplete }, { method }) =>
        method === 'PUT' && isComplete === null ? { isComplete: false } : undefined,
      ),
      'A6 an absent isComplete returns 500': setStatus(
        (request, { status }) => status === 400 && isObject(request) && parseBody(request).isComplete === undefined,
        500,
      ),
      'A6 an absent isComplete is stored and returns 400': storeAndReject,
      'A7 PUT is not served': replaceResponse(({ method }) => method === 'PUT', { status: 405, headers: {}, text: '' }),
      'A9 DELETE is not served': replaceResponse(({ method }) => method === 'DELETE', {
        status: 405,
        headers: {},
        text: '',
      }),
      'G1 the path of an item is case-sensitive': setStatus(hasPath(/[A-Z].*\/\d+$/), 404),
      'G3 the list is text/plain': setHeader(isList, 'content-type', 'text/plain'),
      'S1 the forecast is not served': setText(isForecast, '', 404),
      'S1 dates have no offset': mutateText(isForecast, (text) => text.replaceAll('+00:00', '')),
      'S2 the greeting is not served': setText(hasPath(/^\/$/), '', 404),
      'S3 /secret is not served': setText(isSecret, '', 404),
      'S3 /secret does not contain the name of the caller': setText(
        (request, response) => isSecret(request) && response.status === 200,
        'Hello.',
      ),
      'S4 the document is not served': setText(hasPath(/swagger\.json/), '', 404),
      'S4 the document requires no token': setText(hasPath(/swagger\.json/), '{}', 200),
      'S4 the document has no PUT': mutateText(hasPath(/swagger\.json/), (text) => text.replace('"put"', '"x-put"')),
      'S7 the greeting requires a token': setStatus(
        (request) => request.path === '/' && !request.headers.authorization,
        403,
      ),
    },
    choice: {
      'G3 JSON has no charset': setHeader(hasType(/^application\/json/), 'content-type', 'application/json'),
      'A1 GET reverses the list': mutateJson(isList, (list: unknown[]) => list.reverse()),
      'A4 POST rejects a string as id': setStatus(
        (request, response) => is('POST', 201)(request, response) && typeof parseBody(request)?.id === 'string',
        400,
      ),
      'A5 a number is accepted as name': mutateBody(({ name }) =>
        typeof name === 'number' ? { name: `${name}` } : undefined,
      ),
      'A14 deeply nested JSON returns 500': setStatus(
        (request, { status }) => status === 400 && request.body.length > 50_000,
        500,
      ),
      'A6 an invalid body returns 422': setStatus(is('POST', 400), 422),
      'A12 a malformed id returns 404': setStatus(
        ({ path }, { status }) => status === 400 && /todoitems\/\D/.test(path),
        404,
      ),
      'A12 01 is read as 1': mutatePath(/todoitems\/0\d/, (path) => path.replace('/0', '/')),
      'A13 problems are application/json': setHeader(isProblem, 'content-type', 'application/json'),
      'A13 problems have no traceId': mutateJson(isProblem, ({ traceId: _, ...rest }: Members) => rest),
      'A13 problems have a different status member': mutateJson(isProblem, (problem: Members) => ({
        ...problem,
        status: 418,
      })),
      'A13 problems have no errors member': mutateJson(isProblem, ({ errors: _, ...rest }: Members) => rest),
      'A13 all problems have the same traceId': mutateJson(isProblem, (problem: Members) => ({
        ...problem,
        traceId: 'x',
      })),
      'A14 an unsupported media type returns 400': setStatus(hasStatus(415), 400),
      'G2 a trailing slash returns 404': setStatus(hasPath(/.\/$/), 404),
      'G4 unknown members are rejected': setStatus(
        (request, response) => is('POST', 201)(request, response) && 'colour' in (parseBody(request) ?? {}),
        400,
      ),
      'G4 member names are case-insensitive': mutateRequest(isCapitalized, (request) => {
        const members = Object.entries(parseBody(request))
        const renamed = members.map(([name, value]) => [(name[0]?.toLowerCase() ?? '') + name.slice(1), value])
        return { body: Buffer.from(JSON.stringify(Object.fromEntries(renamed))) }
      }),
      'G5 a body over the limit returns 400': setStatus(hasStatus(413), 400),
      'G5 every media type is accepted': mutateRequest(
        ({ headers }) => Boolean(headers['content-type']),
        ({ headers }) => ({ headers: { ...headers, 'content-type': 'application/json' } }),
      ),
      'G5 a lone surrogate is stored': mutateRequest(
        ({ body }) => /\\ud800|\\udc00/.test(body.toString()),
        ({ body }) => ({ body: Buffer.from(body.toString().replace(/\\u[\da-f]{4}/g, '?')) }),
      ),
      'G6 405 has no Allow': setHeader(hasStatus(405), 'allow', undefined),
      'G6 Allow lacks HEAD': mutateResponse(
        (_, { headers }) => headers.allow !== undefined,
        ({ headers }) => ({ headers: { ...headers, allow: headers.allow?.replace(', HEAD', '') } }),
      ),
      'G6 405 has a body': setText(hasStatus(405), 'no'),
      'G6 HEAD returns 405': setStatus(is('HEAD'), 405),
      'G6 OPTIONS returns 200': setStatus(is('OPTIONS'), 200),
      'G6 an unknown path returns 200': setStatus(({ path }, { status }) => status === 404 && path === '/nowhere', 200),
      'G8 a problem contains a stack trace': mutateJson(isProblem, (problem: Members) => ({
        ...problem,
        detail: 'at Store.get (store.js:1)',
      })),
      'G9 Accept: text/html returns 406': setStatus(({ headers }) => headers.accept === 'text/html', 406),
      'S1 dates end in Z': mutateText(isForecast, (text) => text.replaceAll('+00:00', 'Z')),
      'S6 401 has no challenge': setHeader(hasStatus(401), 'www-authenticate', undefined),
      'S6 an invalid token returns 403': setStatus(
        ({ headers }, { status }) => status === 401 && headers.authorization !== undefined,
        403,
      ),

      'S5 /swagger does not lead to the page': setHeader(hasPath(/^\/swagger$/), 'location', '/'),
      'S7 the to-do endpoints reject an invalid token': setStatus(
        ({ path, headers }) => path === itemsPath && headers.authorization !== undefined,
        401,
      ),
    },
  },
  b: {
    spec: {
      'B2 no initial item is done': mutateEntries(isList, (item: object, index) =>
        index < 3 ? { ...item, done: false } : item,
      ),
      'B2 an initial item has no name': mutateEntries(isList, (item: object, index) =>
        index === 0 ? { ...item, name: '' } : item,
      ),
      'B3 POST returns 201': setStatus(is('POST', 200), 201),
      'B3 POST returns no body': setText(is('POST', 200), ''),
      'B4 a missing body returns 415': setStatus(
        ({ method, body }, { status }) => method !== 'DELETE' && status === 400 && body.length === 0,
        415,
      ),
      'B5 an id in use returns 400': setStatus(hasStatus(409), 400),
      'B5 two concurrent POSTs with the same id both return 200': letBothSucceed('POST', 200),
      'B6 a body over the limit returns 413': setStatus(
        ({ body }, { status }) => status === 400 && body.length > 2 ** 20,
        413,
      ),
      'B7 PUT keeps done when it is absent': mutateBody(({ done }, { method }) =>
        method === 'PUT' && done === undefined ? { done: true } : undefined,
      ),
      'B7 PUT returns 200': setStatus(is('PUT', 204), 200),
      'B7 PUT cannot set done to false': mutateBody(({ done }, { method }) =>
        method === 'PUT' && done === false ? { done: true } : undefined,
      ),
      'B7 PUT returns 204 for a missing item': setText(is('PUT', 404), '', 204),
      'B8 DELETE returns 204 for a missing item': setText(is('DELETE', 404), '', 204),
      'B8 two concurrent DELETEs both return 204': letBothSucceed('DELETE', 204),
      'B9 codes are JSON strings': mutateText(hasType(/text\/plain/), (text) => JSON.stringify(text)),
      'B9 codes are text/html': setHeader(
        (request, response) => response.status >= 400 && hasType(/text\/plain/)(request, response),
        'content-type',
        'text/html',
      ),
      'G1 path parameters are converted to lower case': mutateRequest(
        ({ method }) => method === 'DELETE',
        ({ path }) => ({ path: path.toLowerCase() }),
      ),

      'B1 GET wraps the list in an object': mutateText(isList, (text) => `{"items":${text}}`),
      'B3 POST stores nothing': replaceResponse((request) => request.method === 'POST' && isObject(request), {
        status: 200,
        headers: { 'content-type': 'application/json' },
        text: '{}',
      }),
      'B4 absent notes are accepted': mutateBody(({ notes }) => (notes === undefined ? { notes: 'x' } : undefined)),
      'B4 an absent name returns CouldNotCreateItem': setText(
        (request, { status }) =>
          request.method === 'POST' && status === 400 && isObject(request) && parseBody(request).name === undefined,
        'CouldNotCreateItem',
      ),
      'B6 a lone surrogate returns 500': setStatus(
        ({ body }, { status }) => status === 400 && /\\ud/.test(`${body}`),
        500,
      ),
      'B6 DELETE returns 414 for a long path': setStatus(
        ({ method, path }) => method === 'DELETE' && path.length > 1000,
        414,
      ),
      'B8 DELETE returns 200': setStatus(is('DELETE', 204), 200),
      'B8 DELETE returns 403': replaceResponse(({ method }) => method === 'DELETE', {
        status: 403,
        headers: {},
        text: '',
      }),
      'B8 DELETE removes nothing': replaceResponse(
        ({ method, path }) => method === 'DELETE' && path.includes('verify'),
        { status: 204, headers: {}, text: '' },
      ),
      'B9 errors have no body': setText((_, { status }) => status >= 400, ''),
      'B12 plain HTTP is rejected': replaceResponse(hasPath(/todoitems/i), { status: 426, headers: {}, text: '' }),
    },
    choice: {
      'B1 items have another member': mutateEntries(isList, (item: object) => ({ ...item, order: 1 })),
      'B1 the list is ordered by id': mutateJson(isList, (list: { id: string }[]) =>
        list.sort((a, b) => (a.id < b.id ? -1 : 1)),
      ),
      'B4 blank notes are accepted': mutateBody(({ notes }) => (notes === ' ' ? { notes: 'x' } : undefined)),
      'B4 a string is accepted as done': mutateBody(({ done }) =>
        typeof done === 'string' ? { done: true } : undefined,
      ),
      'B5 ids are case-insensitive': mutateBody(({ id }, { method }) =>
        method === 'POST' && typeof id === 'string' ? { id: id.toLowerCase() } : undefined,
      ),
      'B6 DELETE returns RecordNotFound for an id over the limit': setText(
        ({ method, path }) => method === 'DELETE' && /\/[\w-]{1025,}$/.test(path),
        'RecordNotFound',
        404,
      ),
      'B7 PUT moves the item to the end of the list': moveReplacedItemToEnd(),
      'B10 GET returns a single item': setText(
        ({ method, path }) => method === 'GET' && /todoitems\/./.test(path),
        '{"id":1,"name":"x","isComplete":true}',
        200,
      ),
      'B11 an encoded slash is a path separator': mutatePath(/todoitems\/.*%2f/i, (path) => path.replace(/%2f/gi, '/')),
      'B11 ids are decoded twice': mutateRequest(
        ({ method, path }) => method === 'DELETE' && /%25(?:41|2F)/.test(path),
        ({ path }) => ({ path: path.replace('%25', '%') }),
      ),
      'B11 an invalid percent-encoding returns 400': setStatus(
        ({ path }, { status }) => status === 404 && /%(?![\da-f]{2})/i.test(path),
        400,
      ),
      'B12 the redirect drops path and query': mutateResponse(hasPath(/\?a=b$/), () => ({
        status: 301,
        headers: { location: 'https://x/' },
      })),
    },
  },
}
