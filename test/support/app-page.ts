import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { TestContext } from 'node:test'
import type { Page } from 'playwright-core'
import type { sharedBrowser } from './browser.ts'
import { cleanUp } from './cleanup.ts'
import { type Service, sharedService } from './cli.ts'

export type Profile = 'a' | 'b'

const json = { 'content-type': 'application/json' }

export async function send(
  url: string,
  method = 'GET',
  body?: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(url, {
    method,
    headers: { ...(body !== undefined && json), ...headers },
    ...(text !== undefined && { body: text }),
    ...(signal && { signal }),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** Valid bodies of each profile. */
const newItem = (profile: Profile, name: string) =>
  profile === 'a' ? { name, isComplete: false } : { id: name, name, notes: 'some notes', done: false }

export const createItem = (url: string, profile: Profile, name: string) =>
  send(`${url}/api/todoitems`, 'POST', newItem(profile, name))

/** The JSON text of the items. */
export const itemsOf = async (base: string) => (await send(`${base}/__admin/items`)).text
export const namesOf = async (base: string) => JSON.parse(await itemsOf(base)).map(({ name }: { name: string }) => name)
export const putFault = (base: string, fault: object) => send(`${base}/__admin/faults`, 'PUT', [fault])

export interface Look {
  readonly colorScheme?: 'light' | 'dark'
  readonly width?: number
}

/** Pages in the browser of a suite. */
export function appPages(shared: ReturnType<typeof sharedBrowser>) {
  /** Opens a page; after the test it must have had no script error and no request to another origin. */
  async function open(t: TestContext, url: string, { colorScheme = 'light', width = 1280 }: Look = {}): Promise<Page> {
    const context = await shared.browser.newContext({
      colorScheme,
      viewport: { width, height: 800 },
      reducedMotion: 'reduce',
    })
    const page = await context.newPage()
    // The tests that run at the same time would share the clipboard.
    await page.addInitScript(
      'if (navigator.clipboard) navigator.clipboard.writeText = async (text) => { globalThis.copied = text }',
    )
    page.setDefaultTimeout(60_000)
    const errors: string[] = []
    const { origin } = new URL(url)
    page.on('pageerror', (error) => errors.push(error.message))
    page.on('console', (message) => {
      // A response that is no success.
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) errors.push(message.text())
    })
    page.on('request', (sent) => {
      if (!/^(?:data|blob):/.test(sent.url()) && new URL(sent.url()).origin !== origin) errors.push(sent.url())
    })
    cleanUp(t, async () => {
      await context.close()
      assert.deepEqual(errors, [])
    })
    await page.goto(url)
    return page
  }

  async function openView(t: TestContext, base: string, view: string, look?: Look): Promise<Page> {
    const page = await open(t, `${base}/app#/${view}`, look)
    await live(page)
    return page
  }

  return { open, openView }
}

export const live = (page: Page) => page.locator('#live.is-live').waitFor()
export const show = (page: Page, view: string) => page.getByRole('link', { name: view, exact: true }).click()
export const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
export const dialog = (page: Page) => page.getByRole('dialog')
export const toast = (page: Page) => page.locator('.toast')
export const item = (page: Page, name: string) => page.locator('.items li', { hasText: name })
/** The requests in the view Traffic. */
export const rows = (page: Page) => page.locator('.rows li:not([hidden])')
export const row = (page: Page, text: string | RegExp) => page.locator('.rows li:not([hidden])', { hasText: text })
export const clipboard = (page: Page) => page.evaluate('copied') as Promise<string>

const require = createRequire(import.meta.url)
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

/** Serious and critical findings of axe-core, and whether the page is larger than the window. */
export async function assertAccessible(page: Page, what: string): Promise<void> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe)
  const results = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[]
  }
  const severe = results.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${what}: ${id} ${nodes[0]?.html}`)
  assert.deepEqual(severe, [])
  for (const size of ['Width', 'Height']) {
    const overflow = Number(await page.evaluate(`document.documentElement.scroll${size} - inner${size}`))
    assert.ok(overflow <= 0, `${what}: the ${size} is ${overflow} pixels too large`)
  }
}

/** Services of both profiles, and for each test items, traffic and faults of its own: the address of a new space. */
export function appServices(spacePrefix: string, argsOfA: readonly string[] = []) {
  const services: Record<Profile, Service> = { a: sharedService(argsOfA), b: sharedService([], 'b') }
  let spaces = 0
  const newSpace = (profile: Profile) => `${services[profile].url}/~${spacePrefix}-${++spaces}`
  return { services, newSpace }
}

/** Fonts of other systems are wider and narrower than the one of the tests: about as much as this. */
export const fontWidths = { narrow: '-0.6px', usual: '0', wide: '1px' } as const

/** Finds what nobody can reach in windows of these widths: beyond the window, or cut off by an element around it. */
export async function unreachable(
  page: Page,
  widths: readonly number[],
  fonts: readonly (keyof typeof fontWidths)[],
): Promise<string[]> {
  const failures: string[] = []
  for (const font of fonts) {
    await page.evaluate(`{
      const sheet = new CSSStyleSheet()
      sheet.replaceSync('* { letter-spacing: ${fontWidths[font]} !important }')
      document.adoptedStyleSheets = [sheet]
    }`)
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 })
      const found = (await page.evaluate(findUnreachable)) as string[]
      failures.push(...found.map((one) => `${width} pixels, ${font} font: ${one}`))
    }
  }
  return failures
}

const findUnreachable = `(() => {
  const found = []
  const { scrollWidth, scrollHeight } = document.documentElement
  if (scrollWidth > innerWidth) found.push('the page is ' + scrollWidth + ' pixels wide')
  if (scrollHeight > innerHeight) found.push('the page is ' + scrollHeight + ' pixels high')
  for (const element of document.querySelectorAll('a, button, input, select, textarea, summary, h1, h2, h3, p')) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('.offscreen, .head')) continue
    const { left, right, width } = element.getBoundingClientRect()
    if (width <= 1) continue
    let from = 0
    let to = innerWidth
    for (let around = element.parentElement; around; around = around.parentElement) {
      const { overflowX } = getComputedStyle(around)
      if (overflowX === 'visible') continue
      const box = around.getBoundingClientRect()
      from = Math.max(from, box.left)
      to = Math.min(to, box.right)
    }
    if (left < from - 1 || right > to + 1)
      found.push(element.localName + ' "' + (element.ariaLabel || element.textContent).trim().slice(0, 30) + '" is at ' + Math.round(left) + ' to ' + Math.round(right) + ' of ' + Math.round(from) + ' to ' + Math.round(to))
  }
  return found
})()`
