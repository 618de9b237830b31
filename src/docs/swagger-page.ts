import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { empty, type Response } from '../http/response.ts'
import { type Route, route } from '../http/router.ts'

const pageFile = (name: string) => new URL(`../../../page/${name}`, import.meta.url)
const require = createRequire(import.meta.url)

const assets = [
  { name: 'page.js', type: 'text/javascript', file: pageFile('page.js') },
  { name: 'page.css', type: 'text/css', file: pageFile('page.css') },
  {
    name: 'swagger-ui-bundle.js',
    type: 'text/javascript',
    file: require.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  },
  { name: 'swagger-ui.css', type: 'text/css', file: require.resolve('swagger-ui-dist/swagger-ui.css') },
]

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

/** S5: the page that lists and tries each operation. For local clients it contains a token from `newToken`. */
export function pageRoutes(newToken: () => Promise<string>): Route[] {
  return [
    route({
      operation: 'redirectToPage',
      method: 'GET',
      path: '/swagger',
      execute: ({ pathPrefix }) => empty(302, { location: `${pathPrefix}/swagger/index.html` }),
    }),
    route({
      operation: 'getPage',
      method: 'GET',
      path: '/swagger/index.html',
      async execute(input) {
        const html = readFileSync(pageFile('index.html'), 'utf8').replaceAll(
          '"/swagger/',
          `"${input.pathPrefix}/swagger/`,
        )
        const withToken = async () =>
          html.replace('name="development-token" content=""', `name="development-token" content="${await newToken()}"`)
        return page('text/html; charset=utf-8', input.isLocal ? await withToken() : html)
      },
    }),
    ...assets.map(({ name, file, type }) =>
      route({
        operation: `get ${name}`,
        method: 'GET',
        path: `/swagger/${name}`,
        execute: () => page(`${type}; charset=utf-8`, [readFileSync(file)]),
      }),
    ),
  ]
}

const page = (type: string, body: Required<Response>['body']): Response => ({
  status: 200,
  headers: {
    'content-type': type,
    'content-security-policy': contentSecurityPolicy,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  },
  body,
})
