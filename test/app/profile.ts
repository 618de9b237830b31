import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, test } from 'node:test'
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
  type Look,
  namesOf,
  type Profile,
  putFault,
  row,
  send,
  show,
  toast,
} from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'
import { serve } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

const { newSpace } = appServices('profile')
const { openView } = appPages(sharedBrowser())

/** The view Items with the items of a profile. */
export function testItems(profile: Profile): void {
  suite(`/app: items of profile ${profile}`, { concurrency: 3 }, () => {
    test(`profile ${profile}: Reset of a file asks, Cancel keeps everything, Undo restores every item`, async (t) => {
      const file = join(temporaryFolder(t), 'todo.db')
      const { url } = await serve(t, ['--data', file], {}, profile)
      const items = Array.from({ length: 258 }, (_, index) =>
        profile === 'a'
          ? { id: 2 * index + 5, name: `Item ${index}`, isComplete: index % 2 === 0 }
          : { id: `id ${index}`, name: `Item ${index}`, notes: 'some', done: index % 2 === 0 },
      )
      await send(`${url}/__admin/items`, 'PUT', items)
      await putFault(url, { method: 'DELETE', code: 400 })
      const before = await itemsOf(url)
      const page = await openView(t, url, 'items')
      await page.getByText('258 items').waitFor()
      await button(page, 'Reset').click()
      await dialog(page).getByText(`258 items in the file ${file} are deleted.`).waitFor()
      await dialog(page).getByText('the faults are removed and the traffic is emptied').waitFor()
      assert.equal(await page.evaluate('document.activeElement.textContent'), 'Cancel')
      await assertAccessible(page, 'the question')
      await page.keyboard.press('Enter')
      await dialog(page).waitFor({ state: 'hidden' })
      await button(page, 'Reset').click()
      await dialog(page).waitFor()
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'hidden' })
      assert.equal(await itemsOf(url), before)

      await button(page, 'Reset').click()
      await button(page, 'Delete 258 items').click()
      await toast(page).getByText('258 items deleted').waitFor()
      assert.equal(JSON.parse(await itemsOf(url)).length, profile === 'a' ? 0 : 3)
      await page.getByRole('button', { name: /^Undo/ }).click()
      await page.getByText('258 items brought back').waitFor()
      assert.equal(await itemsOf(url), before)
      await page.getByText('258 items, 129 done').waitFor()
      await page.getByRole('button', { name: /^Undo reset/ }).waitFor({ state: 'hidden' })
    })

    test(`profile ${profile}: in memory, Reset of the items of the start asks nothing`, async (t) => {
      const base = newSpace(profile)
      const before = await itemsOf(base)
      const page = await openView(t, base, 'items')
      await button(page, 'Reset').click()
      await toast(page).getByText('as at the start').waitFor()
      assert.equal(await dialog(page).count(), 0)
      assert.equal(await itemsOf(base), before)
      // An empty journal does not mean that there is nothing to lose.
      await createItem(base, profile, 'mine')
      await send(`${base}/__admin/requests`, 'DELETE')
      await item(page, 'mine').waitFor()
      await button(page, 'Reset').click()
      await button(page, `Delete ${profile === 'a' ? '1 item' : '4 items'}`).waitFor()
    })

    test(`profile ${profile}: a deleted item is gone at once, and Undo restores it in its place`, async (t) => {
      const base = newSpace(profile)
      await send(`${base}/__admin/items`, 'PUT', [])
      for (const name of ['one', 'two', 'three']) await createItem(base, profile, name)
      const before = await itemsOf(base)
      const page = await openView(t, base, 'items')
      await putFault(base, { method: 'DELETE', delay: 2000 })
      await button(page, 'Delete two').click()
      await item(page, 'two').waitFor({ state: 'hidden' })
      assert.equal(await itemsOf(base), before)
      // It stays while the mouse is over it.
      await toast(page).getByText('“two” deleted').hover()
      await createItem(base, profile, 'four')
      await page.getByRole('button', { name: /^Undo/ }).click()
      await page.getByText('“two” brought back').waitFor()
      assert.deepEqual(await namesOf(base), ['one', 'two', 'three', 'four'])
      assert.deepEqual(JSON.parse(await itemsOf(base)).slice(0, 3), JSON.parse(before))
      // The item is deleted, though nobody said so.
      await putFault(base, { method: 'DELETE', connection: 'lost' })
      await button(page, 'Delete three').click()
      await page.getByRole('alert').getByText('Simulated by').waitFor()
      await button(page, 'Undo delete: bring back “three”').click()
      await page.getByText('“three” brought back').waitFor()
      assert.deepEqual(await namesOf(base), ['one', 'two', 'three', 'four'])
      // It is not deleted.
      await putFault(base, { method: 'DELETE', code: 400 })
      await button(page, 'Delete three').click()
      await page.getByRole('alert').getByText('Simulated by DELETE requests').waitFor()
      await item(page, 'three').waitFor()
      assert.equal(await page.getByRole('button', { name: /^Undo/ }).count(), 0)
    })

    test(`profile ${profile}: without items it offers samples, and a command that works`, async (t) => {
      const base = newSpace(profile)
      await send(`${base}/__admin/items`, 'PUT', [])
      const page = await openView(t, base, 'items')
      await button(page, 'Copy').click()
      const [, url = '', , body = ''] = /'(.*?)' -H '(.*?)' --data-raw '(.*)'/.exec(await clipboard(page)) ?? []
      assert.ok((await send(url, 'POST', body)).status < 300)
      await item(page, 'Buy milk').waitFor()
      await button(page, 'Delete Buy milk').click()
      await button(page, 'Add three samples').click()
      await page.getByText('3 items, 0 done').waitFor()
      assert.equal((await namesOf(base)).length, 3)
    })
  })
}

