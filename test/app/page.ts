import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { suite, test } from 'node:test'
import { appPages, appServices, createItem, live, row, rows, send, show } from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'
import { serve, start } from '../support/cli.ts'
import { controlToken } from '../support/control.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/port.ts'

const { services, newSpace } = appServices('test', ['--https-port', '0'])
const shared = sharedBrowser()
const { open, openView } = appPages(shared)

suite('/app in a browser', { concurrency: 3 }, () => {
  test('two tabs show the same items and faults, which another client changes', async (t) => {
    const base = newSpace('a')
    const [one, two] = [await openView(t, base, 'items'), await openView(t, base, 'items')]
    await one.getByLabel('New item').fill('shared')
    await one.getByLabel('New item').press('Enter')
    await two.getByRole('button', { name: 'Edit shared' }).waitFor()
    await createItem(base, 'a', 'from a client')
    for (const page of [one, two]) await page.getByRole('button', { name: 'Edit from a client' }).waitFor()
    await send(`${base}/__admin/faults`, 'PUT', [{ delay: 5 }, { share: 0.25, connection: 'reset' }])
    for (const page of [one, two]) await page.getByText('2 faults').waitFor()
    await show(two, 'Faults')
    await two.getByText('connection reset, 25 % of them').waitFor()
    await two.getByRole('button', { name: 'Remove all' }).click()
    await one.getByText('2 faults').waitFor({ state: 'hidden' })
    await two.getByText('No faults: requests').waitFor()
  })

  test('survives a restart of the service, and says so meanwhile', async (t) => {
    const args = ['serve', '--profile', 'a', '--host', '127.0.0.1', '--port', `${await freePort()}`]
    const first = start(t, args)
    const [base] = await first.prints(/http:\/\/127\.0\.0\.1:\d+/)
    await createItem(base, 'a', 'lost')
    await send(`${base}/api/todoitems`, 'GET', undefined, { 'user-agent': 'okhttp/4' })
    const page = await openView(t, base, 'items')
    await page.getByText('lost', { exact: true }).waitFor()
    first.process.kill('SIGTERM')
    // While it stops, the page may reconnect.
    await first.ended
    await page.getByText('The service does not respond').waitFor()
    await page.getByText('Reconnecting').waitFor()
    await page.getByLabel('New item').fill('while away')
    await page.getByLabel('New item').press('Enter')
    await page.getByRole('alert').getByText('The service does not respond').waitFor()
    const second = start(t, args)
    await second.prints(/http:/)
    await page.getByText('The service was restarted').waitFor()
    await live(page)
    await page.getByText('No items yet').waitFor()
    assert.equal(await page.getByText('does not respond').count(), 0)
    await createItem(base, 'a', 'new life')
    await page.getByText('new life').waitFor()
    await show(page, 'Traffic')
    assert.equal(await rows(page).count(), 1)
    const clients = page.getByLabel('Filter by client').locator('option')
    assert.deepEqual(await clients.allTextContents(), ['Client', 'node'])
  })

  test('says that its space has ended while it was open, and shows the new one', async (t) => {
    const base = newSpace('a')
    await createItem(base, 'a', 'lost')
    const page = await openView(t, base, 'items')
    await page.getByRole('button', { name: 'Edit lost' }).waitFor()
    const { origin, pathname } = new URL(base)
    assert.equal((await send(`${origin}/__admin/spaces/${pathname.slice(2)}`, 'DELETE')).status, 204)
    await page.getByText('The space had ended: it was deleted, or not used for a while').waitFor()
    await page.getByText('No items yet').waitFor()
    await live(page)
  })

  test('script in names, notes, headers, bodies, paths and spaces is shown as text and never runs', async (t) => {
    const script = '"><img src=x onerror="globalThis.ran=1"><script>globalThis.ran=1</script>'
    const base = newSpace('b')
    await send(`${base}/api/todoitems`, 'POST', { id: script, name: script, notes: script }, { 'x-custom': script })
    await send(`${base}/api/todoitems/${encodeURIComponent(script)}?q=${encodeURIComponent(script)}`, 'DELETE')
    await send(`${base}/api/todoitems`, 'POST', script, { 'user-agent': script, 'x-custom': script })
    await send(`${base}/api/todoitems`, 'POST', { id: script, name: script, notes: script })
    const page = await openView(t, base, 'items')
    await page.locator('.items .name', { hasText: script }).waitFor()
    await show(page, 'Traffic')
    await rows(page).nth(3).waitFor()
    for (const index of [0, 1, 2]) {
      await rows(page).nth(index).click()
      await page.locator('.details h2').waitFor()
    }
    await page
      .getByText(/^All \d+ headers$/)
      .first()
      .click()
    await page.locator('.details td').getByText(script).first().waitFor()
    assert.equal(await page.locator('main img, main script').count(), 0)
    assert.equal(await page.evaluate('globalThis.ran'), undefined)
  })

  test('int64 ids stay exact', async (t) => {
    const base = newSpace('a')
    await send(`${base}/__admin/items`, 'PUT', '[{"id":9007199254740993,"name":"big","isComplete":false}]')
    const page = await openView(t, base, 'items')
    await page.locator('.items .id', { hasText: '9007199254740993' }).waitFor()
    await page.getByRole('checkbox', { name: 'Done: big' }).click()
    await page.locator('.items li.done').waitFor()
    assert.equal((await send(`${base}/api/todoitems`)).text, '[{"id":9007199254740993,"name":"big","isComplete":true}]')
    await show(page, 'Traffic')
    await page.getByLabel('Show own requests').click()
    await row(page, 'PUT').click()
    await page.locator('.details pre').getByText('9007199254740993').waitFor()
  })

  test('is usable by keyboard alone', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'items')
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key)
    }
    await page.getByRole('link', { name: 'Connect', exact: true }).focus()
    // The name of the space, the keys, the field.
    await press('Tab', 'Tab', 'Tab')
    await page.keyboard.type('one')
    await press('Enter')
    const edit = page.getByRole('button', { name: 'Edit one' })
    await edit.waitFor()
    await page.getByLabel('New item').focus()
    // Add, the last exchange, Reset, Save, Load, the checkbox.
    await press('Tab', 'Tab', 'Tab', 'Tab', 'Tab', 'Tab', 'Space')
    await page.locator('.items li.done').waitFor()
    await press('Tab', 'Enter')
    await page.keyboard.type('two')
    await press('Enter')
    await page.getByRole('button', { name: 'Edit two' }).waitFor()
    await press('Tab', 'Enter')
    await page.getByText('No items yet').waitFor()

    await page.getByRole('link', { name: 'Traffic', exact: true }).focus()
    await press('Enter')
    await page.getByLabel('Filter by text').waitFor()
    await press('/')
    assert.equal(await page.evaluate('document.activeElement.type'), 'search')
    await page.getByLabel('Show own requests').focus()
    await press('?')
    await page.getByRole('dialog', { name: 'Keys' }).getByText('Filter the requests').waitFor()
    await press('Escape')
    await page.getByLabel('Show own requests').focus()
    await press('Space', 'Tab', 'ArrowDown', 'Enter')
    await page.getByRole('heading', { name: 'PUT /api/todoitems/1' }).waitFor()
    await press('End')
    await page.getByRole('heading', { name: 'DELETE /api/todoitems/1' }).waitFor()
    await press('Escape')
    await page.locator('.details').waitFor({ state: 'hidden' })
    assert.match(String(await page.evaluate('document.activeElement.textContent')), /DELETE/)
  })

  test('on another host asks for a token', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const { url } = await serve(t, [], { XDG_CONFIG_HOME })
    const { token } = JSON.parse((await send(`${url}/__admin/info`)).text)
    const page = await open(t, `${url.replace('127.0.0.1', 'elsewhere.test')}/app`)
    await page.getByLabel('Token').fill('nonsense')
    await page.getByRole('button', { name: 'Open' }).click()
    await page.getByText('The service rejects this token. The token is malformed').waitFor()
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Open' }).click()
    await page.getByText('This token is not for this page: create it with --scope control.').waitFor()
    await page.getByLabel('Token').fill(`Bearer ${await controlToken(XDG_CONFIG_HOME)}`)
    await page.getByRole('button', { name: 'Open' }).click()
    await live(page)
    await page.reload()
    await live(page)
    await show(page, 'Connect')
    // There is no clipboard API without HTTPS on another host.
    await page.getByRole('button', { name: 'Copy token' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
  })

  test('/swagger is dark where the system is, says who is authorised, links to /app, and stays in its space', async (t) => {
    const base = newSpace('b')
    const page = await open(t, `${base}/swagger`, { colorScheme: 'dark' })
    assert.equal(page.url(), `${base}/swagger/index.html`)
    await page.getByText('Authorised as developer').waitFor()
    await page.locator('html.dark-mode').waitFor({ state: 'attached' })
    const operation = page.locator('[id$="-createItem"].opblock')
    await operation.locator('.opblock-summary-control').click()
    // Swagger UI has drawn the whole operation.
    await operation.locator('.responses-inner').waitFor()
    await operation.locator('button.execute').press('Enter')
    await operation.locator('.live-responses-table tbody').waitFor()
    assert.match((await send(`${base}/api/todoitems`)).text, /"id":"milk"/)
    await page.getByRole('link', { name: 'Items', exact: true }).click()
    await page.getByRole('button', { name: 'Edit Buy milk' }).waitFor()
    await page.emulateMedia({ colorScheme: 'light' })
    await page.goBack()
    await page.locator('html:not(.dark-mode)').waitFor({ state: 'attached' })
  })
})

