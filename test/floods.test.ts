import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { start } from './support/cli.ts'
import { flood, floods } from './support/flood.ts'
import { memoryOf } from './support/process.ts'

suite('a flood: memory is bounded, no 5xx, and good clients are served, during and after it', () => {
  for (const [name, kind] of Object.entries(floods))
    test(name, async (t) => {
      const running = start(t, [
        'serve',
        '--profile',
        'a',
        '--host',
        '127.0.0.1',
        '--port',
        '0',
        '--mode',
        'production',
      ])
      const url = new URL((await running.prints(/http:\/\/127\.0\.0\.1:\d+/))[0])
      const pid = running.process.pid as number
      const ask = async () => (await fetch(url, { signal: AbortSignal.timeout(5_000) })).status
      for (let at = 0; at < 50; at++) await ask()
      const idle = memoryOf(pid)
      const { statuses, stop } = flood(Number(url.port), kind, 40)
      let most = 0
      const endsAt = performance.now() + 700
      while (performance.now() < endsAt) {
        assert.equal(await ask(), 200)
        most = Math.max(most, memoryOf(pid))
        await pause(10)
      }
      stop()
      assert.equal(await ask(), 200)
      assert.ok(most - idle < 100 * 2 ** 20, `${Math.round((most - idle) / 2 ** 20)} MB more than idle`)
      assert.deepEqual(
        Object.keys(statuses).filter((status) => status.startsWith('5')),
        [],
      )
    })
})
