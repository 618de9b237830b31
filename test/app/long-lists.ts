import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appPages, appServices, send, show } from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'

const { newSpace } = appServices('long')
const { openView } = appPages(sharedBrowser())

test('/app has 5,000 items and 1,100 requests, of which only those in view are in the document; nothing moves', async (t) => {
  const base = newSpace('a')
  const items = Array.from({ length: 5000 }, (_, id) => ({
    id: id + 1,
    name: `Item ${id}`,
    isComplete: id % 3 === 0,
  }))
  await send(`${base}/__admin/items`, 'PUT', items)
  for (let index = 0; index < 44; index++)
    await Promise.all(Array.from({ length: 25 }, () => send(`${base}/api/todoitems/1`)))
  const page = await openView(t, base, 'items')
  await page.getByText('5,000 items, 1,667 done').waitFor()
  assert.ok((await page.locator('.items li').count()) < 60)
  await page.getByLabel('New item').fill('the last one')
  await page.getByLabel('New item').press('Enter')
  await page.getByRole('button', { name: 'Edit the last one' }).waitFor()
  await page.getByLabel('Search items').fill('item 499')
  await page.getByText('11 of 5,001 items').waitFor()
  assert.equal(await page.locator('.items li').count(), 11)
  await show(page, 'Traffic')
  await page.getByText('999 of 1,100 requests, older ones are not kept').waitFor()
  await page.evaluate(`globalThis.shift = 0
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) globalThis.shift += entry.value })
      .observe({ type: 'layout-shift' })`)
  // Not at the end of the list, which follows new requests.
  await page.evaluate(`document.querySelector('.scroller').scrollTop = 3000`)
  const top = () =>
    page.evaluate(`[...document.querySelectorAll('.rows button')]
      .find((button) => button.getBoundingClientRect().top >= 300).dataset.id`)
  await page.locator('.rows li[aria-posinset="90"]').waitFor({ state: 'attached' })
  const before = await top()
  const position = `Number(document.querySelector('[data-id="${before}"]').parentElement.ariaPosInSet)`
  const last = Number(await page.evaluate(position)) - 30
  await Promise.all(Array.from({ length: 30 }, (_, index) => send(`${base}/api/todoitems/${index + 1}`)))
  await page.locator(`.rows li[aria-posinset="${last}"] [data-id="${before}"]`).waitFor()
  assert.equal(await top(), before)
  // The column of paths becomes as wide as the longest new one.
  assert.ok(Number(await page.evaluate('shift')) < 0.001)
  assert.ok((await page.locator('.rows li').count()) < 60)
})
