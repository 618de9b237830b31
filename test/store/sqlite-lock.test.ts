import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import Libsql from 'libsql'
import { collectionsOf, profiles } from '../../src/app.ts'
import { UnavailableError } from '../../src/store/store.ts'
import { cleanUp } from '../support/cleanup.ts'
import { run } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item } from '../support/instance.ts'
import { transports } from '../support/running.ts'
import { itemsIn, openFile, type PersistentStores } from '../support/stores.ts'
import { send, startWorkers, untilBothServe } from '../support/workers.ts'

const items = '/api/todoitems'
const named = (id: string) => ({ id, name: 'name', notes: 'notes', done: false })

/** Another program that holds the write lock of a data file. */
function lock(t: TestContext, file: string) {
  const db = new Libsql(file)
  db.exec('begin immediate')
  cleanUp(t, () => db.close())
  return {
    release: () => db.exec('rollback'),
    /** Writes and releases it. */
    commit: (sql: string) => db.exec(`${sql}; commit`),
  }
}

const renameAll =
  "update documents set content = json_set(content, '$.name', 'by another program') where collection = 'a'"

interface LockedStores extends PersistentStores, ReturnType<typeof lock> {
  readonly file: string
  readonly notices: readonly string[]
  /** Moves the clock of the stores, which stands still otherwise. */
  pass(ms: number): void
}

/** Stores on a new file, with one item of Profile A, whose write lock another program holds. */
function openLocked(t: TestContext, access: 'exclusive' | 'shared' = 'exclusive'): LockedStores {
  const file = join(temporaryFolder(t), 'todo.db')
  let now = 0
  const notices: string[] = []
  const open = (access: 'exclusive' | 'shared') =>
    openFile(file, collectionsOf(profiles), {
      access,
      monotonicNow: () => now,
      notice: (message) => notices.push(message),
    })
  const creator = open('exclusive')
  cleanUp(t, () => creator.close())
  creator.a.create(item('first'))
  const stores = access === 'exclusive' ? creator : open('shared')
  if (access === 'shared') cleanUp(t, () => stores.close())
  const pass = (ms: number) => {
    now += ms
  }
  return { ...stores, ...lock(t, file), file, notices, pass }
}

/** The outcome of a write, or the error. */
const settled = async (write: () => unknown): Promise<unknown> => {
  try {
    return await write()
  } catch (error) {
    return error
  }
}

function assertUnavailable(error: unknown, message: RegExp): void {
  assert.ok(error instanceof UnavailableError, `${error}`)
  assert.match(error.message, message)
}

