import { createRequire } from 'node:module'
import { empty } from '../http/response.ts'
import { type Route, route } from '../http/router.ts'
import { fileRoutes, htmlResponse, pageFile } from './page-files.ts'

const require = createRequire(import.meta.url)

const files = {
  'page.js': pageFile('page.js'),
  'page.css': pageFile('page.css'),
  'icon.svg': pageFile('icon.svg'),
  'swagger-ui-bundle.js': require.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  'swagger-ui.css': require.resolve('swagger-ui-dist/swagger-ui.css'),
}

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
      return htmlResponse(input, pageFile('index.html'), { token, app: hasApp ? 'app' : '' }, 'no-store')
    },
  }),
  ...fileRoutes('/swagger', files),
]
