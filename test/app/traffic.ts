import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { suite, test } from 'node:test'
import type { Page } from 'playwright-core'
import { appPages, appServices, clipboard, createItem, row, rows, send, show } from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'
import { cleanUp } from '../support/cleanup.ts'

const { newSpace } = appServices('traffic', ['--https-port', '0'])
const { open, openView } = appPages(sharedBrowser())

const detailsOf = (page: Page) => page.getByRole('region', { name: /^Request \d+$/ })

suite('the view Traffic', { concurrency: 3 }, () => {
  test('shows a request of another client, what was wrong with it, and the rule', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'traffic')
    await page.getByText('No requests yet').waitFor()
    const agent = { 'user-agent': 'curl/8.5.0' }
    await send(`${base}/api/todoitems?page=2`, 'POST', { name: 7 }, agent)
    const entry = row(page, '/api/todoitems?page=2')
    await entry.getByText('400').waitFor()
    await entry.getByText('curl 8.5.0').waitFor()
    await entry.click()
    const details = page.getByRole('region', { name: /^Request \d+$/ })
    await details.getByText('name must be a string or null.', { exact: true }).waitFor()
    await details.getByText('isComplete is missing.', { exact: true }).waitFor()
    await details.getByText('name is a string or null. Absent means null').waitFor()
    assert.equal(await details.locator('pre').first().textContent(), '{\n  "name": 7\n}')
    assert.deepEqual(await details.locator('pre mark').allTextContents(), ['"name"', '7'])
    assert.match((await details.locator('pre').last().textContent()) ?? '', /"status": 400,/)
    await details.getByRole('button', { name: 'Copy as curl' }).click()
    const command = `curl -i -X POST '${base}/api/todoitems?page=2' -H 'content-type: application/json' --data-raw '{"name":7}'`
    assert.equal(await clipboard(page), command)
    await details.getByRole('button', { name: 'Copy as fetch' }).click()
    assert.match(await clipboard(page), /^const response = await fetch\("http.*page=2", \{\n {2}method: "POST",\n/)
    await details.getByRole('button', { name: 'Copy as C#' }).click()
    assert.match(await clipboard(page), /new HttpRequestMessage\(HttpMethod\.Post, "http.*page=2"\);/)
    const link = page.url()
    const cited = await page.evaluate(`[...document.querySelectorAll('.callout a')].map(({ hash }) => hash)`)
    assert.deepEqual(cited, ['#/contract?rule=A5', '#/contract?rule=A6'])
    // The list has them, too, and the reason is there while a request is open.
    await entry.getByText('A5 A6').waitFor()
    await entry.getByText('isComplete is missing').waitFor()
    await details.getByRole('link', { name: 'Rule A5' }).click()
    await page.locator('#rule-A5.is-current').waitFor()
    await page.goBack()
    await details.waitFor()
    const other = await open(t, link)
    await other.getByText('isComplete is missing.').last().waitFor()
  })

  test('a request is sent again, as it was or edited, and the next one like it fails', async (t) => {
    const base = newSpace('a')
    await send(`${base}/api/todoitems`, 'POST', { name: 'milk' })
    const page = await openView(t, base, 'traffic')
    await rows(page).click()
    const details = detailsOf(page)
    await details.getByRole('button', { name: 'Send again' }).click()
    await rows(page).nth(1).getByText('isComplete is missing').waitFor()
    await details.getByRole('button', { name: 'Edit and send' }).click()
    await page.getByRole('dialog').locator('textarea').fill('{"name":"milk","isComplete":false}')
    await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click()
    await row(page, '201').click()
    await details.getByText('201 Created').waitFor()
    await details.getByRole('button', { name: 'Fail the next one' }).click()
    await page.getByText('Added: POST /api/todoitems: failure of the store, once').waitFor()
    await details.getByRole('button', { name: 'Send again' }).click()
    await row(page, '503').getByText('POST /api/todoitems: failure of the store').click()
    await details.getByRole('link', { name: 'Show the fault' }).click()
    await page.locator('.faults li.edited', { hasText: 'used up' }).waitFor()
  })

  test('a response that a browser may not show to its page is marked, with what to do', async (t) => {
    const base = newSpace('a')
    // A page of another site may not create the space.
    await send(`${base}/api/todoitems`)
    await send(`${base}/api/todoitems`, 'GET', undefined, { origin: 'https://page.example' })
    const page = await openView(t, base, 'traffic')
    await row(page, '--cors https://page.example').getByText('blocked by CORS').click()
    await detailsOf(page).getByRole('heading', { name: 'Blocked by the browser' }).waitFor()
  })

  test('filters by text, status and method, in its address too; pauses; clears in each tab', async (t) => {
    const base = newSpace('b')
    await createItem(base, 'b', 'milk')
    await createItem(base, 'b', 'milk')
    await send(`${base}/api/todoitems`)
    const page = await openView(t, base, 'traffic')
    await page.getByText('3 requests').waitFor()
    await page.getByLabel('Filter by status').selectOption('4xx')
    await page.getByText('1 of 3 requests').waitFor()
    await page.getByLabel('Filter by method').selectOption('GET')
    await page.getByText('No request matches the filter').waitFor()
    await page.getByLabel('Filter by method').selectOption('POST')
    await page.getByLabel('Filter by text').fill('idinuse')
    assert.equal(await rows(page).count(), 1)
    const other = await open(t, page.url())
    await other.getByText('1 of 3 requests').waitFor()
    assert.equal(await other.getByLabel('Filter by text').inputValue(), 'idinuse')
    await other.getByLabel('Filter by text').fill('')
    await other.getByLabel('Filter by status').selectOption('')

    await other.getByRole('button', { name: 'Pause' }).click()
    await createItem(base, 'b', 'paused')
    await other.getByText('3 requests, 1 new').waitFor()
    assert.equal(await rows(other).count(), 2)
    await other.getByRole('button', { name: 'Resume' }).click()
    await row(other, /POST.*200/)
      .nth(1)
      .waitFor()
    await other.getByRole('button', { name: 'Clear' }).click()
    await page.getByText('No requests yet').waitFor()
    await other.getByText('No requests yet').waitFor()
    assert.equal((await send(`${base}/__admin/requests`)).text, '[]')
  })

  test('filters by client, rule and simulated response, in its address too', async (t) => {
    const base = newSpace('a')
    await send(`${base}/api/todoitems`, 'POST', { name: 7 }, { 'user-agent': 'okhttp/4.12.0' })
    await send(`${base}/api/todoitems`, 'POST', { isComplete: 7 }, { 'user-agent': 'okhttp/4.12.0' })
    await send(`${base}/api/todoitems`, 'GET', undefined, { 'user-agent': 'curl/8.5.0' })
    await send(`${base}/api/todoitems`, 'GET', undefined, { 'user-agent': 'curl/8.5.0', prefer: 'code=503' })
    const page = await openView(t, base, 'traffic')
    await page.getByText('4 requests').waitFor()
    await page.getByLabel('Filter by rule').selectOption('A5')
    await page.getByText('1 of 4 requests').waitFor()
    await page.getByLabel('Filter by rule').selectOption('A6')
    await page.getByText('2 of 4 requests').waitFor()
    await page.getByLabel('Filter by client').selectOption('curl 8.5.0')
    await page.getByText('No request matches the filter').waitFor()
    await page.getByRole('button', { name: 'Remove the filter' }).click()
    await page.getByText('4 requests').waitFor()
    await page.getByLabel('Filter by client').selectOption('curl 8.5.0')
    await page.getByText('2 of 4 requests').waitFor()
    await page.getByLabel('Simulated').check()
    await row(page, '503').waitFor()
    assert.equal(await rows(page).count(), 1)
    const other = await open(t, page.url())
    await row(other, '503').waitFor()
    assert.equal(await other.getByLabel('Filter by client').inputValue(), 'curl 8.5.0')
    assert.ok(await other.getByLabel('Simulated').isChecked())
    assert.equal(await rows(other).count(), 1)
  })

  test('a pending request has a clock, which ends with the response, and no timer is left', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'traffic')
    await page.evaluate(`{
      const { setInterval, clearInterval } = globalThis
      globalThis.timers = new Set()
      globalThis.setInterval = (...args) => { const id = setInterval(...args); timers.add(id); return id }
      globalThis.clearInterval = (id) => { timers.delete(id); clearInterval(id) }
    }`)
    const timers = () => page.evaluate('timers.size')
    await send(`${base}/api/todoitems`)
    await row(page, '200').waitFor()
    assert.equal(await timers(), 0)
    // It is pending until its body is there.
    const body = JSON.stringify({ id: 7, name: 'late', isComplete: false })
    const headers = { 'content-type': 'application/json', 'content-length': body.length }
    const upload = request(`${base}/api/todoitems/7`, { method: 'PUT', headers })
    upload.write(body.slice(0, 5))
    const pending = row(page, /\/7.*pending/)
    await pending.click()
    await detailsOf(page).getByText('None so far.').waitFor()
    const badge = detailsOf(page).getByText(/^Pending for \d+\.\d s$/)
    const before = await badge.textContent()
    await badge.filter({ hasNotText: String(before) }).waitFor()
    await pending.getByText(/^\d+\.\d s$/).waitFor()
    assert.equal(await timers(), 1)
    // The button keeps the focus while its content changes.
    await pending.getByRole('button').focus()
    upload.end(body.slice(5))
    const [response] = await once(upload, 'response')
    response.resume()
    await detailsOf(page).getByText('404 Not Found').waitFor()
    await row(page, /\/7.*404/).waitFor()
    assert.match(String(await page.evaluate('document.activeElement.textContent')), /\/7.*404/)
    assert.equal(await timers(), 0)
  })

  test('says that the client left, or that the connection was closed', async (t) => {
    const base = newSpace('b')
    const page = await openView(t, base, 'traffic')
    const client = new AbortController()
    const aborted = send(`${base}/api/todoitems?first`, 'GET', undefined, { prefer: 'wait=50' }, client.signal)
    const isRejected = assert.rejects(aborted)
    await row(page, /first.*pending/).waitFor()
    // A paused list is not extended, but tells no lies either.
    await page.getByRole('button', { name: 'Pause' }).click()
    client.abort()
    await isRejected
    const left = row(page, /first.*The client closed the connection after [\d.]+ s\..*client left/)
    await left.click()
    await detailsOf(page)
      .getByText(/^Client left after [\d.]+ m?s$/)
      .waitFor()
    await detailsOf(page).getByText('The client did not wait for it.').waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await assert.rejects(send(`${base}/api/todoitems?second`, 'GET', undefined, { prefer: 'connection=reset' }))
    await row(page, /second.*no response/).click()
    await detailsOf(page).getByText('Connection closed', { exact: true }).waitFor()
    await detailsOf(page).getByText('None: the connection was closed.').waitFor()
    await page.getByLabel('Filter by status').selectOption('none')
    assert.equal(await rows(page).count(), 2)
  })

  test('a paused list keeps what has ended, but no pending request that was forgotten; Clear empties it', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'traffic')
    const client = new AbortController()
    cleanUp(t, async () => client.abort())
    await send(`${base}/api/todoitems`)
    send(`${base}/weatherforecast`, 'GET', undefined, { prefer: 'wait=50' }, client.signal).catch(() => {})
    await row(page, 'pending').waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await send(`${base}/__admin/requests`, 'DELETE')
    await row(page, 'pending').waitFor({ state: 'detached' })
    assert.equal(await rows(page).count(), 1)
    await page.getByRole('button', { name: 'Clear' }).click()
    await page.getByText('No requests yet').waitFor()
    await send(`${base}/api/todoitems`)
    await page.getByText('0 requests, 1 new').waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByText('1 request', { exact: true }).waitFor()
  })

  test('shows CORS preflights, marked as such, those from before the page was opened too', async (t) => {
    const base = newSpace('a')
    await createItem(base, 'a', 'first')
    const preflight = { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' }
    await send(`${base}/api/todoitems?before`, 'OPTIONS', undefined, preflight)
    const page = await openView(t, base, 'traffic')
    await send(`${base}/api/todoitems?live`, 'OPTIONS', undefined, preflight)
    await send(`${base}/api/todoitems?plain`, 'OPTIONS')
    for (const query of ['before', 'live']) {
      await row(page, query).getByText('CORS preflight', { exact: true }).waitFor()
      await row(page, query).click()
      await detailsOf(page).locator('.facts').getByText('CORS preflight', { exact: true }).waitFor()
    }
    await detailsOf(page).getByRole('button', { name: 'Copy as curl' }).click()
    const copied = await clipboard(page)
    for (const [name, value] of Object.entries(preflight)) assert.ok(copied.includes(` -H '${name}: ${value}'`), copied)
    await row(page, 'plain').click()
    await detailsOf(page).getByRole('heading', { name: '?plain' }).waitFor()
    assert.equal(await page.getByText('CORS preflight', { exact: true }).count(), 2)
    await page.getByLabel('Filter by text').fill('preflight')
    assert.equal(await rows(page).count(), 2)
  })

  test('a simulated response has the fault or preference that made it, and nothing was wrong', async (t) => {
    const base = newSpace('a')
    await send(`${base}/__admin/faults`, 'PUT', [{ method: 'POST', path: '/api/todoitems', times: 1, code: 400 }])
    await createItem(base, 'a', 'fine')
    await send(`${base}/api/todoitems`, 'GET', undefined, { prefer: 'code=503' })
    await send(`${base}/api/todoitems`, 'POST', {})
    const page = await openView(t, base, 'traffic')
    for (const [status, cause] of [
      ['400', 'POST /api/todoitems: 400, once'],
      ['503', 'Prefer: code=503'],
    ] as const) {
      const simulated = row(page, cause)
      await simulated.getByText('simulated', { exact: true }).waitFor()
      await simulated.getByText(status, { exact: true }).click()
      await detailsOf(page).locator('.badge', { hasText: 'simulated' }).waitFor()
      await detailsOf(page).locator('.callout.simulated code').getByText(cause, { exact: true }).waitFor()
      assert.equal(await detailsOf(page).getByText('What was wrong').count(), 0)
    }
    const real = row(page, 'isComplete is missing')
    assert.equal(await real.getByText('simulated').count(), 0)
    await real.click()
    await detailsOf(page).getByText('What was wrong').waitFor()
  })

  test('leaves out what this page, commands and health checks send, says how many, and shows them when asked', async (t) => {
    const base = newSpace('a')
    await send(`${base}/health/ready`)
    await send(`${base}/api/todoitems`, 'GET', undefined, { 'x-todo-client': 'command' })
    const page = await openView(t, base, 'traffic')
    await page.getByText('No requests yet').waitFor()
    await page.getByText('2 hidden: health checks, commands', { exact: true }).waitFor()
    await show(page, 'Items')
    await page.getByLabel('New item').fill('mine')
    await page.getByLabel('New item').press('Enter')
    await show(page, 'Traffic')
    await page.getByText('3 hidden: health checks, commands, this page', { exact: true }).waitFor()
    await createItem(base, 'a', 'of a client')
    await page.getByText('1 request', { exact: true }).waitFor()
    assert.equal(await rows(page).count(), 1)
    await page.getByLabel('Show own requests').check()
    await page.getByText('4 requests', { exact: true }).waitFor()
    assert.deepEqual(await page.locator('.rows .of-client').allTextContents(), [
      'node',
      'commands',
      'this page',
      'node',
    ])
    assert.equal(await page.getByText('hidden:').count(), 0)
    await page.reload()
    await page.getByText('4 requests', { exact: true }).waitFor()
  })

  test('stays in the order in which the requests began, whatever ends first', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'traffic')
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        send(`${base}/api/todoitems`, 'GET', undefined, index % 2 === 0 ? { prefer: 'wait=1' } : {}),
      ),
    )
    await page.locator('.rows li:nth-child(20)').waitFor()
    await row(page, 'pending').first().waitFor({ state: 'detached' })
    const ids = (await page.evaluate(
      `[...document.querySelectorAll('.rows button')].map(({ dataset }) => Number(dataset.id))`,
    )) as number[]
    assert.deepEqual(
      ids,
      [...ids].sort((one, other) => one - other),
    )
  })

  test('request and response are side by side, in tabs where it is narrow; headers that matter come first', async (t) => {
    const base = newSpace('a')
    await send(`${base}/api/todoitems`, 'POST', { name: 'milk', isComplete: false }, { 'x-custom': 'of mine' })
    const page = await openView(t, base, 'traffic')
    await rows(page).click()
    const [sent, received] = (['Request', 'Response'] as const).map((name) =>
      detailsOf(page).getByRole('region', { name, exact: true }),
    )
    assert.ok(sent && received)
    const [left, right] = [await sent.boundingBox(), await received.boundingBox()]
    assert.ok(left && right)
    assert.equal(left.y, right.y)
    assert.ok(left.x + left.width < right.x)
    await sent.getByRole('row', { name: 'content-type' }).waitFor()
    await received.getByRole('row', { name: 'location' }).waitFor()
    assert.equal(await sent.getByRole('row', { name: 'x-custom' }).count(), 0)
    const body = await sent.locator('pre').boundingBox()
    const headers = await sent.locator('table').first().boundingBox()
    assert.ok(body && headers && body.y < headers.y)
    await sent.getByText(/^All \d+ headers$/).click()
    await sent.getByRole('row', { name: 'x-custom of mine' }).waitFor()
    await detailsOf(page).getByRole('link', { name: 'item 1 created' }).click()
    await page.getByRole('button', { name: 'Edit milk' }).and(page.locator(':focus')).waitFor()

    await show(page, 'Traffic')
    await page.setViewportSize({ width: 390, height: 800 })
    await sent.locator('pre').waitFor()
    assert.ok(await received.isHidden())
    await detailsOf(page).getByRole('button', { name: 'Response', exact: true }).click()
    await received.locator('pre').waitFor()
    assert.ok(await sent.isHidden())
    await detailsOf(page).getByRole('button', { name: 'Close' }).click()
    await rows(page).first().waitFor()
  })

  test('by keyboard: one tab stop, arrows, Enter, Escape and /', async (t) => {
    const base = newSpace('a')
    for (const id of [1, 2, 3]) await send(`${base}/api/todoitems/${id}`)
    await createItem(base, 'a', 'not shown')
    const page = await openView(t, base, 'traffic?method=GET')
    await rows(page).nth(2).waitFor()
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key)
    }
    const focused = () => page.evaluate('document.activeElement.textContent')
    const heading = (id: number) => page.getByRole('heading', { name: `GET /api/todoitems/${id}` }).waitFor()
    assert.equal(await page.locator('.rows [tabindex="0"]').count(), 1)
    await press('/')
    assert.equal(await page.evaluate('document.activeElement.type'), 'search')
    await page.keyboard.type('/api')
    assert.equal(await page.getByLabel('Filter by text').inputValue(), '/api')
    await press('ArrowDown')
    assert.match(String(await focused()), /todoitems\/1/)
    await press('ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowUp')
    assert.match(String(await focused()), /todoitems\/2/)
    assert.equal(await detailsOf(page).count(), 0)
    await press('Enter')
    await heading(2)
    await press('ArrowDown')
    await heading(3)
    await press('Escape')
    await detailsOf(page).waitFor({ state: 'detached' })
    assert.match(String(await focused()), /todoitems\/3/)
    await press('Tab')
    assert.equal(await page.locator('.rows :focus').count(), 0)
    await press('Shift+Tab')
    assert.match(String(await focused()), /todoitems\/3/)
    // The stop is never on a row that is not shown.
    await page.getByLabel('Filter by method').selectOption('POST')
    await page.locator('.rows li:not([hidden]) [tabindex="0"]').waitFor()
  })

  test('when there is nothing to show, says what to send', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'traffic')
    await page.getByRole('button', { name: 'Copy', exact: true }).click()
    assert.equal(await clipboard(page), `curl -i ${base}/api/todoitems`)
    await page.setViewportSize({ width: 360, height: 800 })
    const overflow = "document.querySelector('.scroller').scrollWidth - document.querySelector('.scroller').clientWidth"
    assert.equal(await page.evaluate(overflow), 0)
  })

  test('saves what is shown as HAR 1.2', async (t) => {
    const base = newSpace('a')
    await send(`${base}/api/todoitems?a=1&b=%20x`, 'POST', { name: 'é', isComplete: false })
    await send(`${base}/api/todoitems`, 'GET', undefined, { prefer: 'code=503' })
    await assert.rejects(send(`${base}/api/todoitems`, 'GET', undefined, { prefer: 'connection=reset' }))
    await send(`${base}/health/ready`)
    const preflight = { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' }
    await send(`${base}/api/todoitems`, 'OPTIONS', undefined, preflight)
    const client = new AbortController()
    cleanUp(t, async () => client.abort())
    const pending = send(`${base}/weatherforecast`, 'GET', undefined, { prefer: 'wait=50' }, client.signal)
    pending.catch(() => {})
    const page = await openView(t, base, 'traffic')
    await row(page, 'pending').waitFor()
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save as HAR' }).click()
    const file = await download
    assert.equal(file.suggestedFilename(), 'traffic.har')
    const har = JSON.parse(readFileSync(await file.path(), 'utf8'))
    assertHas(har, harFormat, 'har')
    assert.equal(har.log.version, '1.2')
    const [created, simulated, closed, options, waiting, ...more] = har.log.entries
    assert.deepEqual(more, [])
    assert.equal(created.request.url, `${base}/api/todoitems?a=1&b=%20x`)
    assert.deepEqual(created.request.queryString, [
      { name: 'a', value: '1' },
      { name: 'b', value: ' x' },
    ])
    const text = '{"name":"é","isComplete":false}'
    assert.deepEqual(created.request.postData, { mimeType: 'application/json', params: [], text })
    assert.equal(created.request.bodySize, Buffer.byteLength(text))
    assert.deepEqual([created.response.status, created.response.statusText], [201, 'Created'])
    assert.match(created.response.redirectURL, /\/api\/todoitems\/1$/)
    assert.deepEqual(JSON.parse(created.response.content.text), { id: 1, name: 'é', isComplete: false })
    assert.equal(created.comment, undefined)
    assert.equal(simulated.response.status, 503)
    assert.match(simulated.comment, /^simulated by Prefer: code=503/)
    assert.deepEqual([closed.response.status, waiting.response.status], [0, 0])
    assert.match(closed.comment, /^simulated by Prefer: connection=reset/)
    assert.deepEqual([options.request.method, options.comment], ['OPTIONS', 'CORS preflight'])
    assert.equal(typeof closed._error, 'string')
    assert.equal(waiting._error, 'pending')
    for (const { time, timings } of har.log.entries) assert.equal(time, timings.send + timings.wait + timings.receive)
  })
})

