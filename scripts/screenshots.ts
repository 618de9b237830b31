/** Takes the pictures of README.md and docs/ from a service with known requests. `npm run screenshots` */
import { fileURLToPath } from 'node:url'
import { start } from '../src/index.ts'
import { launch, type Page } from '../test/support/browser.ts'

const file = (name: string) => fileURLToPath(new URL(`../../docs/${name}.png`, import.meta.url))
const { browser, close } = await launch([])
const server = await start({ profile: 'b', port: 5000, seed: 1 })

async function send(method: string, path: string, userAgent: string, body?: object, headers = {}): Promise<void> {
  await fetch(`${server.url}${path}`, {
    method,
    headers: { 'user-agent': userAgent, ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  }).catch(() => {})
}

async function sendAll(): Promise<void> {
  const item = { id: 'milk', name: 'Buy oat milk', notes: 'two cartons', done: false }
  const [android, apple] = ['okhttp/4.12.0', 'TodoApp/1 CFNetwork/1410']
  await send('GET', '/api/todoitems', android)
  await send('POST', '/api/todoitems', android, item)
  await send('POST', '/api/todoitems', android, item)
  await send('PUT', '/api/todoitems', android, { ...item, done: true })
  await send('POST', '/api/todoitems', apple, { id: 'bread', name: 7, done: false })
  await send('DELETE', '/api/todoitems/nothing', apple)
  await send('GET', '/secret', apple)
  await send('GET', '/api/todoitems', apple, undefined, { prefer: 'code=503' })
  await server.addFault({ method: 'POST', path: '/api/todoitems', times: 2, code: 400 }, { delay: 200, maxDelay: 800 })
}

async function take(name: string, view: string, width: number, isReady: (page: Page) => Promise<unknown>) {
  const page = await browser.newPage({
    viewport: { width, height: 720 },
    colorScheme: 'light',
    reducedMotion: 'reduce',
  })
  await page.goto(`${server.url}/app#/${view}`)
  await isReady(page)
  await page.screenshot({ path: file(name) })
  await page.close()
}

const shows = (text: string) => (page: Page) => page.getByText(text).first().waitFor()
const opens = (text: string) => async (page: Page) => {
  await page.getByText(text).first().click()
  await page.getByText('What was wrong').waitFor()
}

try {
  await sendAll()
  await take('app', 'traffic', 1280, opens('notes is missing'))
  await take('app-faults', 'faults', 1280, shows('the next 2'))
} finally {
  await server.close()
  await close()
}
