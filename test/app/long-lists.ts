import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appPages, appServices, send, show } from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'

const { newSpace } = appServices('long')
const { openView } = appPages(sharedBrowser())

test('/app shows 1,000 items and 1,000 requests, and nothing moves as more come', async (t) => {
  const base = newSpace('a')
  const items = Array.from({ length: 1000 }, (_, id) => ({
    id: id + 1,
    name: `Item ${id}`,
    isComplete: id % 3 === 0,
  }))
  await send(`${base}/__admin/items`, 'PUT', items)
  for (let index = 0; index < 40; index++)
    await Promise.all(Array.from({ length: 25 }, () => send(`${base}/api/todoitems/1`)))
  const page = await openView(t, base, 'items')
  await page.getByText('1000 items, 334 done').waitFor()
  await show(page, 'Traffic')
  await page.getByText('1000 requests').waitFor()
  await page.evaluate(`globalThis.shift = 0
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) globalThis.shift += entry.value })
      .observe({ type: 'layout-shift' })`)
  // Not at the end of the list, which follows new requests.
  await page.locator('.scroller').evaluate('(element) => { element.scrollTop = 3000 }')
  const top = () =>
    page.locator('.rows').evaluate(`(list) =>
    [...list.children].find((row) => row.getBoundingClientRect().top >= 300).firstElementChild.dataset.id`)
  await page.locator('.rows li[aria-posinset="90"]').waitFor({ state: 'attached' })
  const before = await top()
  const position = `Number(document.querySelector('[data-id="${before}"]').parentElement.ariaPosInSet)`
  const last = Number(await page.evaluate(position)) - 30
  await Promise.all(Array.from({ length: 30 }, (_, index) => send(`${base}/api/todoitems/${index + 1}`)))
  await page.locator(`.rows li[aria-posinset="${last}"] [data-id="${before}"]`).waitFor()
  assert.equal(await top(), before)
  assert.equal(await page.evaluate('shift'), 0)
  assert.ok((await page.locator('.rows li').count()) < 60)
})