suite('QR code', () => {
  /** The hashes are those of the modules that the package qrcode 1.5.4 makes of the same bytes. */
  const hashes: Record<string, [size: number, hash: string]> = {
    a: [21, '2e7add7dfd3288d4'],
    'http://192.168.1.20:5080': [25, 'ed2b51ea7fba4fce'],
    'http://192.168.178.20:5080/~checkout-tests': [29, 'cbefdf98e9abfc6b'],
    [`${'x'.repeat(84)}`]: [37, '828d6d94d58d40c1'],
    [`https://192.168.100.200:5081/~${'n'.repeat(64)}`]: [41, '0d51dd67ebaae62f'],
    [`${'é'.repeat(53)}`]: [41, '5476147cd07862f9'],
  }

  test('has the modules of another implementation, and none for a text that is too long', async () => {
    const { qrCode } = await import(new URL('../../page/qr.js', import.meta.url).href)
    for (const [text, [size, hash]] of Object.entries(hashes)) {
      const rows: boolean[][] = qrCode(text)
      assert.equal(rows.length, size, text)
      assert.equal(createHash('sha256').update(rows.flat().map(Number).join('')).digest('hex').slice(0, 16), hash, text)
    }
    assert.equal(qrCode('x'.repeat(107)), undefined)
  })
})

