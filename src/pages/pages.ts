import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import { matchesEtag } from '../http/conditional.ts'
import type { HandlerInput } from '../http/request.ts'
import { empty, type Response } from '../http/response.ts'
import { type Route, route } from '../http/router.ts'

const pageFile = (name: string) => new URL(`../../../page/${name}`, import.meta.url)
/** A script that was compiled from page/, or a file that scripts/build.mjs has copied there. */
const scriptFile = (name: string) => new URL(`../../page/${name}`, import.meta.url)
const pageFiles = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, [name.endsWith('.js') ? scriptFile(name) : pageFile(name)]]))

/** S5: the page that lists and tries each operation. For local clients it contains a token from `newToken`. */
export const swaggerPageRoutes = (newToken: () => Promise<string>, hasApp: boolean): Route[] => [
  route({
    operation: 'redirectToPage',
    method: 'GET',
    path: '/swagger',
    isPageFile: true,
    execute: ({ pathPrefix }) => empty(302, { location: `${pathPrefix}/swagger/index.html` }),
  }),
  route({
    operation: 'getPage',
    method: 'GET',
    path: '/swagger/index.html',
    isPageFile: true,
    async execute(input) {
      const token = input.isLocal ? await newToken() : ''
      return htmlResponse(input, 'index.html', 'no-store', { token, app: hasApp ? 'app' : '' })
    },
  }),
  ...fileRoutes('/swagger', {
    ...pageFiles('page.js', 'design.css', 'page.css', 'icon.svg'),
    'swagger-ui-bundle.js': [scriptFile('swagger-ui/swagger-ui-bundle.js')],
    'swagger-ui.css': [scriptFile('swagger-ui/swagger-ui.css')],
  }),
]

/** /app: the page with the items, the traffic and the faults. */
export const appPageRoutes = (): Route[] => [
  route({
    operation: 'getApp',
    method: 'GET',
    path: '/app',
    isPageFile: true,
    execute: (input) => htmlResponse(input, 'app.html', 'no-cache'),
  }),
  ...fileRoutes('/app', {
    ...pageFiles('app.js', 'client.js', 'dom.js', 'format.js', 'qr.js', 'icon.svg'),
    ...pageFiles('items.js', 'item-tools.js', 'traffic.js', 'faults.js', 'connect.js', 'contract.js', 'class.js'),
    'app.css': ['design', 'items', 'traffic', 'faults', 'connect', 'contract', 'class'].map((name) =>
      pageFile(`${name}.css`),
    ),
  }),
]

type PageInput = Pick<HandlerInput<unknown, unknown>, 'request' | 'pathPrefix'>

interface Encoded {
  readonly etag: string
  readonly plain: Buffer
  /** The functions that compress the content, by content coding, in order of preference. */
  readonly compressed: ReadonlyMap<string, () => Promise<Buffer>>
}

const codings = { br: promisify(brotliCompress), gzip: promisify(gzip) }
/** Larger files are compressed with gzip alone, because Brotli would take seconds. */
const maxBrotliBytes = 100_000

/** Compresses a file when a client first requests it; with Brotli only if the result is kept for further requests. */
function encode(plain: Buffer, isKept: boolean): Encoded {
  const compressed = new Map<string, () => Promise<Buffer>>()
  for (const [coding, compress] of Object.entries(codings)) {
    if (coding === 'br' && (!isKept || plain.length > maxBrotliBytes)) continue
    let result: Promise<Buffer> | undefined
    compressed.set(coding, () => {
      result ??= compress(plain)
      return result
    })
  }
  return { etag: createHash('sha256').update(plain).digest('base64url').slice(0, 20), plain, compressed }
}

/** Files are read when they are first requested, once for all profiles and spaces. */
const encodedFiles = new Map<string, Promise<Encoded>>()

function encodedFile(files: readonly URL[]): Promise<Encoded> {
  const name = `${files}`
  const encoded =
    encodedFiles.get(name) ??
    Promise.all(files.map((file) => readFile(file))).then((contents) => encode(Buffer.concat(contents), true))
  encodedFiles.set(name, encoded)
  // Forgets a failure to read, so that the next request tries again.
  encoded.catch(() => encodedFiles.delete(name))
  return encoded
}

const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

function fileRoutes(path: string, files: Readonly<Record<string, readonly URL[]>>): Route[] {
  return Object.entries(files).map(([name, parts]) =>
    route({
      operation: `get ${name}`,
      method: 'GET',
      path: `${path}/${name}`,
      isPageFile: true,
      execute: async (input) =>
        fileResponse(input, types[name.slice(name.lastIndexOf('.') + 1)] ?? '', await encodedFile(parts), 'no-cache'),
    }),
  )
}

/** Responds with an HTML file, in which `{prefix}` stands for the path prefix of the space, `{token}` for a token. */
async function htmlResponse(
  input: PageInput,
  name: string,
  cacheControl: string,
  values: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const all: Readonly<Record<string, string>> = { prefix: input.pathPrefix, ...values }
  const html = (await readFile(pageFile(name), 'utf8')).replace(/\{(\w+)\}/g, (text, key) => all[key] ?? text)
  return fileResponse(input, 'text/html; charset=utf-8', encode(Buffer.from(html), false), cacheControl)
}

/** Images may be data: URLs, because Swagger UI uses them for its icons. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Responds with a file, or with 304 if the client already has this version. */
async function fileResponse(
  { request }: PageInput,
  type: string,
  { etag, plain, compressed }: Encoded,
  cacheControl: string,
): Promise<Response> {
  const accepted = request.header('accept-encoding') ?? ''
  const coding = [...compressed.keys()].find((name) =>
    new RegExp(`\\b${name}\\b(?!\\s*;\\s*q=0(?:\\.0*)?\\s*(?:,|$))`, 'i').test(accepted),
  )
  const headers = {
    etag: `"${etag}${coding ? `-${coding}` : ''}"`,
    'cache-control': cacheControl,
    vary: 'Accept-Encoding',
    'content-security-policy': contentSecurityPolicy,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  }
  const ifNoneMatch = request.header('if-none-match')
  if (ifNoneMatch !== undefined && matchesEtag(ifNoneMatch, headers.etag)) return { status: 304, headers }
  return {
    status: 200,
    headers: { ...headers, 'content-type': type, ...(coding && { 'content-encoding': coding }) },
    body: [(coding && (await compressed.get(coding)?.())) || plain],
  }
}
