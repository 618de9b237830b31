import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import type { Page } from 'playwright-core'
import {
  appPages,
  appServices,
  assertAccessible,
  button,
  clipboard,
  createItem,
  dialog,
  item,
  itemsOf,
  live,
  namesOf,
  putFault,
  send,
  show,
  toast,
} from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'
import { serve } from '../support/cli.ts'

const { services, newSpace } = appServices('items')
const { open, openView } = appPages(sharedBrowser())
/** Holds the requests of the page until they are released. */
async function hold(page: Page): Promise<{ release(): void }> {
  const held = {} as { release(): void }
  const released = new Promise<void>((resolve) => {
    held.release = resolve
  })
  await page.route('**/api/todoitems**', async (route) => {
    await released
    await route.continue()
  })
  return held
}
const fileOf = (text: string) => ({ name: 'mine.json', mimeType: 'application/json', buffer: Buffer.from(text) })

suite('/app: items', { concurrency: 3 }, () => {
  test('Undo stays when its message is gone, and asks where items have changed since', async (t) => {
    const base = newSpace('a')
    await createItem(base, 'a', 'first')
    const page = await openView(t, base, 'items')
    await button(page, 'Reset').click()
    await button(page, 'Delete 1 item').click()
    await page.locator('.toast').evaluate('(toast) => toast.remove()')
    const undo = button(page, 'Undo reset: bring back 1 item')
    await undo.waitFor()
    await createItem(base, 'a', 'since')
    await item(page, 'since').waitFor()
    await undo.click()
    await dialog(page).getByText('1 item in memory is deleted. 1 item of before come').waitFor()
    await button(page, 'Cancel').click()
    assert.deepEqual(await namesOf(base), ['since'])
    await undo.click()
    await button(page, 'Replace 1 item').click()
    await item(page, 'first').waitFor()
    assert.deepEqual(await namesOf(base), ['first'])
    // What went by that comes back, too.
    await button(page, 'Undo undo: bring back 1 item').click()
    await item(page, 'since').waitFor()
    assert.deepEqual(await namesOf(base), ['since'])
  })

  test('saves the items, and asks before it loads others in their place', async (t) => {
    const base = newSpace('a')
    await createItem(base, 'a', 'keep me')
    const before = await itemsOf(base)
    const page = await openView(t, base, 'items')
    const download = page.waitForEvent('download')
    await button(page, 'Save').click()
    const saved = await (await download).path()
    assert.equal(readFileSync(saved, 'utf8'), before)
    const input = page.locator('.tools').getByLabel('JSON file with items')
    const loaded = '[{"id":9007199254740993,"name":"other","isComplete":true}]'
    await input.setInputFiles(fileOf(loaded))
    await dialog(page).getByText('1 item in memory is deleted. The items of mine.json take their place.').waitFor()
    await button(page, 'Cancel').click()
    assert.equal(await itemsOf(base), before)
    await input.setInputFiles(fileOf(loaded))
    // What happens while somebody reads the question counts.
    await dialog(page).waitFor()
    await createItem(base, 'a', 'meanwhile')
    await button(page, 'Replace 1 item').click()
    await button(page, 'Replace 2 items').click()
    await toast(page).getByText('The items are those of mine.json.').waitFor()
    assert.equal(await itemsOf(base), loaded)
    await button(page, 'Undo load: bring back 2 items').click()
    await item(page, 'keep me').waitFor()
    assert.deepEqual(await namesOf(base), ['keep me', 'meanwhile'])
    await input.setInputFiles(fileOf('[{"id":1}]'))
    await button(page, 'Replace 2 items').click()
    await page.getByText('isComplete is missing').waitFor()
    assert.deepEqual(await namesOf(base), ['keep me', 'meanwhile'])
  })

  test('a write that is under way is shown, and the last exchange opens', async (t) => {
    const base = newSpace('a')
    const page = await openView(t, base, 'items')
    const created = await hold(page)
    await page.getByLabel('New item').fill('slow')
    await page.getByLabel('New item').press('Enter')
    await page.locator('.items li.pending', { hasText: 'slow' }).waitFor()
    assert.ok(await button(page, 'Add').isDisabled())
    created.release()
    await page.getByRole('checkbox', { name: 'Done: slow' }).waitFor()
    assert.equal(await page.locator('.items li:not([hidden])').count(), 1)
    assert.equal(await page.locator('.items .id').textContent(), 'id 1')
    const changed = await hold(page)
    await page.getByRole('checkbox', { name: 'Done: slow' }).click()
    await page.locator('.items li.pending').waitFor()
    changed.release()
    await page.locator('.items li.done:not(.pending)').waitFor()
    await page.locator('.exchange summary', { hasText: 'PUT/api/todoitems/1204 No Content' }).click()
    await page.locator('.exchange pre', { hasText: '"isComplete": true' }).waitFor()
    await button(page, 'Copy as curl').click()
    assert.match(await clipboard(page), /^curl -i -X PUT 'http:.*\/~items-\d+\/api\/todoitems\/1'/)
    const [entry] = JSON.parse((await send(`${base}/__admin/requests`)).text)
    assert.equal(entry.request.headers['x-todo-client'], 'page')
    await page.getByLabel('New item').fill('x'.repeat(2_000_000))
    await page.getByLabel('New item').press('Enter')
    await page.getByRole('alert').getByText(/large/).waitFor()
    assert.equal((await page.getByLabel('New item').inputValue()).length, 2_000_000)
  })

  test('a simulated failure is not taken for one of the service', async (t) => {
    const base = newSpace('b')
    const page = await openView(t, base, 'items')
    await putFault(base, { method: 'PUT', times: 1, code: 400 })
    await page.getByRole('checkbox', { name: 'Done: Develop apps' }).click()
    await page.getByRole('alert').getByText('Simulated by PUT requests: 400, once').waitFor()
    await page.locator('.exchange .badge.simulated', { hasText: '400 Bad Request' }).waitFor()
    await page.locator('.items li:not(.done)', { hasText: 'Develop apps' }).waitFor()
    await page.getByLabel('New item').fill('no notes')
    await button(page, 'Add').click()
    await page.getByRole('alert').getByText('TodoItemNameAndNotesRequired').waitFor()
    assert.equal(await page.locator('.last').getByText('Simulated').count(), 0)
  })

  test('Escape ends an edit; leaving it saves what was changed, and nothing else', async (t) => {
    const base = newSpace('b')
    const page = await openView(t, base, 'items')
    const writes = async () => JSON.parse((await send(`${base}/__admin/requests`)).text).length
    const edit = async (name: string) => {
      await button(page, name).click()
      return page.getByRole('textbox', { name: 'Name' })
    }
    const field = await edit('Edit Develop apps Use your favourite editor')
    await field.fill('thrown away')
    await field.press('Escape')
    await button(page, 'Edit Develop apps Use your favourite editor').waitFor()
    await edit('Edit Develop apps Use your favourite editor')
    await page.getByLabel('New item').click()
    await field.waitFor({ state: 'hidden' })
    assert.equal(await writes(), 0)
    await (await edit('Edit Develop apps Use your favourite editor')).fill('kept')
    await page.locator('.items').getByRole('textbox', { name: 'Notes' }).fill('these, too')
    await page.getByLabel('New item').click()
    await button(page, 'Edit kept these, too').waitFor()
    assert.equal(await writes(), 1)
    // What cannot be saved stays, and what somebody else deletes.
    await putFault(base, { method: 'PUT', code: 400 })
    await (await edit('Edit kept these, too')).fill('typed')
    await page.getByLabel('New item').click()
    await page.getByRole('alert').getByText('Simulated').waitFor()
    await send(`${base}/__admin/items`, 'PUT', [])
    await item(page, 'Publish apps').waitFor({ state: 'hidden' })
    assert.equal(await field.inputValue(), 'typed')
    await field.press('Escape')
    await page.getByText('No items yet').waitFor()
  })

  test('the bar names the space, opens another and leaves it; it links to the other profile', async (t) => {
    const base = services.a.url
    const page = await open(t, `${base}/app#/traffic`)
    await page.route('**/__admin/info', async (route) => {
      const response = await route.fetch()
      const info = await response.json()
      info.profiles.push({ title: 'Profile B', urls: ['http://localhost:5000', 'https://localhost:5001'] })
      await route.fulfill({ response, json: info })
    })
    await page.reload()
    await live(page)
    const link = page.getByRole('banner').getByRole('link', { name: 'Profile B' })
    assert.equal(await link.getAttribute('href'), 'http://127.0.0.1:5000/app')
    await button(page, 'Default space').click()
    await assertAccessible(page, 'Space')
    await dialog(page).getByLabel('Another one').fill('of course not')
    await button(page, 'Open').click()
    await dialog(page).getByLabel('Another one').fill('mine')
    await button(page, 'Open').click()
    await page.waitForURL(`${base}/~mine/app#/traffic`)
    await live(page)
    await createItem(`${base}/~mine`, 'a', 'in the space')
    await show(page, 'Items')
    await item(page, 'in the space').waitFor()
    await button(page, 'Space mine').click()
    await dialog(page).getByRole('link', { name: 'Default space' }).click()
    await page.waitForURL(`${base}/app#/items`)
    await button(page, 'Default space').click()
    await dialog(page).getByRole('link', { name: 'mine', exact: true }).click()
    await item(page, 'in the space').waitFor()
  })

  test('there is no choice of spaces with --spaces none', async (t) => {
    const { url } = await serve(t, ['--spaces', 'none'])
    const page = await openView(t, url, 'items')
    assert.equal(await button(page, 'Default space').count(), 0)
  })

  test('on another host a code is as good as a token, typed or in the address', async (t) => {
    const { url } = await serve(t, [])
    const elsewhere = url.replace('127.0.0.1', 'elsewhere.test')
    const newCode = async () => JSON.parse((await send(`${url}/__admin/codes`, 'POST')).text).code
    const page = await open(t, `${elsewhere}/app`)
    const field = page.getByLabel('Code or token')
    await field.fill('22222-22222')
    await button(page, 'Open').click()
    await page.getByText('The code is wrong, or was used').waitFor()
    await assertAccessible(page, 'Code or token')
    await field.fill(` ${(await newCode()).toLowerCase()} `)
    await button(page, 'Open').click()
    await live(page)

    const code = await newCode()
    const other = await open(t, `${elsewhere}/app#/traffic?status=4xx&code=${code}`)
    await live(other)
    assert.equal(other.url(), `${elsewhere}/app#/traffic?status=4xx`)
    await other.reload()
    await live(other)

    const late = await open(t, `${elsewhere}/app#/connect?code=${code}`)
    await late.getByText('The code is wrong, or was used').waitFor()
    assert.equal(late.url(), `${elsewhere}/app#/connect`)
    await late.evaluate(`location.hash = '#/items?code=${await newCode()}'`)
    await live(late)
    assert.equal(late.url(), `${elsewhere}/app#/items`)
  })
})
