import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import Libsql from 'libsql'
import { UnavailableError } from '../../src/store/store.ts'
import { cleanUp } from '../support/cleanup.ts'
import { jsonLines, node, run } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item } from '../support/instance.ts'
import { type ItemA, type ItemB, itemsIn, openFile, startingWith } from '../support/stores.ts'

const named = (id: string, name = 'name'): ItemB => ({ id, name, notes: 'notes', done: false })
const numbered = (id: string, name: string | null = 'name'): ItemA => ({
  id,
  name,
  isComplete: false,
  secret: null,
})

/** Stores on a file; several may share it. */
function open(file: string, access: 'exclusive' | 'shared' = 'exclusive', a: ItemA[] = [], b: ItemB[] = []) {
  return openFile(file, startingWith({ a, b }), { access })
}

suite('items in a data file', { concurrency: 4 }, () => {
  test('the start message names the file; a stopped service leaves this one file and its lock', async (t) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'todo.db')
    const { running } = await Instance.startOnFile(t, file)
    assert.ok(running.stdout.includes(`items in the file ${file}\n`), running.stdout)
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
    assert.deepEqual(readdirSync(folder).toSorted(), ['todo.db', 'todo.db-lock'])
  })

  test('A4 an id is not assigned again after a restart, also that of a deleted item', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const first = await Instance.startOnFile(t, file)
    for (const name of ['one', 'two', 'three']) await first.send('POST', '', item(name))
    assert.equal((await first.send('DELETE', '/3')).status, 204)
    first.running.process.kill('SIGTERM')
    await first.running.ended
    const second = await Instance.startOnFile(t, file)
    await second.send('POST', '', item('four'))
    assert.deepEqual(await second.list(), [
      { id: 1, ...item('one') },
      { id: 2, ...item('two') },
      { id: 4, ...item('four') },
    ])
  })

  test('B2 the starting items are inserted once: a list that was emptied stays empty', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const first = await Instance.startOnFile(t, file, 'b')
    for (const { id } of await first.list<{ id: string }>()) await first.send('DELETE', `/${id}`)
    first.running.process.kill('SIGTERM')
    await first.running.ended
    const second = await Instance.startOnFile(t, file, 'b')
    assert.deepEqual(await second.list(), [])
  })

  test('G5 a text with U+0000 is stored whole', async (t) => {
    const stores = open(join(temporaryFolder(t), 'todo.db'))
    cleanUp(t, () => stores.close())
    const { a, b } = stores
    await a.replaceAll([{ ...numbered('1', 'a\0b'), secret: '\0s' }])
    await a.create({ name: '\0', isComplete: false })
    await b.create({ ...named('x\0y', 'c\0'), notes: '\0d' })
    await b.create(named('x\0z'))
    assert.deepEqual(await itemsIn(a), [
      { id: 1, name: 'a\0b', isComplete: false },
      { id: 2, name: '\0', isComplete: false },
    ])
    assert.equal((await stores.exportItems()).a.items[0]?.secret, '\0s')
    assert.deepEqual(await a.get('1'), {
      json: '{"id":1,"name":"a\\u0000b","isComplete":false}',
      etag: await etagOf(a),
    })
    assert.equal(await b.delete('x\0z'), 'deleted')
    assert.deepEqual(await itemsIn(b), [{ ...named('x\0y', 'c\0'), notes: '\0d' }])
    assert.deepEqual((await stores.exportItems()).b.items, [{ ...named('x\0y', 'c\0'), notes: '\0d' }])
  })

  test('A11 ids are exact up to the largest int64; then the store is full', async (t) => {
    const stores = open(join(temporaryFolder(t), 'todo.db'), 'exclusive', [numbered('9223372036854775806')])
    cleanUp(t, () => stores.close())
    const created = await stores.a.create({ name: null, isComplete: false })
    assert.ok(typeof created === 'object')
    assert.equal(created.id, '9223372036854775807')
    assert.equal(await stores.a.create({ name: null, isComplete: false }), 'item-limit')
    assert.equal(await stores.a.delete('9223372036854775807'), 'deleted')
    assert.equal(await stores.a.create({ name: null, isComplete: false }), 'item-limit')
    assert.deepEqual((await stores.exportItems()).a, {
      items: [numbered('9223372036854775806')],
      lastId: '9223372036854775807',
    })
  })

  test('the entity tags of an item and of the list survive a restart, and are others in another file', async (t) => {
    const folder = temporaryFolder(t)
    const tags = []
    for (const name of ['one.db', 'one.db', 'other.db']) {
      const stores = open(join(folder, name), 'exclusive', [numbered('1')])
      tags.push([(await stores.a.list()).etag, await etagOf(stores.a)])
      await stores.close()
    }
    assert.deepEqual(tags[0], tags[1])
    assert.notEqual(tags[0]?.[0], tags[2]?.[0])
    assert.notEqual(tags[0]?.[1], tags[2]?.[1])
  })

  test('a restored backup has no entity tag that was used after the backup', async (t) => {
    const folder = temporaryFolder(t)
    const [file, backup] = [join(folder, 'todo.db'), join(folder, 'backup.db')]
    await open(file, 'exclusive', [numbered('1')]).close()
    copyFileSync(file, backup)
    const tags: string[] = []
    for (const name of ['before', 'after']) {
      const stores = open(file)
      for (let count = 0; count < 3; count++) {
        await stores.a.update('1', { name: `${name} ${count}`, isComplete: false })
        tags.push(await etagOf(stores.a), (await stores.a.list()).etag)
      }
      await stores.close()
      copyFileSync(backup, file)
    }
    // An item and the list may have the same.
    assert.equal(new Set(tags.filter((_, index) => index % 2 === 0)).size, 6)
    assert.equal(new Set(tags.filter((_, index) => index % 2 === 1)).size, 6)
  })

  test('only its user may read it', { skip: process.platform === 'win32' && 'no modes' }, async (t) => {
    const folder = temporaryFolder(t)
    const stores = open(join(folder, 'todo.db'))
    await stores.a.create({ name: null, isComplete: false })
    const files = readdirSync(folder)
    assert.deepEqual(files.toSorted(), ['todo.db', 'todo.db-lock', 'todo.db-shm', 'todo.db-wal'])
    for (const name of files) assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name)
    await stores.close()
  })

  test('what another program writes is seen at once', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const instance = await Instance.startOnFile(t, file)
    await instance.send('POST', '', item('x'))
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('x') }])
    const db = new Libsql(file)
    db.exec("update documents set content = json_set(content, '$.name', 'y') where collection = 'a'")
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('y') }])
    assert.equal((await instance.send('GET', '/1')).text, JSON.stringify({ id: 1, ...item('y') }))
    db.exec(`insert into documents (space, collection, place, version, content)
      values ('', 'a', 7, 1, '${JSON.stringify({ id: 7, ...item('z') })}')`)
    db.close()
    assert.deepEqual(await instance.list(), [
      { id: 1, ...item('y') },
      { id: 7, ...item('z') },
    ])
    assert.equal((await instance.send('DELETE', '/7')).status, 204)
    assert.equal(JSON.parse((await instance.send('POST', '', item('next'))).text).id, 8)
  })

  test('A2 after a read has failed, the next one returns the item that it asks for', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    await open(file, 'exclusive', [numbered('1', 'one'), numbered('2', 'two')]).close()
    const { a, close } = open(file)
    cleanUp(t, close)
    const bytes = readFileSync(file)
    writeFileSync(file, Buffer.alloc(bytes.length, 0xff))
    await assert.rejects(async () => a.get('1'), UnavailableError)
    writeFileSync(file, bytes)
    for (const [id, name] of [
      ['2', 'two'],
      ['1', 'one'],
      ['2', 'two'],
    ] as const) {
      const found = await a.get(id)
      assert.deepEqual(found !== 'not-found' && JSON.parse(found.json), { id: Number(id), ...item(name) })
    }
  })

  test("stores that share a file see each other's writes at once", async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    await open(file).close()
    const one = open(file, 'shared')
    const other = open(file, 'shared')
    cleanUp(t, async () => {
      await other.close()
      await one.close()
    })
    const expected: unknown[] = []
    const random = seeded(7)
    for (let round = 0; round < 600; round++) {
      const [writer, reader] = random() < 0.5 ? [one, other] : [other, one]
      const at = Math.floor(random() * expected.length)
      const victim = expected[at] as { id: number } | undefined
      const choice = random()
      if (!victim || choice < 0.7) {
        const created = await writer.a.create({ name: `${round}`, isComplete: false })
        assert.ok(typeof created === 'object')
        expected.push(JSON.parse(created.json))
      } else if (choice < 0.85) {
        await writer.a.update(`${victim.id}`, { name: 'new', isComplete: true })
        expected[at] = { id: victim.id, name: 'new', isComplete: true }
      } else {
        await writer.a.delete(`${victim.id}`)
        expected.splice(at, 1)
      }
      if (random() < 0.5) assert.deepEqual(await itemsIn(reader.a), expected)
      for (const { id } of expected.slice(-2) as { id: number }[]) {
        const found = await reader.a.get(`${id}`)
        assert.ok(found !== 'not-found')
        assert.deepEqual(
          JSON.parse(found.json),
          expected.find((one) => (one as { id: number }).id === id),
        )
      }
      if (random() < 0.5) assert.deepEqual(await itemsIn(writer.a), expected)
    }
    assert.equal((await one.a.list()).etag, (await other.a.list()).etag)
  })
})

