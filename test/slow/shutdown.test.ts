import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type Service, serve } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { Instance, Writers } from '../support/instance.ts'
import { keepAliveClient } from '../support/keep-alive-client.ts'
import { runtimes } from '../support/runtimes.ts'

/** Requests from 20 clients, SIGTERM after the thousandth response, and more on new connections; returns what failed. */
async function sendUnderLoad(t: TestContext, { running }: Service, scheme: string, reconnects: number) {
  const [url] = await running.prints(new RegExp(`${scheme}://127\\.0\\.0\\.1:\\d+`))
  const failures: unknown[] = []
  let responses = 0
  const send = async () => {
    const get = keepAliveClient(t, url)
    for (let closed = 0; closed <= reconnects; ) {
      const result = await get('/api/todoitems').catch((error: Error) => error)
      if (result instanceof Error || result.status !== 200) failures.push(result)
      if (++responses === 1_000) running.process.kill('SIGTERM')
      if (result instanceof Error || result.closesConnection) closed++
    }
  }
  await Promise.all(Array.from({ length: 20 }, send))
  return failures
}

for (const runtime of runtimes) {
  const { name, env, skip, ...interpreter } = runtime

  suite(`SIGTERM under load, ${name}`, { skip }, () => {
    for (const scheme of ['http', 'https']) {
      const args = ['--log-level', 'error', ...(scheme === 'https' ? ['--https-port', '0'] : [])]

      test(`fails no request of ${scheme} clients that stop at Connection: close, without a drain delay`, async (t) => {
        const service = await serve(t, [...args, '--drain-delay', '0'], env, 'a', interpreter)
        assert.deepEqual(await sendUnderLoad(t, service, scheme, 0), [])
        assert.equal((await service.running.ended).code, 0)
      })

      // Longer than the test: a client that connects in the moment in which the listener is closed cannot be served.
      test(`fails no request of ${scheme} clients that reconnect, during the drain delay`, async (t) => {
        const service = await serve(t, [...args, '--drain-delay', '600'], env, 'a', interpreter)
        assert.deepEqual(await sendUnderLoad(t, service, scheme, 10), [])
        // Another signal ends it at once; the same one within 200 ms would be a repetition of the first.
        service.running.process.kill('SIGINT')
        assert.equal((await service.running.ended).code, 1)
      })
    }

    test('loses no acknowledged write', async (t) => {
      const { url } = await newDatabase()
      const instance = await Instance.start(t, url, 'a', [], runtime)
      const writers = new Writers([instance])
      await writers.waitFor(200)
      instance.running.process.kill('SIGTERM')
      assert.equal((await instance.running.ended).code, 0)
      await writers.stop()
      await writers.assertStored(await Instance.start(t, url))
    })
  })
}
