import assert from 'node:assert/strict'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { removeAtExit } from '../support/child-process.ts'
import { jsonLines, run, type Service, sharedService, start } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { item } from '../support/instance.ts'
import { freePort, usedPort } from '../support/port.ts'
import { production, send, startWorkers, workersIn } from '../support/workers.ts'

const createItem = ({ url }: Service, name: string) =>
  send(url, '/api/todoitems', { method: 'POST', body: JSON.stringify(item(name)) })

const rounds = 20

const itemsIn = async ({ url }: Service): Promise<unknown[]> => JSON.parse((await send(url, '/api/todoitems')).text)

/** Both workers list an item as soon as it is created. */
async function assertConsistentLists(service: Service): Promise<void> {
  const { length } = await itemsIn(service)
  for (let round = 1; round <= rounds; round++) {
    assert.equal((await createItem(service, `${round}`)).status, 201)
    for (const items of await Promise.all([1, 2].map(() => itemsIn(service))))
      assert.equal(items.length, length + round)
  }
}

suite('serve --workers', { concurrency: 2 }, () => {
  test('both workers serve; the start message and the log say so', async (t) => {
    const service = await startWorkers(t)
    while (workersIn(service).size < 2) assert.equal((await send(service.url, '/health/ready')).status, 200)
    const [started] = jsonLines(service.running.stdout.split('\n')[0] as string)
    assert.deepEqual([started.message, started.workers], ['started', 2])
    assert.deepEqual(workersIn(service), new Set([1, 2]))
    service.running.process.kill('SIGTERM')
    const { code, stdout, stderr } = await service.running.ended
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(jsonLines(stdout).at(-1).message, 'stopped')
  })

  test('a list on one worker has what another has written, on PostgreSQL', async (t) => {
    await assertConsistentLists(await startWorkers(t, '--database-url', (await newDatabase()).url))
  })

  suite('on a data file', { concurrency: 1 }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
    removeAtExit(folder)
    const service = sharedService([...production, '--data', join(folder, 'todo.db'), '--metrics-port', '0'])

    test('a list on one worker has what another has written', () => assertConsistentLists(service))

    test('concurrent writes all succeed, with ids of their own', async () => {
      const responses = await Promise.all(Array.from({ length: 200 }, () => createItem(service, 'x')))
      assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([201]))
      assert.equal(new Set(responses.map(({ text }) => JSON.parse(text).id)).size, 200)
    })

    test('another one on its port exits with code 1 and one message', async (t) => {
      const data = ['--data', join(temporaryFolder(t), 'todo.db')]
      const flags = ['--profile', 'a', '--host', '127.0.0.1', '--port', `${service.port}`, ...production, ...data]
      const { code, stderr } = await run(t, ['serve', ...flags])
      assert.equal(code, 1)
      assert.match(stderr, /^todo-service: Port \d+ is in use by [^\n]* --port \d+\n$/)
    })

    test('metrics are those of all workers; the items are counted once', async () => {
      const [, url] = await service.running.prints(/"metrics":"([^"]+)"/)
      const readMetrics = async () => {
        const text = await (await fetch(`${url}`)).text()
        const numberIn = (line: RegExp) => Number(line.exec(text)?.[1] ?? 0)
        return {
          created: numberIn(/^todo_requests_total\{.*operation="createItem".*\} (\d+)$/m),
          items: numberIn(/^todo_items\{profile="a"\} (\d+)$/m),
        }
      }
      const before = await readMetrics()
      const count = 50
      for (let created = 0; created < count; created++) await createItem(service, 'x')
      assert.deepEqual(workersIn(service), new Set([1, 2]))
      const after = await readMetrics()
      assert.deepEqual(after, { created: before.created + count, items: before.items + count })
      assert.equal(after.items, (await itemsIn(service)).length)
    })
  })

  test('SIGTERM ends it while the first worker waits for the database', async (t) => {
    const url = `postgres://u@127.0.0.1:${await freePort()}/x`
    const flags = [
      'serve',
      '--profile',
      'a',
      '--port',
      '0',
      '--wait-for-database',
      '--database-url',
      url,
      ...production,
    ]
    const running = start(t, flags)
    await running.prints(/Waiting for the database/)
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })

  test('in development, both workers serve the profile whose port is free', async (t) => {
    const used = await usedPort(t)
    const data = join(temporaryFolder(t), 'todo.db')
    const ports = ['--port-a', '0', '--port-b', `${used}`, '--host', '127.0.0.1']
    const running = start(t, ['serve', '--workers', '2', '--no-admin', '--data', data, ...ports])
    await running.prints(/Ctrl\+C/)
    const [, url = ''] = /Profile A {2}(http:\S+)\n/.exec(running.stdout) ?? []
    assert.match(running.stdout, /2 workers/)
    assert.match(
      running.stdout,
      new RegExp(
        `Profile B {2}is not served: port ${used} is in use by .*\n.*/cli\\.js serve --workers 2 .* --port-b \\d+\n`,
      ),
    )
    for (const count of [1, 2, 3]) assert.equal((await send(url, '/api/todoitems')).status, 200, `${count}`)
  })

  test('with any free ports, each profile has one of its own', async (t) => {
    const ports = [
      '--port-a',
      '0',
      '--port-b',
      '0',
      '--host',
      '127.0.0.1',
      '--data',
      join(temporaryFolder(t), 'todo.db'),
    ]
    const running = start(t, ['serve', ...production, ...ports])
    const [, a = '', b = ''] = await running.prints(/(http:\/\/127\.0\.0\.1:\d+).*(http:\/\/127\.0\.0\.1:\d+)/)
    const lists = await Promise.all([a, b].map((url) => send(url, '/api/todoitems')))
    assert.deepEqual(
      lists.map(({ text }) => JSON.parse(text).length),
      [0, 3],
    )
  })

  test('is rejected with items in memory, and with the control API', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--workers', 'auto'])
    assert.equal(code, 2)
    assert.match(stderr, /--workers needs --data or --database-url: processes cannot share items in memory\./)
    assert.match(stderr, /--workers needs --mode production or --no-admin: the control API works on a single process\./)
  })
})