const appFiles = async (base: string) => {
  const { text } = await send(`${base}/app`)
  const found = new Set(['/app', ...[...text.matchAll(/(?:href|src)="([^"#]+)"/g)].map(([, path]) => `${path}`)])
  for (const path of found)
    if (path.endsWith('.js'))
      for (const [, name] of (await send(`${base}${path}`)).text.matchAll(/from '\.\/([\w.-]+)'/g))
        found.add(`/app/${name}`)
  return [...found]
}

suite('files of the pages', () => {
  test('/app has under 60 kB in all, compressed, with a Content-Security-Policy and an entity tag', async () => {
    const { url } = services.a
    const paths = await appFiles(url)
    assert.ok(paths.length > 8)
    let bytes = 0
    for (const path of paths) {
      const { headers, length } = await rawGet(`${url}${path}`, { 'accept-encoding': 'gzip, deflate, br' })
      bytes += length
      assert.equal(headers['content-encoding'], path === '/app' ? 'gzip' : 'br', path)
      assert.equal(headers['cache-control'], 'no-cache', path)
      assert.match(`${headers['content-security-policy']}`, /^default-src 'none'; script-src 'self'; style-src 'self'/)
      assert.doesNotMatch(`${headers['content-security-policy']}`, /unsafe|http|\*/)
      const again = await rawGet(`${url}${path}`, {
        'accept-encoding': 'gzip, deflate, br',
        'if-none-match': `${headers.etag}`,
      })
      assert.deepEqual([again.status, again.length], [304, 0], path)
      const gzipped = await rawGet(`${url}${path}`, { 'accept-encoding': 'gzip, br;q=0' })
      assert.equal(gzipped.headers['content-encoding'], 'gzip', path)
      const plain = await rawGet(`${url}${path}`, { 'accept-encoding': 'gzip;q=0' })
      assert.equal(plain.headers['content-encoding'], undefined, path)
      assert.notEqual(plain.headers.etag, headers.etag, path)
    }
    assert.ok(bytes < 60_000, `${bytes} bytes`)
  })

  test('/swagger has compressed files with entity tags, and a page that is not stored', async () => {
    const { url } = services.b
    const bundle = `${url}/swagger/swagger-ui-bundle.js`
    const { headers, length } = await rawGet(bundle, { 'accept-encoding': 'gzip' })
    assert.ok(length < 600_000, `${length} bytes`)
    assert.deepEqual([headers['cache-control'], headers.vary], ['no-cache', 'Accept-Encoding'])
    const again = await rawGet(bundle, { 'accept-encoding': 'gzip', 'if-none-match': `${headers.etag}` })
    assert.equal(again.status, 304)
    // It contains a token.
    assert.equal((await rawGet(`${url}/swagger/index.html`)).headers['cache-control'], 'no-store')
  })

  test('are neither in the journal nor subject to faults', async (t) => {
    const { url } = await serve(t, ['--fault', '100%'])
    for (const path of ['/app', '/app/app.js', '/swagger/index.html', '/swagger/page.js', '/~x/app'])
      assert.equal((await send(`${url}${path}`)).status, 200, path)
    assert.equal((await send(`${url}/api/todoitems`)).status, 503)
    assert.equal(JSON.parse((await send(`${url}/__admin/requests`)).text).length, 1)
  })

  for (const [what, args] of Object.entries({
    'in production': ['--mode', 'production'],
    'without the control API': ['--no-admin'],
  }))
    test(`/app is 404 ${what}`, async (t) => {
      const { url } = await serve(t, args)
      for (const path of ['/app', '/app/app.js', '/__admin/info', '/~x/app'])
        assert.equal((await send(`${url}${path}`)).status, 404, path)
      if (args.includes('--no-admin')) assert.match((await send(`${url}/swagger/index.html`)).text, /data-app=""/)
    })

  test('the start message names both pages of the profile, this one first', () => {
    const { running, url } = services.a
    assert.match(running.stdout, new RegExp(`Profile A  ${url}.*\\n +app +${url}/app\\n`))
    assert.ok(running.stdout.includes(`swagger   ${url}/swagger\n`), running.stdout)
  })
})

/** fetch would decompress. */
function rawGet(url: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number | undefined; headers: NodeJS.Dict<string | string[]>; length: number }>(
    (resolve, reject) => {
      request(url, { headers }, (response) => {
        let length = 0
        response.on('data', (data: Buffer) => (length += data.length))
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, length }))
      })
        .on('error', reject)
        .end()
    },
  )
}
