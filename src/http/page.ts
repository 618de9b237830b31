import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Answer, empty } from './answer.ts'
import { type Route, route } from './route.ts'

const own = (name: string) => new URL(`../../../page/${name}`, import.meta.url)
const require = createRequire(import.meta.url)

const assets = [
  { name: 'page.js', type: 'text/javascript', file: own('page.js') },
  { name: 'page.css', type: 'text/css', file: own('page.css') },
  {
    name: 'swagger-ui-bundle.js',
    type: 'text/javascript',
    file: require.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  },
  { name: 'swagger-ui.css', type: 'text/css', file: require.resolve('swagger-ui-dist/swagger-ui.css') },
]

/** Nothing from elsewhere, nothing inline, nobody's frame. Swagger UI draws its icons as data: images. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** S5: a page that lists each operation and tries it. `newToken` makes the token it brings to its own machine. */
export function pageRoutes(newToken: () => Promise<string>): Route[] {
  return [
    route({
      operation: 'findPage',
      method: 'GET',
      path: '/swagger',
      handle: () => empty(302, { location: '/swagger/index.html' }),
    }),
    route({
      operation: 'getPage',
      method: 'GET',
      path: '/swagger/index.html',
      async handle(call) {
        const html = readFileSync(own('index.html'), 'utf8')
        const withToken = async () =>
          html.replace('name="development-token" content=""', `name="development-token" content="${await newToken()}"`)
        return page('text/html; charset=utf-8', call.isLocal() ? await withToken() : html)
      },
    }),
    ...assets.map(({ name, file, type }) =>
      route({
        operation: `get ${name}`,
        method: 'GET',
        path: `/swagger/${name}`,
        handle: () => page(`${type}; charset=utf-8`, [readFileSync(file)]),
      }),
    ),
  ]
}

const page = (type: string, body: Required<Answer>['body']): Answer => ({
  status: 200,
  headers: {
    'content-type': type,
    'content-security-policy': policy,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  },
  body,
})