const etagOf = async (store: ReturnType<typeof open>['a'], id = '1') => {
  const found = await store.get(id)
  assert.ok(found !== 'not-found')
  return found.etag
}

function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return (state >>> 0) / 2 ** 32
  }
}

suite('serve --data exits with code 1 and one sentence, and leaves the file as it is', { concurrency: 4 }, () => {
  async function assertFails(t: TestContext, file: string, message: RegExp) {
    const before = existsSync(file) ? readFileSync(file) : undefined
    const { code, stdout, stderr } = await run(t, ['serve', '--profile', 'a', '--port', '0', '--data', file])
    assert.deepEqual([code, stdout], [1, ''], stderr)
    assert.match(stderr, /^todo-service: [^\n]*--data\.\n$/)
    assert.match(stderr, message)
    assert.deepEqual(existsSync(file) ? readFileSync(file) : undefined, before)
  }

  /** A data file with 500 items, closed. */
  async function dataFile(t: TestContext): Promise<string> {
    const file = join(temporaryFolder(t), 'todo.db')
    await open(
      file,
      'exclusive',
      Array.from({ length: 500 }, (_, at) => numbered(`${at + 1}`, 'x'.repeat(100))),
    ).close()
    return file
  }

  const edit = (file: string, sql: string) => {
    const db = new Libsql(file)
    db.exec(sql)
    db.close()
  }

  test('when it is not a database', async (t) => {
    const file = join(temporaryFolder(t), 'notes.txt')
    writeFileSync(file, 'not a database'.repeat(1000))
    await assertFails(t, file, /notes\.txt is not a data file of this service/)
  })

  test('when it is shorter than a header', async (t) => {
    const file = join(temporaryFolder(t), 'x')
    writeFileSync(file, 'SQLite')
    await assertFails(t, file, /is not a data file of this service/)
  })

  test('when it is a database of another program', async (t) => {
    const file = join(temporaryFolder(t), 'other.db')
    edit(file, 'create table documents (id); pragma user_version = 1')
    await assertFails(t, file, /is a database of another program/)
  })

  test('when it is of a newer version', async (t) => {
    const file = await dataFile(t)
    edit(file, 'pragma user_version = 99')
    await assertFails(t, file, /has version 99, but this program supports versions up to 3\. Run the newer program/)
  })

  test('when it is damaged', async (t) => {
    const file = await dataFile(t)
    const bytes = readFileSync(file)
    bytes.fill(0xff, 5 * 4096, 9 * 4096)
    writeFileSync(file, bytes)
    await assertFails(t, file, /is damaged: .*\. Restore a backup/)
  })

  test('when it was cut off', async (t) => {
    const file = await dataFile(t)
    writeFileSync(file, readFileSync(file).subarray(0, 3 * 4096))
    await assertFails(t, file, /is damaged: /)
  })

  test('when its folder does not exist', async (t) => {
    await assertFails(t, join(temporaryFolder(t), 'no', 'todo.db'), /The folder of the data file, .*no, does not exist/)
  })

  test('when it is a folder', async (t) => {
    const folder = join(temporaryFolder(t), 'todo.db')
    mkdirSync(folder)
    const { code, stderr } = await run(t, ['serve', '--data', folder])
    assert.deepEqual([code, stderr], [1, `todo-service: ${folder} is not a file. Set another file with --data.\n`])
  })

  test('when another process uses it', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const instance = await Instance.startOnFile(t, file)
    await assertFails(t, file, /is in use by another process/)
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
  })

  test('when another process uses it under another name', async (t) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'todo.db')
    mkdirSync(join(folder, 'linked'))
    symlinkSync(file, join(folder, 'linked', 'link.db'))
    // The link comes first: the file does not exist yet.
    const instance = await Instance.startOnFile(t, join(folder, 'linked', 'link.db'))
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
    await assertFails(t, file, /is in use by another process/)
    symlinkSync(folder, join(folder, 'linked', 'folder'))
    await assertFails(t, join(folder, 'linked', 'folder', 'todo.db'), /is in use by another process/)
    const items = join(folder, 'items.json')
    writeFileSync(items, '{"a":[]}')
    const imported = await run(t, ['items', 'import', items, '--data', join(folder, 'linked', 'link.db')])
    assert.deepEqual([imported.code, /is in use by another process/.test(imported.stderr)], [1, true])
    linkSync(file, join(folder, 'hard.db'))
    await assertFails(t, join(folder, 'hard.db'), /has 2 names \(hard links\)/)
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('x') }])
  })

  test('when it is a loop of symbolic links', async (t) => {
    const file = join(temporaryFolder(t), 'loop.db')
    symlinkSync(file, file)
    const { code, stderr } = await run(t, ['serve', '--data', file])
    assert.deepEqual(
      [code, stderr],
      [1, `todo-service: ${file} cannot be opened (ELOOP). Set another file with --data.\n`],
    )
  })

  test('when it or its folder is read-only', async (t) => {
    const file = await dataFile(t)
    const folder = dirname(file)
    const isRoot = process.getuid?.() === 0
    /** Root may write any file. */
    const openAsUser = (path: string) => {
      if (isRoot) process.seteuid?.('nobody')
      try {
        return open(path)
      } finally {
        if (isRoot) process.seteuid?.(0)
      }
    }
    chmodSync(file, 0o444)
    chmodSync(folder, 0o555)
    assert.throws(() => openAsUser(file), {
      message: `${file} cannot be read and written by this user. ${chooseAnother}`,
    })
    assert.throws(() => openAsUser(join(folder, 'new.db')), {
      message: `No file can be created in ${folder} by this user. ${chooseAnother}`,
    })
    chmodSync(folder, 0o755)
    assert.deepEqual(readdirSync(folder).toSorted(), ['todo.db', 'todo.db-lock'])
  })
})