/** Every view, in a window of this width. */
export function testLook(profile: Profile, look: Look): void {
  test(`profile ${profile}, ${look.colorScheme}, ${look.width} pixels: every view is usable and accessible`, async (t) => {
    const base = newSpace(profile)
    await send(`${base}/__admin/items`, 'PUT', [])
    const page = await openView(t, base, 'items', look)
    await page.getByText('No items yet').waitFor()
    await assertAccessible(page, 'Items, empty')

    await page.getByLabel('New item').fill('water <b>plants</b>')
    if (profile === 'b') {
      await page.getByRole('button', { name: 'Add', exact: true }).click()
      await page.getByRole('alert').getByText('TodoItemNameAndNotesRequired').waitFor()
      await page.getByRole('textbox', { name: 'Id' }).fill('first')
      await page.getByRole('textbox', { name: 'Notes' }).fill('daily')
    }
    await page.getByLabel('New item').press('Enter')
    const item = page.locator('.items li:not([aria-busy=true], [hidden])')
    await item.waitFor()
    const id = profile === 'a' ? '1' : 'first'
    assert.equal(await item.locator('.id').textContent(), `id ${id}`)
    await page.getByRole('button', { name: /^Edit water/ }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('water the plants')
    if (profile === 'b') await item.getByRole('textbox', { name: 'Notes' }).fill('every day')
    await page.locator('.items').getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: /^Edit water the plants/ }).waitFor()
    await page.getByRole('checkbox', { name: 'Done: water the plants' }).click()
    await page.locator('.items li.done').waitFor()
    assert.deepEqual(
      JSON.parse(await itemsOf(base)),
      profile === 'a'
        ? [{ id: 1, name: 'water the plants', isComplete: true }]
        : [{ id: 'first', name: 'water the plants', notes: 'every day', done: true }],
    )
    await page.locator('.exchange summary').click()
    await page.getByRole('button', { name: 'Copy as curl' }).click()
    assert.match(await clipboard(page), /^curl -i -X PUT 'http:.*\/~profile-\d+\/api\/todoitems.*water the plants/)
    await assertAccessible(page, 'Items')

    await show(page, 'Faults')
    const { operations } = JSON.parse((await send(`${base}/__admin/info`)).text)
    const { statuses } = operations.find(({ operation }: { operation: string }) => operation === 'deleteItem')
    await page.getByLabel('Number of requests').fill('1')
    await page.getByLabel('Which requests').selectOption('DELETE /api/todoitems/{id}')
    await page.getByLabel('With', { exact: true }).selectOption(`${statuses[0]}`)
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    await page.locator('.faults').getByText(`DELETE /api/todoitems/{id}: ${statuses[0]}, once`).waitFor()
    await page.getByRole('link', { name: '1 fault' }).waitFor()
    await assertAccessible(page, 'Faults')

    await show(page, 'Items')
    await page.getByRole('button', { name: 'Delete water the plants' }).click()
    await page.getByRole('alert').getByText('Simulated by').waitFor()
    await page.getByRole('link', { name: '1 fault' }).waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Delete water the plants' }).click()
    await page.getByText('No items yet').waitFor()

    await show(page, 'Traffic')
    await page.getByLabel('Show own requests').click()
    await row(page, /DELETE.*204/).waitFor()
    await assertAccessible(page, 'Traffic')
    await row(page, new RegExp(`DELETE.*simulated.*${statuses[0]}`)).click()
    await page.getByRole('heading', { name: `DELETE /api/todoitems/${id}` }).waitFor()
    await page.locator('.details').getByText('Simulated', { exact: true }).waitFor()
    await assertAccessible(page, 'Traffic, details')
    await page.keyboard.press('Escape')
    await page.locator('.details').waitFor({ state: 'hidden' })

    await show(page, 'Connect')
    await page.getByRole('heading', { name: 'Base address' }).waitFor()
    await assertAccessible(page, 'Connect')
    await page.getByRole('link', { name: 'The contract' }).click()
    await page.locator(profile === 'a' ? '#rule-A10' : '#rule-B6').waitFor()
    await assertAccessible(page, 'Contract')
  })
}
