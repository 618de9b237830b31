import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { matchesEtag } from '../http/conditional.ts'
import type { HandlerInput } from '../http/request.ts'
import type { Response } from '../http/response.ts'
import { type Route, route } from '../http/router.ts'

type Input = Pick<HandlerInput<unknown, unknown>, 'request' | 'pathPrefix'>

interface Encoded {
  readonly etag: string
  readonly plain: Buffer
  readonly gzipped: Buffer
}

const compress = promisify(gzip)

export const pageFile = (name: string) => new URL(`../../../page/${name}`, import.meta.url)

/** Swagger UI draws its icons as data: images. */
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

const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

/** By file. Compressed at the first request, once for all profiles and sandboxes. */
const encodedFiles = new Map<string, Promise<Encoded>>()

function encodedFile(file: string | URL): Promise<Encoded> {
  const encoded = encodedFiles.get(`${file}`) ?? readFile(file).then(encode)
  encodedFiles.set(`${file}`, encoded)
  return encoded
}

export const fileRoutes = (path: string, files: Readonly<Record<string, string | URL>>): Route[] =>
  Object.entries(files).map(([name, file]) =>
    route({
      operation: `get ${name}`,
      method: 'GET',
      path: `${path}/${name}`,
      isPageFile: true,
      execute: async (input) =>
        respond(input, types[name.slice(name.lastIndexOf('.') + 1)] ?? '', await encodedFile(file), 'no-cache'),
    }),
  )

/** An HTML file in which `{prefix}` stands for what comes before the paths of this service. */
export async function htmlResponse(
  input: Input,
  file: URL,
  values: Readonly<Record<string, string>> = {},
  cacheControl = 'no-cache',
): Promise<Response> {
  const template = await readFile(file, 'utf8')
  const all: Readonly<Record<string, string>> = { prefix: input.pathPrefix, ...values }
  const html = template.replace(/\{(\w+)\}/g, (text, name) => all[name] ?? text)
  return respond(input, 'text/html; charset=utf-8', await encode(Buffer.from(html)), cacheControl)
}

const encode = async (plain: Buffer): Promise<Encoded> => ({
  etag: createHash('sha256').update(plain).digest('base64url').slice(0, 20),
  plain,
  gzipped: await compress(plain),
})

/** 304 for a client that has this version already. */
function respond({ request }: Input, type: string, { etag, plain, gzipped }: Encoded, cacheControl: string): Response {
  const isGzipped = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(request.header('accept-encoding') ?? '')
  const headers = {
    etag: `"${etag}${isGzipped ? '-gzip' : ''}"`,
    'cache-control': cacheControl,
    vary: 'Accept-Encoding',
    'content-security-policy': contentSecurityPolicy,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  }
  const ifNoneMatch = request.header('if-none-match')
  if (ifNoneMatch !== undefined && matchesEtag(ifNoneMatch, headers.etag)) return { status: 304, headers }
  return {
    status: 200,
    headers: { ...headers, 'content-type': type, ...(isGzipped && { 'content-encoding': 'gzip' }) },
    body: [isGzipped ? gzipped : plain],
  }
}