/** What the log of production says besides start and stop. */
const noticesIn = ({ running }: Instance) =>
  jsonLines(running.stdout)
    .filter(({ level }) => level !== 'info')
    .map(({ level, message }) => `${level}: ${message}`)

suite('a data file that is damaged while the service runs', { concurrency: 4 }, () => {
  const pageBytes = 4096

  /** On a file with 500 items, by a start that has read none of them yet, in production with its default log level. */
  async function startOnItems(t: TestContext) {
    const file = join(temporaryFolder(t), 'todo.db')
    const items = Array.from({ length: 500 }, (_, at) => numbered(`${at + 1}`, 'x'.repeat(100)))
    await open(file, 'exclusive', items).close()
    const bytes = readFileSync(file)
    const flags = ['--mode', 'production', '--log-level', 'error', '--data', file]
    const instance = await Instance.start(t, '', 'a', flags)
    const write = (change: (bytes: Buffer) => void = () => {}) => {
      const changed = Buffer.from(bytes)
      change(changed)
      // The service has the file open: it is not replaced.
      writeFileSync(file, changed, { flag: 'r+' })
    }
    return { file, instance, write }
  }

  const readiness = async ({ url }: Instance) => (await fetch(`${url}/health/ready`)).status

  const messages = (file: string, reason: string) => {
    const damaged = `The data file ${file} is damaged: ${reason}. Stop the service and restore a backup.`
    return [
      `error: Reads fail: ${damaged}`,
      `error: Writes fail: ${damaged}`,
      'warn: Reads succeed again.',
      'warn: Writes succeed again.',
    ]
  }

  test('A15 gets 503 for reads, writes and readiness; the log says so once, and once that they succeed again', async (t) => {
    const { file, instance, write } = await startOnItems(t)
    write((bytes) => bytes.fill(0xff))
    assert.equal(await readiness(instance), 503)
    for (let count = 0; count < 5; count++) {
      assert.equal((await instance.send('GET', '')).status, 503)
      assert.equal((await instance.send('GET', '/1')).status, 503)
      assert.equal((await instance.send('POST', '', item('x'))).status, 503)
    }
    assert.equal((await fetch(`${instance.url}/health/live`)).status, 200)
    write()
    await instance.running.prints(/Reads succeed again/)
    assert.equal(await readiness(instance), 200)
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
    assert.equal((await instance.list()).length, 501)
    assert.deepEqual(noticesIn(instance), messages(file, 'file is not a database'))
  })

  test('is not ready, also when all that was read is still in memory', async (t) => {
    const { instance, write } = await startOnItems(t)
    assert.equal((await instance.list()).length, 500)
    assert.equal(await readiness(instance), 200)
    write((bytes) => bytes.fill(0xff))
    assert.equal(await readiness(instance), 503)
    assert.match(`${noticesIn(instance)}`, /^error: Reads fail: [^,]*$/)
  })

  test('is not ready while an item cannot be read, whatever others can', async (t) => {
    const { instance, write } = await startOnItems(t)
    write((bytes) => bytes.fill(0xff, bytes.length - pageBytes))
    for (let count = 0; count < 5; count++) {
      assert.equal((await instance.send('GET', '/500')).status, 503)
      assert.equal((await instance.send('GET', '/1')).status, 200)
      assert.equal(await readiness(instance), 503)
    }
    assert.match(`${noticesIn(instance)}`, /^error: Reads fail: [^,]*$/)
    write()
    await instance.running.prints(/Reads succeed again/)
    assert.equal(await readiness(instance), 200)
    assert.equal((await instance.send('GET', '/500')).status, 200)
  })

  test('A15 gets 503 when it was truncated', async (t) => {
    const { file, instance } = await startOnItems(t)
    truncateSync(file)
    assert.equal((await instance.send('GET', '')).status, 503)
    assert.equal(await readiness(instance), 503)
    assert.deepEqual(noticesIn(instance), messages(file, 'no such table: collections').slice(0, 1))
  })
})

