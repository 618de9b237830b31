import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { ActiveFault } from '../../src/control/schema.ts'
import {
  appPages,
  appServices,
  assertAccessible,
  clipboard,
  createItem,
  live,
  namesOf,
  putFault,
  send,
  show,
} from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'
import { serve } from '../support/cli.ts'

const { newSpace } = appServices('faults')
const browsers = sharedBrowser()
const { open, openView } = appPages(browsers)

interface UsedFault {
  readonly id: number
  readonly used: number
  readonly flag?: string
}
const faultsOf = async (base: string): Promise<UsedFault[]> =>
  JSON.parse((await send(`${base}/__admin/faults`)).text).map(({ description: _, ...fault }: ActiveFault) => fault)
const faultRow = (page: Page, text: string) => page.locator('.faults li', { hasText: text })
const add = (page: Page) => page.getByRole('button', { name: 'Add', exact: true }).click()
const post = { method: 'POST', path: '/api/todoitems' }

/** Sends the request of a command of the page. */
async function execute(command: string) {
  const [, method, url = '', header, body] =
    /^curl -i -X (\w+) '([^']+)' -H '([^']+)' --data-raw '([^']*)'$/.exec(command) ?? []
  assert.equal(header, 'content-type: application/json', command)
  return send(url, method, body)
}

