import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { cleanUp } from './cleanup.ts'

/** An empty directory, removed after the test. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
  cleanUp(t, () => rmSync(folder, { recursive: true }))
  return folder
}