suite('a data file that is deleted, moved or replaced while the service runs', { concurrency: 4 }, () => {
  const actions: Record<string, (file: string) => void> = {
    deleted: (file) => rmSync(file),
    moved: (file) => renameSync(file, `${file}.old`),
    replaced(file) {
      copyFileSync(file, `${file}.new`)
      renameSync(`${file}.new`, file)
    },
  }
  for (const [name, act] of Object.entries(actions))
    test(`${name}: A15 writes get 503, reads go on, it is not ready, and exits with code 1`, async (t) => {
      const file = join(temporaryFolder(t), 'todo.db')
      const instance = await Instance.startOnFile(t, file)
      assert.equal((await instance.send('POST', '', item('x'))).status, 201)
      act(file)
      assert.equal((await instance.send('POST', '', item('y'))).status, 503)
      assert.equal((await instance.send('PUT', '/1', { id: 1, ...item('y') })).status, 503)
      assert.equal((await instance.send('DELETE', '/1')).status, 503)
      assert.equal((await fetch(`${instance.url}/__admin/reset`, { method: 'POST' })).status, 503)
      await instance.running.prints(
        /^The data file .*todo\.db was deleted, moved or replaced while the service runs\./m,
      )
      assert.equal((await fetch(`${instance.url}/health/ready`)).status, 503)
      assert.deepEqual(await instance.list(), [{ id: 1, ...item('x') }])
      assert.equal((await instance.send('GET', '/1')).status, 200)
      // Long enough for another check.
      await sleep(1_200)
      instance.running.process.kill('SIGTERM')
      const { code, stdout } = await instance.running.ended
      assert.equal(code, 1)
      assert.equal(stdout.match(/was deleted, moved or replaced/g)?.length, 1)
    })
})