suite('/app: faults', { concurrency: 3 }, () => {
  test('a page sees that its connection was closed, also one that it has used: the browser does not repeat the request', async (t) => {
    const base = newSpace('a')
    const own = await open(t, `${base}/app`)
    const context = await browsers.browser.newContext()
    t.after(() => context.close())
    const foreign = await context.newPage()
    await foreign.goto(newSpace('b'))
    const url = `${base}/api/todoitems`
    /** The status, or undefined without a response. */
    const post = (page: Page) =>
      page.evaluate(async (target) => {
        // Idle connections of this page.
        await Promise.all([1, 2, 3].map(() => fetch(target).then((response) => response.text())))
        await fetch(`${target}?ready`)
        const headers = { 'content-type': 'application/json' }
        const request = { method: 'POST', headers, body: '{"name":"milk","isComplete":false}' }
        return fetch(target, request).then(
          ({ status }) => status,
          () => undefined,
        )
      }, url)
    for (const page of [own, foreign]) {
      await send(`${base}/__admin/reset`, 'POST')
      assert.equal(await post(page), 201)
      for (const [connection, count] of [
        ['reset', 1],
        ['lost', 2],
      ] as const) {
        await putFault(base, { method: 'POST', times: 1, connection })
        assert.equal(await post(page), undefined, connection)
        assert.equal((await namesOf(base)).length, count)
      }
      // The first request after the fault is there.
      await page.evaluate((target) => fetch(target).then((response) => response.text()), url)
      await putFault(base, { method: 'GET', times: 1, connection: 'reset' })
      assert.equal(await page.evaluate((target) => fetch(target).catch(() => 'failed'), url), 'failed')
    }
  })

  test('faults of the API and of flags are rows; each is removed alone, or all at once', async (t) => {
    const { url } = await serve(t, ['--fault', 'POST:20%', '--delay', '1-2'])
    await send(`${url}/__admin/faults`, 'PUT', [
      { ...post, times: 3, code: 503 },
      { method: 'GET', path: '/weatherforecast', times: 1, code: 500 },
      { method: 'GET', path: '/api/todoitems/7', bytesPerSecond: 2048 },
      { method: 'PUT', share: 0.5, times: 2, connection: 'truncate', delay: 10 },
    ])
    await createItem(url, 'a', 'milk')
    await send(`${url}/weatherforecast`)
    const page = await openView(t, url, 'faults')
    const texts = () => page.locator('.faults li p').allTextContents()
    await faultRow(page, 'POST /api/todoitems: 503').waitFor()
    assert.deepEqual(await texts(), [
      'POST /api/todoitems: 503, 3 times',
      'GET /weatherforecast: 500, once',
      'GET /api/todoitems/7: body at 2048 bytes/s',
      'PUT requests: connection closed after half of the body, delayed by 10 ms, 50 % of them, twice',
      'POST requests: failure of the store, 20 % of them (--fault)',
      'all requests: delayed by 1 to 2 ms (--delay)',
    ])
    await faultRow(page, 'POST /api/todoitems: 503').getByText('used 1 time').waitFor()
    await page.locator('.faults li.used-up', { hasText: 'weatherforecast' }).getByText('used up').waitFor()
    const chip = page.getByRole('link', { name: '5 faults' })
    await chip.waitFor()
    assert.match(`${await chip.getAttribute('title')}`, /^POST .*503, 3 times.*delayed by 1 to 2 ms \(--delay\)$/s)

    await page.getByRole('button', { name: /^Remove: .* delayed by 1 to 2 ms/ }).click()
    await page.getByRole('link', { name: '4 faults' }).waitFor()
    await page.getByRole('button', { name: /^Remove: .* body at 2048/ }).click()
    await page.getByRole('link', { name: '3 faults' }).waitFor()
    assert.deepEqual(
      (await faultsOf(url)).map(({ used, flag }) => [used, flag]),
      [
        [1, undefined],
        [1, undefined],
        [0, undefined],
        [0, '--fault'],
      ],
    )
    await page.getByRole('button', { name: 'Remove all' }).click()
    await page.getByText('No faults: requests').waitFor()
    assert.deepEqual(await faultsOf(url), [])
    await page.getByRole('button', { name: 'Undo' }).last().click()
    await page.getByRole('link', { name: '3 faults' }).waitFor()
    assert.deepEqual((await texts())[0], 'POST /api/todoitems: 503, twice')
  })

  test('Add adds a fault and leaves the others; editing changes one', async (t) => {
    const base = newSpace('b')
    await send(`${base}/__admin/faults`, 'PUT', [
      { ...post, times: 1, code: 409 },
      { ...post, times: 5, code: 400, delay: 1 },
    ])
    for (const name of ['one', 'two']) await createItem(base, 'b', name)
    const page = await openView(t, base, 'faults')
    await page.getByRole('button', { name: 'Delay', exact: true }).click()
    await page.getByLabel('Milliseconds', { exact: true }).fill('1')
    await add(page)
    await faultRow(page, 'all requests: delayed by 1 ms').waitFor()
    const used = { ...post, times: 1, code: 409, id: 1, used: 1 }
    assert.deepEqual(await faultsOf(base), [
      used,
      { ...post, times: 5, code: 400, delay: 1, id: 2, used: 2 },
      { delay: 1, id: 3, used: 0 },
    ])
    await page.getByRole('button', { name: /^Edit: .* 5 times/ }).click()
    assert.equal(await page.getByLabel('Number of requests').inputValue(), '3')
    await page.getByText('Also: after 1 ms.').waitFor()
    // Another view in between changes nothing, whichever link leads back.
    for (const link of ['Faults', '2 faults'] as const) {
      await show(page, 'Traffic')
      await page.getByLabel('Filter by text').waitFor()
      await page.getByRole('link', { name: link, exact: link === 'Faults' }).click()
      await page.getByRole('button', { name: 'Apply' }).waitFor()
    }
    // A fault with a delay has no failure without a status.
    await page.getByLabel('With', { exact: true }).selectOption('')
    await page.getByText('choose a status').waitFor()
    await page.getByLabel('With', { exact: true }).selectOption('409')
    await page.getByLabel('How many').selectOption('every')
    await page.getByRole('button', { name: 'Apply' }).click()
    await faultRow(page, 'POST /api/todoitems: 409, delayed by 1 ms').waitFor()
    assert.deepEqual(await faultsOf(base), [
      used,
      { ...post, code: 409, delay: 1, id: 2, used: 0 },
      { delay: 1, id: 3, used: 0 },
    ])
    await page.getByRole('button', { name: /^Edit: all requests: delayed/ }).click()
    await send(`${base}/__admin/faults/3`, 'DELETE')
    await page.getByText('The fault that you were changing is gone').waitFor()
    await page.getByRole('button', { name: 'Add', exact: true }).waitFor()
  })

  test('a sentence is in the address, says what is missing, and has its command', async (t) => {
    const base = newSpace('b')
    const page = await openView(t, base, 'faults')
    await page.getByLabel('Which requests').selectOption('POST /api/todoitems')
    await page.getByLabel('With', { exact: true }).selectOption('409')
    const count = page.getByLabel('Number of requests')
    for (const wrong of ['', '0', '1.5']) {
      await count.fill(wrong)
      await add(page)
      assert.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Number of requests')
      await page.getByText('How many? Enter a whole number, 1 or more.').waitFor()
      await page.getByText('when the sentence is complete').waitFor()
    }
    await count.fill('3')
    await page.getByText('How many? Enter').waitFor({ state: 'hidden' })
    await page.getByLabel('Which requests').selectOption('GET /api/todoitems')
    await page.getByText('These requests can only have 400, 401, 412, 429, 500, 503.').waitFor()
    await add(page)
    assert.equal(await page.getByLabel('With', { exact: true }).inputValue(), '409')
    assert.deepEqual(await faultsOf(base), [])
    await page.getByLabel('Which requests').selectOption('POST /api/todoitems')

    const broken = await openView(t, base, 'faults?kind=x&how=x&also=null&requests=X+/y')
    await broken.getByText('This service has no such operation.').waitFor()
    const other = await open(t, page.url())
    await live(other)
    await other.getByRole('button', { name: 'Copy', exact: true }).click()
    assert.equal((await execute(await clipboard(other))).status, 201)
    await add(other)
    await page.getByText('2 faults').waitFor()
    const fault = { ...post, times: 3, code: 409, used: 0 }
    assert.deepEqual(await faultsOf(base), [
      { id: 1, ...fault },
      { id: 2, ...fault },
    ])
    assert.equal((await createItem(base, 'b', 'milk')).text, 'TodoItemIDInUse')
    await faultRow(page, 'POST /api/todoitems: 409, 3 times').getByText('used 1 time').waitFor()
  })

  test('each kind of sentence, by its button and by its command', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'faults')
    const kind = (name: string) => page.getByRole('button', { name, exact: true }).click()
    const sentences: [sentence: string, fault: object, fill: () => Promise<unknown>][] = [
      ['failure of the store, twice', { times: 2 }, async () => {}],
      [
        '404 where possible, 12.5 % of them',
        { share: 0.125, code: 404 },
        async () => {
          await page.getByLabel('How many').selectOption('share')
          await page.getByLabel('Percent').fill('12.5')
          await page.getByLabel('With', { exact: true }).selectOption('404')
          await page.getByText('Only these can have 404: GET /api/todoitems/{id}').waitFor()
        },
      ],
      [
        'GET /api/todoitems: delayed by 100 to 800 ms',
        { method: 'GET', path: '/api/todoitems', delay: 100, maxDelay: 800 },
        async () => {
          await kind('Delay')
          await page.getByLabel('Which requests').selectOption('GET /api/todoitems')
          await page.getByLabel('At most').fill('100')
          await page.getByText('Enter 300 to 60000').waitFor()
          await page.getByLabel('Milliseconds', { exact: true }).fill('100')
          await page.getByLabel('At most').fill('800')
        },
      ],
      [
        'GET /api/todoitems: body at 500 bytes/s',
        { method: 'GET', path: '/api/todoitems', bytesPerSecond: 500 },
        async () => {
          await kind('Slow down')
          await page.getByLabel('kB/s').fill('0')
          await page.getByText('How fast?').waitFor()
          await page.getByLabel('kB/s').fill('0.5')
        },
      ],
      [
        'GET /api/todoitems: connection reset, once',
        { method: 'GET', path: '/api/todoitems', times: 1, connection: 'reset' },
        async () => {
          await kind('Drop the connection')
          await page.getByLabel('Number of requests').fill('1')
          await page.getByLabel('When').selectOption('reset')
        },
      ],
    ]
    for (const [index, [sentence, fault, fill]] of sentences.entries()) {
      await fill()
      await add(page)
      await faultRow(page, sentence).first().waitFor()
      await page.getByRole('button', { name: 'Copy', exact: true }).click()
      assert.equal((await execute(await clipboard(page))).status, 201)
      const faults = await faultsOf(base)
      assert.deepEqual(faults.slice(-2), [
        { id: 2 * index + 1, ...fault, used: 0 },
        { id: 2 * index + 2, ...fault, used: 0 },
      ])
    }
  })

  test('S6 401 and 429 are offered where no token is required and no rate is limited', async (t) => {
    const base = newSpace('b')
    const page = await openView(t, base, 'faults')
    await page.getByLabel('Which requests').selectOption('POST /api/todoitems')
    await page.getByLabel('With', { exact: true }).selectOption('429')
    await page.getByLabel('Number of requests').fill('1')
    await add(page)
    await faultRow(page, 'POST /api/todoitems: 429, once').waitFor()
    assert.equal((await createItem(base, 'b', 'milk')).status, 429)
    await page.getByRole('button', { name: 'Expired tokens' }).click()
    await page.getByText('Only these can have 401: GET /api/todoitems, POST /api/todoitems, ').waitFor()
    await add(page)
    await faultRow(page, '401 where possible').waitFor()
    assert.equal((await createItem(base, 'b', 'milk')).status, 401)
    assert.equal((await send(`${base}/weatherforecast`)).status, 200)
  })

  test('a preset shows its sentences and commands, and is added by one button', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'faults')
    const presets: [name: string, button: string, ...faults: object[]][] = [
      ['Slow network', 'Add both', { delay: 200, maxDelay: 800 }, { bytesPerSecond: 20_000 }],
      ['Flaky', 'Add', { share: 0.2 }],
      ['Down', 'Add', {}],
      ['Lost answers', 'Add', { method: 'POST', times: 1, connection: 'lost' }],
      ['Slow body', 'Add', { bytesPerSecond: 2000 }],
      ['Expired tokens', 'Add', { code: 401 }],
    ]
    for (const [name, button, ...faults] of presets) {
      await page.getByRole('button', { name, exact: true }).click()
      assert.deepEqual(await faultsOf(base), [])
      await page.locator(`.presets [aria-pressed=true]`, { hasText: name }).waitFor()
      const commands = `${await page.getByLabel('Command').textContent()}`.split('\n')
      for (const command of commands) assert.equal((await execute(command)).status, 201)
      const byCommand = (await faultsOf(base)).map(({ id: _, ...fault }) => fault)
      assert.deepEqual(
        byCommand,
        faults.map((fault) => ({ ...fault, used: 0 })),
      )
      await send(`${base}/__admin/faults`, 'DELETE')
      // The address has both sentences.
      await page.reload()
      await live(page)
      await page.getByRole('button', { name: button, exact: true }).click()
      await page
        .locator('.faults li')
        .nth(faults.length - 1)
        .waitFor()
      const byButton = (await faultsOf(base)).map(({ id: _, ...fault }) => fault)
      assert.deepEqual(byButton, byCommand)
      await page.getByRole('button', { name: 'Remove all' }).click()
      await page.getByText('No faults: requests').waitFor()
    }
  })

  for (const look of [{ width: 1280 }, { colorScheme: 'dark', width: 360 }] as const)
    test(`${look.width} pixels: rows, an incomplete sentence, a preset and a change are accessible`, async (t) => {
      const base = newSpace('a')
      await send(`${base}/__admin/faults`, 'PUT', [
        { ...post, times: 1, code: 503 },
        { share: 0.1, times: 3, connection: 'lost', delay: 5 },
      ])
      await createItem(base, 'a', 'milk')
      const page = await openView(t, base, 'faults', look)
      await page.locator('.faults li.used-up').waitFor()
      await page.getByLabel('Number of requests').fill('')
      await page.getByText('How many? Enter a whole number').waitFor()
      await assertAccessible(page, 'An incomplete sentence')
      await page.getByRole('button', { name: 'Slow network' }).click()
      await page.getByRole('button', { name: 'Add both' }).waitFor()
      await assertAccessible(page, 'A preset')
      await page.getByRole('button', { name: /^Edit: .* connection closed/ }).click()
      await page.getByText('Also: after 5 ms, at most').waitFor()
      await assertAccessible(page, 'A change')
    })
})
