/** Takes the pictures of docs/, and of all views to look at, from a service with known requests. `npm run screenshots` */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { start } from '../src/index.ts'
import { launch, type Page } from '../test/support/browser.ts'

const file = (name: string) => fileURLToPath(new URL(`../../docs/${name}.png`, import.meta.url))
interface Look {
  readonly colorScheme: 'light' | 'dark'
  readonly width: number
}

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
  await send('GET', '/~grace/api/todoitems', apple)
  await send('POST', '/~ada/api/todoitems', apple, { id: 'x', notes: 'x' })
  await server.addFault({ method: 'POST', path: '/api/todoitems', times: 2, code: 400 }, { delay: 200, maxDelay: 800 })
}

type Ready = (page: Page) => Promise<unknown>

/** Opens a view in a page of this look, and takes the picture when it is ready. */
async function take(path: string, view: string, look: Look, isReady: Ready): Promise<void> {
  const page = await browser.newPage({
    viewport: { width: look.width, height: look.width < 800 ? 844 : 720 },
    colorScheme: look.colorScheme,
    reducedMotion: 'reduce',
  })
  await page.goto(`${server.url}/app#/${view}`)
  await isReady(page)
  await page.screenshot({ path })
  await page.close()
}

const shows = (text: string) => (page: Page) => page.getByText(text).first().waitFor()
const opens = (text: string) => async (page: Page) => {
  await page.getByText(text).first().click()
  await page.getByRole('heading', { name: 'What was wrong' }).waitFor()
}

const views: readonly (readonly [name: string, address: string, isReady: Ready])[] = [
  ['traffic', 'traffic', shows('notes is missing')],
  ['request', 'traffic', opens('notes is missing')],
  ['items', 'items', shows('Buy oat milk')],
  ['faults', 'faults', shows('delayed by 200 to 800 ms')],
  ['contract', 'contract', shows('broken once')],
  ['connect', 'connect', shows('List the items')],
  ['class', 'class', shows('name is missing')],
]
const widths = [390, 820, 960, 1280, 1920]

/** Every view in both colour schemes and in windows of these widths, and a page of all of them. */
async function takeAll(directory: string): Promise<string> {
  mkdirSync(directory, { recursive: true })
  const sections: string[] = []
  for (const [name, address, isReady] of views) {
    sections.push(`<h2>${name}</h2>`)
    for (const colorScheme of ['light', 'dark'] as const)
      for (const width of widths) {
        const picture = `${name}-${colorScheme}-${width}.png`
        await take(join(directory, picture), address, { colorScheme, width }, isReady)
        sections.push(`<a href="${picture}"><img src="${picture}" alt="${picture}" title="${picture}"></a>`)
      }
  }
  const style =
    'body { font: 16px system-ui; margin: 24px } img { height: 280px; border: 1px solid #8888; margin: 4px }'
  const index = join(directory, 'index.html')
  writeFileSync(index, `<!doctype html><title>/app</title><style>${style}</style>${sections.join('\n')}\n`)
  return index
}

try {
  await sendAll()
  const look = { colorScheme: 'light', width: 1280 } as const
  await take(file('app'), 'traffic', look, opens('notes is missing'))
  await take(file('app-faults'), 'faults', look, shows('delayed by 200 to 800 ms'))
  process.stdout.write(`${await takeAll(fileURLToPath(new URL('../screenshots/', import.meta.url)))}\n`)
} finally {
  await server.close()
  await close()
}
