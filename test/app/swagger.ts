import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Page } from 'playwright-core'
import { sharedBrowser } from '../support/browser.ts'
import { serve } from '../support/cli.ts'
import { tokenFor, transports } from '../support/running.ts'

const overSocket = transports['over a socket']
const shared = sharedBrowser()

suite('S5 documentation page in a browser', { concurrency: true }, () => {
  /** Opens a page; `errors` are those of its console, and its requests to other origins. */
  async function open(url: string): Promise<{ page: Page; errors: string[] }> {
    const page = await shared.browser.newPage({ reducedMotion: 'reduce' })
    page.setDefaultTimeout(120_000)
    const errors: string[] = []
    const { origin } = new URL(url)
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
    page.on('pageerror', (error) => errors.push(error.message))
    page.on('request', (request) => {
      if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith('data:')) errors.push(request.url())
    })
    await page.goto(url)
    return { page, errors }
  }

  /** By keyboard: Swagger UI scrolls while it opens the operation, so a click could miss the button. */
  async function tryOut(page: Page, operation: string, fill?: string): Promise<string> {
    const block = page.locator(`[id$="-${operation}"].opblock`)
    await block.waitFor()
    const isOpen = (await block.getAttribute('class'))?.includes('is-open')
    if (!isOpen) await block.locator('.opblock-summary-control').click()
    if (fill !== undefined) await block.locator('textarea.body-param__text').fill(fill)
    await block.locator('.responses-inner').waitFor()
    await block.locator('button.execute').press('Enter')
    const response = block.locator('.live-responses-table tbody')
    await response.waitFor()
    return (await response.textContent()) ?? ''
  }

  /** Waits until all are shown. */
  async function countOperations(page: Page): Promise<number> {
    await page.locator('.opblock').first().waitFor()
    return page.locator('.opblock').count()
  }

  test('on localhost lists every operation and executes them, also after a reload', async (t) => {
    const service = await overSocket(t, 'a')
    const { page, errors } = await open(`${service.url.replace('127.0.0.1', 'localhost')}/swagger`)
    assert.match(page.url(), /\/swagger\/index\.html$/)
    assert.equal(await countOperations(page), 8)
    assert.match(await tryOut(page, 'createItem', '{"name":"from the page","isComplete":true}'), /^201/)
    assert.match(await tryOut(page, 'listItems'), /from the page/)
    assert.match(await tryOut(page, 'greetByName'), /^200.*Hello developer\./s)
    await page.reload()
    assert.match(await tryOut(page, 'greetByName'), /^200/)
    assert.deepEqual(errors, [])
    await page.close()
  })

  test('in a space, of the other profile, works on the items of the space', async (t) => {
    const { url } = await serve(t, [], {}, 'b')
    const { page, errors } = await open(`${url}/~ada/swagger`)
    assert.match(page.url(), /\/~ada\/swagger\/index\.html$/)
    assert.equal(await countOperations(page), 7)
    assert.match(await tryOut(page, 'createItem', '{"id":"p","name":"from the page","notes":"x"}'), /^200/)
    assert.match(await tryOut(page, 'greetByName'), /^200.*Hello developer\./s)
    assert.deepEqual(errors, [])
    await page.close()
    const items = async (path: string) => (await fetch(`${url}${path}`)).text()
    assert.match(await items('/~ada/api/todoitems'), /from the page/)
    assert.doesNotMatch(await items('/api/todoitems'), /from the page/)
  })

  test('on another host requires a token, shows why one is rejected, and loads with a valid one', async (t) => {
    const service = await overSocket(t, 'a')
    const url = `${service.url.replace('127.0.0.1', 'elsewhere.test')}/swagger/index.html`
    const { page, errors } = await open(url)
    await page.getByLabel('Token').fill('nonsense')
    assert.deepEqual(errors, [])
    await page.getByRole('button', { name: 'Open' }).click()
    await page.getByText('The service rejects this token. The token is malformed').waitFor()
    await page.getByLabel('Token').fill(`Bearer ${await tokenFor('grace')}`)
    await page.getByRole('button', { name: 'Open' }).click()
    assert.match(await tryOut(page, 'greetByName'), /^200.*Hello grace\./s)
    await page.reload()
    assert.match(await tryOut(page, 'greetByName'), /^200.*Hello grace\./s)
    await page.close()
  })
})

suite('S5 documentation page', () => {
  const paths = ['index.html', 'page.js', 'page.css', 'icon.svg', 'swagger-ui-bundle.js', 'swagger-ui.css'].map(
    (name) => `/swagger/${name}`,
  )

  test('has a Content-Security-Policy that allows only its own files and no frames', async (t) => {
    const service = await overSocket(t, 'a')
    for (const path of paths) {
      const { status, headers } = await service.send('GET', path)
      assert.equal(status, 200, path)
      const policy = String(headers['content-security-policy'])
      for (const part of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"])
        assert.ok(policy.includes(part), part)
      assert.doesNotMatch(policy, /unsafe|http|\*/)
      // The page contains a token; browsers ask whether the files have changed.
      const cacheControl = path.endsWith('.html') ? 'no-store' : 'no-cache'
      assert.deepEqual([headers['x-content-type-options'], headers['cache-control']], ['nosniff', cacheControl])
    }
  })

  test('contains a token only for loopback clients that requested a loopback host', async (t) => {
    const service = await overSocket(t, 'a')
    const containsToken = async (headers: Record<string, string>) => {
      const { text } = await service.send('GET', '/swagger/index.html', undefined, headers)
      return /name="development-token" content="ey/.test(text)
    }
    for (const host of ['localhost', 'LOCALHOST:5000', '127.0.0.1:5000', '[::1]:5000'])
      assert.ok(await containsToken({ host }), host)
    for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '10.0.2.2:5000'])
      assert.ok(!(await containsToken({ host })), host)
    for (const header of ['forwarded', 'x-forwarded-for', 'x-forwarded-proto', 'x-real-ip', 'cf-connecting-ip', 'via'])
      assert.ok(!(await containsToken({ host: 'localhost', [header]: 'x' })), header)
  })

  test('is served in development only', async (t) => {
    const service = await overSocket(t, 'b', { mode: 'production' })
    for (const path of ['/swagger', ...paths]) assert.equal((await service.send('GET', path)).status, 404, path)
    assert.equal((await service.send('GET', '/swagger/v1/swagger.json')).status, 401)
  })
})