suite('while another program holds the write lock of the data file', { concurrency: 4 }, () => {
  test('reads and health checks are answered, writes wait and succeed when it is released', async (t) => {
    const stores = openLocked(t)
    const [a, b] = [
      await transports['in process'](t, 'a', { stores }),
      await transports['in process'](t, 'b', { stores }),
    ]
    let responses = 0
    const writes = [
      ...Array.from({ length: 10 }, () => a.send('POST', items, item('new'))),
      a.send('PUT', `${items}/1`, { id: 1, ...item('changed') }),
      b.send('POST', items, named('x')),
    ].map((write) => write.finally(() => responses++))
    for (const path of [items, `${items}/1`, '/health/live', '/health/ready'])
      assert.equal((await a.send('GET', path)).status, 200, path)
    await stores.ping()
    assert.equal(responses, 0)
    stores.release()
    const statuses = (await Promise.all(writes)).map(({ status }) => status)
    assert.deepEqual(statuses, [...Array(10).fill(201), 204, 200])
  })

  test('a write keeps other requests waiting for milliseconds only', async (t) => {
    const stores = openLocked(t)
    const blockedMs: number[] = []
    for (let round = 0; round < 3; round++) {
      const startedAt = performance.now()
      const write = settled(() => stores.a.create(item('new')))
      blockedMs.push(performance.now() - startedAt)
      stores.pass(1_000)
      await write
    }
    // The least of them, on a machine that is busy with other processes.
    assert.ok(Math.min(...blockedMs) < 50, `${blockedMs}`)
  })

  test('A15 writes that have waited for a second get 503 and never take effect; later ones do', async (t) => {
    const stores = openLocked(t)
    const service = await transports['in process'](t, 'a', { stores })
    const refused = Promise.all([
      service.send('POST', items, item('refused')),
      service.send('PUT', `${items}/1`, { id: 1, ...item('refused') }),
      service.send('DELETE', `${items}/1`),
    ])
    // Without a pipe in between: it waits already.
    const last = settled(() => stores.a.create(item('refused')))
    await service.send('GET', items)
    stores.pass(1_000)
    for (const { status, headers } of await refused) assert.deepEqual([status, headers['retry-after']], [503, '1'])
    assertUnavailable(await last, /^The data file .*todo\.db is locked by another process\.$/)
    const locked = `Writes fail: The data file ${stores.file} is locked by another process.`
    assert.deepEqual(stores.notices, [locked])
    const created = service.send('POST', items, item('created'))
    stores.release()
    assert.equal((await created).status, 201)
    assert.deepEqual(stores.notices, [locked, 'Writes succeed again.'])
    assert.deepEqual(await itemsIn(stores.a), [
      { id: 1, ...item('first') },
      { id: 2, ...item('created') },
    ])
  })

  test('what the other program has written is seen at once, also while a write waits', async (t) => {
    const stores = openLocked(t)
    const write = stores.a.create(item('second'))
    stores.commit(renameAll)
    assert.deepEqual(await itemsIn(stores.a), [{ id: 1, ...item('by another program') }])
    await write
    assert.equal((await itemsIn(stores.a)).length, 2)
  })

  test('after a write was refused, what the other program has written is seen at once, and every write succeeds', async (t) => {
    const stores = openLocked(t)
    for (const write of [
      () => stores.a.update('1', item('refused')),
      () => stores.a.delete('1'),
      () => stores.a.create(item('refused')),
      () => stores.b.create(named('refused')),
    ]) {
      const refused = settled(write)
      stores.pass(1_000)
      assertUnavailable(await refused, /is locked/)
    }
    stores.commit(renameAll)
    assert.deepEqual(await itemsIn(stores.a), [{ id: 1, ...item('by another program') }])
    assert.deepEqual(await stores.b.create(named('x')), { json: JSON.stringify(named('x')) })
    assert.deepEqual(await stores.a.create(item('second')), {
      ...((await stores.a.get('2')) as object),
      id: '2',
    })
  })

  test("B6 writes that have waited for a second get the operation's code", async (t) => {
    const stores = openLocked(t)
    const service = await transports['in process'](t, 'b', { stores })
    const refused = [
      service.send('POST', items, named('x')),
      service.send('PUT', items, named('x')),
      service.send('DELETE', `${items}/x`),
    ]
    await service.send('GET', items)
    stores.pass(1_000)
    const texts = (await Promise.all(refused)).map(({ status, text }) => `${status} ${text}`)
    assert.deepEqual(texts, ['400 CouldNotCreateItem', '400 CouldNotUpdateItem', '400 CouldNotDeleteItem'])
  })

  test('writes of a process that shares the file wait for five seconds', async (t) => {
    const stores = openLocked(t, 'shared')
    const first = settled(() => stores.a.create(item('new')))
    stores.pass(4_999)
    const second = stores.a.create(item('newer'))
    stores.pass(1)
    assertUnavailable(await first, /is locked/)
    stores.release()
    assert.equal(typeof (await second), 'object')
  })

  test('writes take effect in the order in which they came, resets and imports too', async (t) => {
    const stores = openLocked(t)
    const { a } = stores
    const etag = (await a.list()).etag
    const outcomes = [
      a.create(item('two')),
      a.replaceAll([{ id: '7', ...item('seven'), secret: null }], [etag]),
      a.delete('1'),
      a.replaceAll([{ id: '8', ...item('eight'), secret: null }]),
      a.create(item('nine')),
      stores.importItems({ a: { items: [{ id: '3', ...item('three'), secret: null }], lastId: '20' } }),
      a.create(item('next')),
    ]
    stores.release()
    const [two, changed, deleted, replaced, nine, imported, next] = (await Promise.all(outcomes)) as { id?: string }[]
    assert.deepEqual([two?.id, changed, deleted, replaced], ['2', 'changed', 'deleted', 'replaced'])
    assert.deepEqual([nine?.id, imported, next?.id], ['9', 'replaced', '21'])
    assert.deepEqual(await itemsIn(a), [
      { id: 3, ...item('three') },
      { id: 21, ...item('next') },
    ])
  })

  test('a write that waits is refused at once when the file is deleted', async (t) => {
    const stores = openLocked(t)
    const writes = [settled(() => stores.a.create(item('new'))), settled(() => stores.a.replaceAll([]))]
    rmSync(stores.file)
    for (const write of writes) assertUnavailable(await write, /^The data file .* is gone\.$/)
  })

  test('writes that wait when the stores are closed never take effect', async (t) => {
    const stores = openLocked(t)
    const write = settled(() => stores.a.create(item('new')))
    await stores.close()
    assertUnavailable(await write, /^The service is stopping\.$/)
    stores.release()
    const { stdout } = await run(t, ['items', 'export', '--data', stores.file])
    assert.deepEqual(JSON.parse(stdout).a, [{ id: 1, ...item('first') }])
  })

  test('of more than 1,000 writes the rest are refused at once', async (t) => {
    const stores = openLocked(t)
    const writes = Array.from({ length: 1_000 }, () => stores.a.create(item('new')))
    assertUnavailable(await settled(() => stores.a.create(item('refused'))), /^Too many writes wait for the data file/)
    assert.deepEqual(stores.notices, ['Writes fail: Too many writes wait for the data file.'])
    stores.release()
    const outcomes = await Promise.all(writes)
    assert.ok(outcomes.every((outcome) => typeof outcome === 'object'))
    assert.equal((await itemsIn(stores.a)).length, 1_001)
  })

  test('with workers, reads are answered while a write waits', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const service = await startWorkers(t, '--data', file)
    await untilBothServe(service)
    const { release } = lock(t, file)
    let responses = 0
    const writes = Array.from({ length: 4 }, () =>
      send(service.url, items, { method: 'POST', body: JSON.stringify(item('new')) }).finally(() => responses++),
    )
    for (const path of [items, '/health/live', items, '/health/ready'])
      assert.equal((await send(service.url, path)).status, 200)
    assert.equal(responses, 0)
    release()
    for (const { status } of await Promise.all(writes)) assert.equal(status, 201)
  })

  test('items export works, and items import says that nothing is imported', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const instance = await Instance.startOnFile(t, file)
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
    const { release } = lock(t, file)
    const exported = await run(t, ['items', 'export', '--data', file])
    assert.deepEqual([exported.code, exported.stderr], [0, ''])
    assert.deepEqual(JSON.parse(exported.stdout).a, [{ id: 1, ...item('x') }])
    instance.running.process.kill('SIGTERM')
    await instance.running.ended
    const source = join(temporaryFolder(t), 'items.json')
    writeFileSync(source, '{"a":[]}')
    const args = ['items', 'import', source, '--data', file]
    const { code, stderr } = await run(t, args)
    assert.deepEqual(
      [code, stderr],
      [1, `todo-service: The data file ${file} is locked by another process. Nothing is changed.\n`],
    )
    release()
    assert.equal((await run(t, args)).code, 0)
  })
})

test('a write that need not wait is no promise', (t) => {
  const stores = openLocked(t)
  stores.release()
  for (const outcome of [stores.a.create(item('x')), stores.a.delete('1'), stores.b.create(named('y'))])
    assert.ok(!(outcome instanceof Promise))
})
