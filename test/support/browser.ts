import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import chromium from '@sparticuz/chromium'
import { type Browser, chromium as playwright } from 'playwright-core'

const installed = [
  process.env.CHROME_PATH,
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
  'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe',
  '/usr/bin/chromium',
  '/usr/bin/google-chrome',
]

/** A Chromium: the one from npm on the Linux it is made for, elsewhere one that is there. It leaves nothing behind. */
export async function launch(args: readonly string[]): Promise<{ browser: Browser; close(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
  const before = process.env.TMPDIR
  process.env.TMPDIR = folder
  const fromNpm = process.platform === 'linux' && process.arch === 'x64' && !process.env.CHROME_PATH
  const executablePath = fromNpm ? await chromium.executablePath() : installed.find((path) => path && existsSync(path))
  if (!executablePath) throw new Error('The page is tested in a real browser: install Chrome, or set CHROME_PATH.')
  const browser = await playwright.launch({ executablePath, args: ['--no-sandbox', ...args] })
  if (before === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = before
  return {
    browser,
    async close() {
      await browser.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
