import assert from 'node:assert/strict'
import { Session } from 'node:inspector/promises'
import { suite, type TestContext, test } from 'node:test'
import { cleanUp } from '../support/cleanup.ts'
import { transports } from '../support/running.ts'

/** How V8 calls the initial values of a class's fields. */
const fieldInitializer = '<instance_members_initializer>'
const source = /\/dist\/src\/(?!verify\/)(.+)\.js$/

/** The functions of src/ that a request passes, by file, as V8 counts them. */
async function functionsOf(t: TestContext, send: () => Promise<unknown>): Promise<Map<string, string[]>> {
  const session = new Session()
  session.connect()
  cleanUp(t, () => session.disconnect())
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const runs: Map<string, string[]>[] = []
  for (let run = 0; run < 5; run++) {
    await send()
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const files = new Map<string, string[]>()
    for (const { url, functions } of result) {
      const called = functions.filter(
        ({ functionName, ranges }) => functionName !== fieldInitializer && ranges[0]?.count,
      )
      const [, file] = source.exec(url) ?? []
      if (file !== undefined && called.length > 0)
        files.set(
          file,
          called.map(({ functionName }) => functionName || 'anonymous'),
        )
    }
    runs.push(files)
  }
  // A timer may have run beside one of the requests.
  const [shortest] = runs.sort((one, other) => countOf(one) - countOf(other))
  return shortest as Map<string, string[]>
}

const countOf = (files: ReadonlyMap<string, readonly string[]>) =>
  [...files.values()].reduce((sum, { length }) => sum + length, 0)

function assertAtMost(files: ReadonlyMap<string, readonly string[]>, maxFiles: number, maxFunctions: number): void {
  const listed = [...files].map(([file, names]) => `${file}: ${names.join(', ')}`).join('\n')
  assert.ok(files.size > 3, listed)
  assert.ok(files.size <= maxFiles, `${files.size} files\n${listed}`)
  assert.ok(countOf(files) <= maxFunctions, `${countOf(files)} functions\n${listed}`)
}

suite('the way of a request', () => {
  test('a GET passes at most 10 files and 25 functions', async (t) => {
    const { send } = await transports['over a socket'](t, 'a')
    await send('POST', '/api/todoitems', { name: 'x', isComplete: false })
    const files = await functionsOf(t, () => send('GET', '/api/todoitems/1'))
    assertAtMost(files, 10, 25)
  })

  test('a POST passes at most 12 files and 42 functions', async (t) => {
    const { send } = await transports['over a socket'](t, 'a')
    const files = await functionsOf(t, () => send('POST', '/api/todoitems', { name: 'x', isComplete: false }))
    assertAtMost(files, 12, 42)
  })
})
