import { type Route, route } from '../http/router.ts'
import { fileRoutes, htmlResponse, pageFile } from './page-files.ts'

const names = [
  'app.js',
  'app.css',
  'client.js',
  'connect.js',
  'contract.js',
  'dom.js',
  'format.js',
  'icon.svg',
  'items.js',
  'qr.js',
  'switches.js',
  'traffic.js',
]

/** The page with the items, the traffic and the switches. */
export const appPageRoutes = (): Route[] => [
  route({
    operation: 'getApp',
    method: 'GET',
    path: '/app',
    execute: (input) => htmlResponse(input, pageFile('app.html')),
  }),
  ...fileRoutes('/app', Object.fromEntries(names.map((name) => [name, pageFile(name)]))),
]