type Format = 'string' | 'number' | 'date' | 'url' | readonly [Format] | { readonly [name: string]: Format }

const pairs: Format = [{ name: 'string', value: 'string' }]
const message = {
  httpVersion: 'string',
  cookies: pairs,
  headers: pairs,
  headersSize: 'number',
  bodySize: 'number',
} as const

/** The members of http://www.softwareishard.com/blog/har-12-spec/; a question mark marks what may be absent. */
const harFormat: Format = {
  log: {
    version: 'string',
    creator: { name: 'string', version: 'string' },
    entries: [
      {
        startedDateTime: 'date',
        time: 'number',
        request: {
          method: 'string',
          url: 'url',
          ...message,
          queryString: pairs,
          'postData?': { mimeType: 'string', params: pairs, text: 'string', 'comment?': 'string' },
        },
        response: {
          status: 'number',
          statusText: 'string',
          ...message,
          content: { size: 'number', mimeType: 'string', 'text?': 'string', 'comment?': 'string' },
          redirectURL: 'string',
        },
        cache: {},
        timings: { send: 'number', wait: 'number', receive: 'number' },
        '_error?': 'string',
        'comment?': 'string',
      },
    ],
  },
}

function assertHas(value: unknown, format: Format, where: string): void {
  if (Array.isArray(format)) {
    assert.ok(Array.isArray(value), where)
    for (const [index, one] of value.entries()) assertHas(one, format[0], `${where}[${index}]`)
  } else if (typeof format === 'object') {
    assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), where)
    const formats = new Map(Object.entries(format))
    for (const [name, inner] of formats) {
      const key = name.replace('?', '')
      if (key in value || key === name) assertHas((value as Record<string, unknown>)[key], inner, `${where}.${key}`)
    }
    for (const key of Object.keys(value)) assert.ok(formats.has(key) || formats.has(`${key}?`), `${where}.${key}`)
  } else if (format === 'date') assert.match(String(value), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/, where)
  else if (format === 'url') assert.ok(URL.canParse(String(value)), where)
  else assert.equal(typeof value, format, where)
  // HAR has -1 for a size that is not known.
  if (format === 'number') assert.ok(Number(value) >= (where.endsWith('Size') ? -1 : 0), where)
}