const chooseAnother = 'Set another file with --data.'

/** Prints the limits of a process; absent on other systems than Linux. */
const canLimit = spawnSync('prlimit', ['--version']).status === 0

suite('while the disk is full', { skip: !canLimit && 'needs prlimit', concurrency: 4 }, () => {
  /** The files of the process cannot grow beyond 400 KiB. */
  async function startLimited(t: TestContext, profile: 'a' | 'b', flags: readonly string[] = []) {
    const file = join(temporaryFolder(t), 'todo.db')
    const instance = await Instance.start(t, '', profile, ['--data', file, ...flags], node)
    const setLimit = (bytes: string) => {
      const { status, stderr } = spawnSync('prlimit', ['--pid', `${instance.running.process.pid}`, `--fsize=${bytes}:`])
      assert.equal(status, 0, `${stderr}`)
    }
    setLimit(`${400 * 1024}`)
    return { instance, free: () => setLimit('unlimited') }
  }

  test('the log says once that writes fail and once that they succeed again, at the default level of production', async (t) => {
    const { instance, free } = await startLimited(t, 'a', ['--mode', 'production', '--log-level', 'error'])
    const post = async () => (await instance.send('POST', '', item('x'.repeat(5_000)))).status
    while ((await post()) === 201);
    for (let count = 0; count < 10; count++) {
      // Neither reads nor what changes nothing are a sign that there is room.
      assert.equal((await instance.send('GET', '/1')).status, 200)
      assert.equal((await instance.send('PUT', '/1000', { id: 1000, ...item('y') })).status, 404)
      assert.equal((await fetch(`${instance.url}/health/ready`)).status, 200)
      assert.equal(await post(), 503)
    }
    free()
    assert.equal(await post(), 201)
    const [first, ...rest] = noticesIn(instance)
    // A limit for the size of files is an I/O error.
    assert.match(
      `${first}`,
      /^error: Writes fail: The data file .*todo\.db cannot be used: (?:database or disk is full|disk I\/O error)\.$/,
    )
    assert.deepEqual(rest, ['warn: Writes succeed again.'])
  })

  /** Smaller writes may still fit. */
  async function untilRefused(send: () => Promise<{ status: number }>): Promise<number> {
    for (;;) {
      const { status } = await send()
      if (status !== 204) return status
    }
  }

  test('A15 writes get 503, reads go on, nothing is lost, and writes succeed when there is room', async (t) => {
    const { instance, free } = await startLimited(t, 'a')
    const stored: { name: string }[] = []
    for (;;) {
      const { status, text } = await instance.send('POST', '', item('x'.repeat(5_000)))
      if (status !== 201) {
        assert.equal(status, 503, text)
        break
      }
      stored.push(JSON.parse(text))
    }
    assert.ok(stored.length > 5)
    const putFirst = async () => {
      const response = await instance.send('PUT', '/1', { id: 1, ...item('y') })
      if (response.status === 204) (stored[0] as { name: string }).name = 'y'
      return response
    }
    assert.equal(await untilRefused(putFirst), 503)
    assert.deepEqual(await instance.list(), stored)
    assert.equal((await instance.send('GET', '/1')).status, 200)
    free()
    assert.equal((await instance.send('POST', '', item('again'))).status, 201)
    assert.equal((await putFirst()).status, 204)
    assert.deepEqual((await instance.list()).slice(0, -1), stored)
  })

  test("B6 writes get the operation's code, reads go on", async (t) => {
    const { instance, free } = await startLimited(t, 'b')
    let count = 3
    for (;;) {
      const { status, text } = await instance.send('POST', '', named(`${count}`, 'x'.repeat(5_000)))
      if (status !== 200) {
        assert.deepEqual([status, text], [400, 'CouldNotCreateItem'])
        break
      }
      count++
    }
    assert.equal(await untilRefused(() => instance.send('PUT', '', named('3', 'new'))), 400)
    assert.equal((await instance.send('PUT', '', named('3', 'new'))).text, 'CouldNotUpdateItem')
    assert.equal((await instance.send('DELETE', '/3')).text, 'CouldNotDeleteItem')
    assert.equal((await instance.list()).length, count)
    free()
    assert.equal((await instance.send('DELETE', '/3')).status, 204)
    assert.equal((await instance.list()).length, count - 1)
  })
})
