import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import chromium from '@sparticuz/chromium'
import { type Browser, type Page, chromium as playwright } from 'playwright-core'

export type { Page }

import { removeAtExit } from './child-process.ts'

const installed = [
  process.env.CHROME_PATH,
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
  'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe',
  '/usr/bin/chromium',
  '/usr/bin/google-chrome',
]

/** Starts Chromium: on Linux x64 the one of the npm package, unpacked into a temporary directory; elsewhere an installed one. */
export async function launch(args: readonly string[]): Promise<{ browser: Browser; close(): Promise<void> }> {
  const directory = mkdtempSync(join(tmpdir(), 'todo-service-'))
  removeAtExit(directory)
  const { TMPDIR } = process.env
  process.env.TMPDIR = directory
  const isPackaged = process.platform === 'linux' && process.arch === 'x64' && !process.env.CHROME_PATH
  const executablePath = isPackaged
    ? await chromium.executablePath()
    : installed.find((path) => path && existsSync(path))
  if (!executablePath)
    throw new Error('The documentation page is tested in a browser: install Chrome, or set CHROME_PATH.')
  const browser = await playwright.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', ...args],
    timeout: 120_000,
  })
  if (TMPDIR === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = TMPDIR
  return {
    browser,
    async close() {
      await browser.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** One browser for all tests of a suite; to be called in the body of the suite, and to be read in its tests. */
export function sharedBrowser(): { readonly browser: Browser } {
  const shared = {} as Awaited<ReturnType<typeof launch>>
  before(async () => void Object.assign(shared, await launch(['--host-resolver-rules=MAP elsewhere.test 127.0.0.1'])))
  after(() => shared.close())
  return shared
}
