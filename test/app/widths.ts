import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  appPages,
  appServices,
  createItem,
  type fontWidths,
  live,
  rows,
  send,
  unreachable,
} from '../support/app-page.ts'
import { sharedBrowser } from '../support/browser.ts'

const { newSpace } = appServices('widths')
const { openView } = appPages(sharedBrowser())

/** Every view with something in it, in windows of these widths. */
export function testWidths(widths: readonly number[], fonts: readonly (keyof typeof fontWidths)[]): void {
  test(`/app from ${widths[0]} to ${widths.at(-1)} pixels: nothing is beyond the window, and all of it can be reached`, async (t) => {
    const base = newSpace('b')
    await send(`${base}/__admin/faults`, 'PUT', [
      { method: 'PUT', path: '/api/todoitems', times: 3, code: 400 },
      { share: 0.001, connection: 'truncate', delay: 10, maxDelay: 20, times: 4 },
    ])
    await createItem(base, 'b', `${'a-long-id-'.repeat(6)}`)
    await createItem(base, 'b', 'milk')
    await send(`${base}/api/todoitems?${'x'.repeat(200)}`, 'POST', { id: 'x', name: 7 })
    await send(`${base}/api/todoitems`, 'PUT', {})
    const page = await openView(t, base, 'traffic')
    await rows(page).nth(3).waitFor()
    const id = await rows(page).nth(2).getByRole('button').getAttribute('data-id')
    const views: [view: string, isReady: string][] = [
      ['items', 'a-long-id'],
      ['traffic', 'x'.repeat(200)],
      [`traffic?open=${id}`, 'What was wrong'],
      ['faults', 'after half'],
      ['faults?kind=delay&kind2=slow&how=share', 'Add both'],
      ['contract', 'Not seen'],
      ['connect', 'List the items'],
      ['connect?client=phone', 'phone'],
      ['class', 'Hand out addresses'],
    ]
    const found: string[] = []
    for (const [view, text] of views) {
      // Only the page without a space shows all of them.
      await page.goto(`${view === 'class' ? new URL(base).origin : base}/app#/${view}`)
      await live(page)
      await page.locator('main section:not([hidden])').getByText(text).filter({ visible: true }).first().waitFor()
      found.push(...(await unreachable(page, widths, fonts)).map((one) => `${view}, ${one}`))
    }
    assert.deepEqual(found.slice(0, 10), [], `${found.length} failures`)
  })
}
