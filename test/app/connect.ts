import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { ProfileUrls } from '../../src/common/profile-urls.ts'
import type { Info } from '../../src/control/schema.ts'
import {
  appPages,
  appServices,
  assertAccessible,
  clipboard,
  live,
  send,
  show,
  unreachable,
} from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'
import { serve } from '../support/cli.ts'
import { controlToken } from '../support/control.ts'
import { temporaryFolder } from '../support/folder.ts'

const { services, newSpace } = appServices('connect', ['--https-port', '0'])
const { open, openView } = appPages(sharedBrowser())
const choose = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const block = (page: Page, title: string | RegExp) => page.locator('.snippet', { hasText: title }).locator('pre')
const snippetOf = async (page: Page) => `${await block(page, 'GET /api/todoitems').textContent()}`

/** Runs what the page shows for fetch. */
const runSnippet = (code: string, token = '') =>
  new Function('token', `return (async () => { ${code}\nreturn items })()`)(token) as Promise<object[]>

suite('the view Connect', { concurrency: 3 }, () => {
  test('has an address, a snippet and what to allow for each kind of client, and keeps the choice in its address', async (t) => {
    const base = newSpace('a')
    await send(`${base}/api/todoitems`, 'POST', { name: 'milk', isComplete: false })
    const { port, pathname } = new URL(base)
    const page = await openView(t, base, 'connect')
    await choose(page, `Copy ${base}`)
    assert.equal(await clipboard(page), base)
    assert.deepEqual(await runSnippet(await snippetOf(page)), [{ id: 1, name: 'milk', isComplete: false }])
    await page.getByText('--cors ORIGIN').waitFor()

    await choose(page, 'iOS simulator')
    await page.getByRole('region', { name: 'Connect' }).getByText(base, { exact: true }).waitFor()
    assert.match(await snippetOf(page), /let id: Int64\n {4}let name: String\?\n {4}let isComplete: Bool\n\}/)
    assert.ok((await snippetOf(page)).includes(`URL(string: "${base}/api/todoitems")`))
    await block(page, 'iOS: Info.plist').getByText('NSAllowsLocalNetworking').waitFor()

    await choose(page, 'Android emulator')
    await page.getByText(`http://10.0.2.2:${port}${pathname}`, { exact: true }).waitFor()
    assert.ok((await snippetOf(page)).includes(`.baseUrl("http://10.0.2.2:${port}${pathname}/")`))
    assert.match(await snippetOf(page), /val id: Long,\n {4}val name: String\?,\n {4}val isComplete: Boolean,/)
    const config = block(page, 'network_security_config.xml')
    assert.match(`${await config.textContent()}`, /cleartextTrafficPermitted="true">\s*<domain>10\.0\.2\.2<\/domain>/)

    await choose(page, 'Android phone by USB')
    await choose(page, `Copy adb reverse tcp:${port} tcp:${port}`)
    assert.equal(await clipboard(page), `adb reverse tcp:${port} tcp:${port}`)
    await page.getByText(`http://localhost:${port}${pathname}`, { exact: true }).waitFor()

    await choose(page, 'C# HttpClient')
    assert.match(await snippetOf(page), /record TodoItem\(long Id, string\? Name, bool IsComplete\);$/)
    assert.ok((await snippetOf(page)).includes(`new Uri("http://localhost:${port}${pathname}/")`))
    await choose(page, 'Copy GET /api/todoitems')
    assert.equal(await clipboard(page), await snippetOf(page))
    assert.equal(page.url(), `${base}/app#/connect?client=usb&language=csharp`)
    await page.reload()
    await page.getByRole('button', { name: 'Android phone by USB', pressed: true }).waitFor()
    await page.getByRole('button', { name: 'C# HttpClient', pressed: true }).waitFor()
  })

  test('has the members of profile B, no HTTPS where there is none, and a token where the list needs one', async (t) => {
    const page = await openView(t, newSpace('b'), 'connect?language=swift')
    assert.match(
      await snippetOf(page),
      /let id: String\n {4}let name: String\n {4}let notes: String\n {4}let done: Bool/,
    )
    assert.equal(await page.getByRole('button', { name: 'HTTPS' }).isVisible(), false)

    const { url } = await serve(t, ['--require-auth'])
    const secured = await openView(t, url, 'connect')
    await choose(secured, 'Copy token')
    assert.deepEqual(await runSnippet(await snippetOf(secured), await clipboard(secured)), [])
    for (const [language, expected] of [
      ['C# HttpClient', 'Authorization = new("Bearer", token);'],
      ['Kotlin Retrofit', '@Header("Authorization")'],
      ['Swift URLSession', 'forHTTPHeaderField: "Authorization"'],
    ] as const) {
      await choose(secured, language)
      assert.ok((await snippetOf(secured)).includes(expected), language)
    }
  })

  test('HTTPS: the certificate without its key, and what each client needs to trust it', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'connect')
    await choose(page, 'HTTPS')
    assert.match(await snippetOf(page), /fetch\('https:\/\/127\.0\.0\.1:/)
    await page.getByText(/^curl --cacert localhost\.crt https:/).waitFor()
    const download = page.waitForEvent('download')
    await choose(page, 'Save localhost.crt')
    const certificate = readFileSync(await (await download).path(), 'utf8')
    assert.match(certificate, /^-----BEGIN CERTIFICATE-----/)
    assert.doesNotMatch(certificate, /PRIVATE/)
    await choose(page, 'Android emulator')
    const config = `${await block(page, 'network_security_config.xml').textContent()}`
    assert.match(config, /<domain>10\.0\.2\.2<\/domain>\s*<trust-anchors>\s*<certificates src="@raw\/localhost" \/>/)
    await choose(page, 'iOS simulator')
    await block(page, 'the delegate of the URLSession').getByText('space.host == "127.0.0.1"').waitFor()
    await assertAccessible(page, 'Connect, HTTPS')
  })

  /** Changes what the service says about itself. */
  async function changeInfo(page: Page, profilesOf: (profiles: readonly ProfileUrls[]) => readonly ProfileUrls[]) {
    await page.unroute('**/__admin/info')
    await page.route('**/__admin/info', async (route) => {
      // Undefined where the test has ended and closed the page.
      const response = await route.fetch().catch(() => undefined)
      const info: Info | undefined = await response?.json().catch(() => undefined)
      if (response && info)
        await route.fulfill({ response, json: { ...info, profiles: profilesOf(info.profiles) } }).catch(() => {})
    })
  }

  const setNetwork = (page: Page, network: Pick<ProfileUrls, 'isListeningOnNetwork' | 'networkUrls'>) =>
    changeInfo(page, (profiles) => profiles.map((urls) => ({ ...urls, ...network })))

  test('a phone gets the page and a code by QR code, only when somebody looks', async (t) => {
    const base = newSpace('a')
    const { pathname } = new URL(base)
    const page = await open(t, `${base}/app`)
    let codes = 0
    page.on('request', (sent) => {
      if (sent.url().endsWith('/__admin/codes')) codes++
    })
    await setNetwork(page, {
      isListeningOnNetwork: true,
      networkUrls: ['http://192.168.1.20:5080', 'https://192.168.1.20:5081', 'http://172.17.0.1:5080'],
    })
    await page.clock.install()
    await page.reload()
    await live(page)
    await show(page, 'Connect')
    await page.getByRole('region', { name: 'Connect' }).getByText(base, { exact: true }).waitFor()
    // Whatever the view had asked for by itself is answered before.
    for (let count = 0; count < 2; count++) await page.evaluate("fetch('__admin/info').then((found) => found.text())")
    assert.equal(codes, 0)
    await choose(page, 'Phone in the same network')
    const shown = page.locator('.code')
    const code = `${await shown.textContent()}`
    assert.match(code, /^\w{5}-\w{5}$/)
    const address = `http://192.168.1.20:5080${pathname}`
    await page.getByRole('img', { name: `QR code of ${address}/app#/connect?code=${code}`, exact: true }).waitFor()
    await page.getByText('On the phone, enter this code').waitFor()
    await page.getByText('Valid for 5 minutes').waitFor()
    assert.ok((await snippetOf(page)).includes(`"${address}/"`))
    await block(page, 'iOS: Info.plist').getByText('NSLocalNetworkUsageDescription').waitFor()
    await assertAccessible(page, 'Connect, phone')
    await choose(page, 'This machine')
    await choose(page, 'Phone in the same network')
    assert.equal(await shown.textContent(), code)
    assert.equal(codes, 1)
    assert.equal((await send(`${base}/__admin/tokens`, 'POST', { code })).status, 201)

    await page.getByLabel('several addresses').selectOption('172.17.0.1')
    await page.getByRole('img', { name: `http://172.17.0.1:5080${pathname}/app#/connect?code=${code}` }).waitFor()
    await choose(page, 'New code')
    await page.getByText(code).waitFor({ state: 'hidden' })
    assert.notEqual(await shown.textContent(), code)
    assert.equal(codes, 2)
    await page.clock.fastForward('05:01')
    await page.getByText('This code has expired.').waitFor()
    assert.equal(await page.getByRole('img', { name: 'QR code' }).count(), 0)

    await choose(page, 'HTTPS')
    await page.getByText('clients reject it for 192.168.1.20').waitFor()
  })

  test('says how to listen on the network, and where there is none', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'connect?client=phone')
    await page.getByText('The service listens on this machine only.').waitFor()
    await choose(page, 'Copy npm start -- --host 0.0.0.0')
    assert.equal(await clipboard(page), 'npm start -- --host 0.0.0.0')
    await setNetwork(page, { isListeningOnNetwork: true, networkUrls: [] })
    await choose(page, 'This machine')
    await choose(page, 'Phone in the same network')
    await page.getByText('This machine has no network address.').waitFor()
    assert.equal(await page.getByText('List the items').isVisible(), false)
    await setNetwork(page, { isListeningOnNetwork: true, networkUrls: ['http://10.1.2.3:5080'] })
    await choose(page, 'Look again')
    await page.getByRole('img', { name: /^QR code of http:\/\/10\.1\.2\.3:5080\/~.*\/app#\/connect\?code=/ }).waitFor()
  })

  test('Class shows what each space does, opens one, and makes a sheet of addresses with codes to print', async (t) => {
    const { url } = await serve(t, [])
    const base = url
    await send(`${base}/~ada/api/todoitems`, 'POST', { name: 'milk', isComplete: false })
    await send(`${base}/~ada/api/todoitems`, 'POST', { name: 'milk' })
    const page = await openView(t, base, 'class')
    const ada = page.getByRole('row', { name: /^ada / })
    await ada.getByText('POST /api/todoitems 400: isComplete is missing.').waitFor()
    assert.deepEqual((await ada.getByRole('cell').allTextContents()).toSpliced(1, 1).slice(0, 5), [
      '1',
      '2',
      '1',
      '3',
      'A6',
    ])
    await send(`${base}/~bob/api/todoitems`)
    await page.getByRole('row', { name: /^bob / }).waitFor()
    await page.getByText('npm start -- --data class.db --host 0.0.0.0').waitFor()
    await setNetwork(page, {
      isListeningOnNetwork: true,
      networkUrls: ['http://172.17.0.1:5080', 'http://192.168.1.20:5080'],
    })
    await page.reload()
    await live(page)
    await page.getByLabel('reach this machine').selectOption('http://192.168.1.20:5080')
    const names = page.getByLabel('names of the students')
    await names.fill('ada\nada')
    await choose(page, 'Make addresses')
    await page.getByText('There are two of ada.').waitFor()
    await names.fill('Ada Lovelace\nZoë\n')
    await choose(page, 'Make addresses')
    const card = page.getByRole('region', { name: 'Ada-Lovelace' })
    await page.getByRole('region', { name: 'Zoe' }).waitFor()
    const code = `${await card.locator('b').textContent()}`
    const address = 'http://192.168.1.20:5080/~Ada-Lovelace'
    await card.getByText(address, { exact: true }).waitFor()
    await card.getByRole('img', { name: `QR code of ${address}/app#/connect?code=${code}`, exact: true }).waitFor()
    assert.equal((await send(`${base}/__admin/tokens`, 'POST', { code })).status, 201)
    await assertAccessible(page, 'Class')
    assert.deepEqual(await unreachable(page, [320, 820, 960, 1140], ['wide']), [])
    await names.fill('30')
    await choose(page, 'Make addresses')
    await page.getByRole('region', { name: 'student-30' }).waitFor()
    assert.equal(await page.getByText(/^\w{5}-\w{5}$/).count(), 30)
    await page.emulateMedia({ media: 'print' })
    assert.deepEqual([await ada.isVisible(), await page.getByRole('navigation').count()], [false, 0])
    assert.equal(await page.getByRole('heading', { name: 'student-30' }).isVisible(), true)
    await page.emulateMedia({ media: 'screen' })
    await page.getByRole('link', { name: 'ada', exact: true }).click()
    await page.waitForURL(`${base}/~ada/app#/traffic`)
    await live(page)
    assert.equal(await page.getByRole('link', { name: 'Class' }).isVisible(), false)
  })

  test('on another machine shows its own origin first, and a code only on demand', async (t) => {
    const XDG_CONFIG_HOME = temporaryFolder(t)
    const { url } = await serve(t, [], { XDG_CONFIG_HOME })
    const origin = url.replace('127.0.0.1', 'elsewhere.test')
    const page = await open(t, `${origin}/app#/connect`)
    await page.getByLabel('Token').fill(await controlToken(XDG_CONFIG_HOME))
    await choose(page, 'Open')
    await page.getByRole('region', { name: 'Connect' }).getByText(origin, { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Phone in the same network', pressed: true }).waitFor()
    assert.equal(await page.locator('.code').count(), 0)
    await choose(page, 'Show a code')
    const image = page.getByRole('img', { name: `QR code of ${origin}/app#/connect?code=` })
    await image.waitFor()
  })

  test('has a token that is accepted and a link to Swagger UI; the bar leads to the other profile', async (t) => {
    const base = services.a.url
    const page = await open(t, `${base}/app#/connect`)
    const other = { title: 'Profile B', urls: ['http://localhost:5000', 'https://localhost:5001'] }
    await changeInfo(page, (profiles) => [...profiles, other])
    await page.reload()
    await page.getByText('For developer, valid until').waitFor()
    await choose(page, 'Copy token')
    const authorization = `Bearer ${await clipboard(page)}`
    assert.match((await send(`${base}/secret`, 'GET', undefined, { authorization })).text, /Hello developer/)
    assert.equal(await page.getByRole('link', { name: 'Profile B' }).getAttribute('href'), 'http://127.0.0.1:5000/app')
    assert.equal(
      await page.getByRole('link', { name: 'Swagger UI' }).getAttribute('href'),
      `${base}/swagger/index.html`,
    )
  })
})

suite('the view Contract', { concurrency: 3 }, () => {
  const { openView } = appPages(sharedBrowser())
  const evidence = (page: Page, rule: string) => page.locator(`#rule-${rule} .evidence`)
  const shownRules = (page: Page) => page.locator('.contract li:visible h3').allTextContents()

  test('says live which rules the requests of clients have met and broken', async (t) => {
    const base = newSpace('a')
    const items = `${base}/api/todoitems`
    const page = await openView(t, base, 'contract')
    await page.getByText('0 of 15 rules met, 0 broken, by 0 requests').waitFor()
    for (const title of ['General', 'To-do items', 'Samples'])
      await page.getByRole('heading', { name: title }).waitFor()
    assert.equal(await evidence(page, 'A1').textContent(), 'not seen')
    assert.equal(await evidence(page, 'A6').textContent(), 'met by the service')
    await send(items)
    await evidence(page, 'A1').getByText('met once').waitFor()
    await send(items)
    await evidence(page, 'A1').getByText('met 2 times').waitFor()
    await page.getByText('2 of 15 rules met, 0 broken, by 2 requests').waitFor()
    // Neither the requests of the page nor those with a simulated response say anything about a client.
    await send(items, 'POST', { name: 'x', isComplete: true }, { 'x-todo-client': 'page' })
    await send(items, 'GET', undefined, { prefer: 'code=503' })
    await send(items, 'POST', {})
    await evidence(page, 'A6').getByText('broken once').waitFor()
    await send(items, 'POST', { name: 5 })
    await evidence(page, 'A6').getByText('broken 2 times').waitFor()
    await page.getByText('2 of 15 rules met, 2 broken, by 4 requests').waitFor()
    assert.equal(await evidence(page, 'A3').textContent(), 'not seen')
    const broken = page.getByRole('region', { name: 'Broken' }).getByRole('heading', { level: 3 })
    assert.deepEqual(await broken.allTextContents(), ['A5', 'A6'])
    const { id } = JSON.parse((await send(`${base}/__admin/requests?limit=1`)).text)[0]
    const link = evidence(page, 'A6').getByRole('link')
    assert.equal(await link.getAttribute('href'), `#/traffic?open=${id}`)
    await assertAccessible(page, 'Contract, with a broken rule')
    await link.click()
    await page.locator('.details').getByText('isComplete is missing.', { exact: true }).first().waitFor()
    await page.goBack()
    await send(`${base}/__admin/requests`, 'DELETE')
    await page.getByText('0 of 15 rules met, 0 broken, by 0 requests').waitFor()
    assert.equal(await evidence(page, 'A6').textContent(), 'met by the service')
  })

  test('filters by text, basis and state, in its address too', async (t) => {
    const base = newSpace('b')
    await send(`${base}/api/todoitems`, 'POST', {})
    const page = await openView(t, base, 'contract')
    await page.getByLabel('Filter rules').fill('b1')
    assert.deepEqual(await shownRules(page), ['B1', 'B10', 'B11', 'B12'])
    await choose(page, 'Our choices')
    assert.deepEqual(await shownRules(page), ['B10', 'B11'])
    assert.equal(page.url(), `${base}/app#/contract?q=b1&basis=choice`)
    await page.reload()
    await page.getByRole('button', { name: 'Our choices', pressed: true }).waitFor()
    assert.deepEqual(await shownRules(page), ['B10', 'B11'])
    await page.getByLabel('Filter rules').fill('nothing says this')
    await page.getByText('No rule matches these filters.').waitFor()
    await page.getByLabel('Filter rules').fill('')
    await page.getByRole('group', { name: 'Basis' }).getByText('All').click()
    await choose(page, 'Broken')
    assert.deepEqual(await shownRules(page), ['B4'])
    await page.getByLabel('Filter rules').fill('trailing SLASH accepted')
    await choose(page, 'Not seen')
    assert.deepEqual(await shownRules(page), ['G2'])
    await page.goto(`${base}/app#/contract?rule=B4`)
    await page.locator('#rule-B4.is-current:focus').waitFor()
  })
})
