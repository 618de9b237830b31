import assert from 'node:assert/strict'
import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import Libsql from 'libsql'
import { cleanUp } from '../support/cleanup.ts'
import { cli, Program, run, serve, typed } from '../support/cli.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item } from '../support/instance.ts'
import { openSql } from '../support/sql.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { databaseOfVersion1, fileOfVersion1 } from '../support/version-1.ts'

const exported = `{
  "a": [
    {"id":-9223372036854775808,"name":null,"isComplete":true},
    {"id":9007199254740993,"name":"walk \\"the\\" dog","isComplete":false,"secret":"hidden"},
    {"id":9223372036854775800,"name":"é 👩‍👩‍👧 \\u2028","isComplete":true}
  ],
  "lastId": 9223372036854775804,
  "b": [
    {"id":"z","name":"n","notes":"o","done":true},
    {"id":"a/b?","name":"n","notes":"o","done":false}
  ]
}
`.replace('\\u2028', '\u2028')

/** The same in the format of all spaces. */
const exportedAll = exported.replace(/\n\}\n$/, ',\n  "spaces": {}\n}\n')

/** Writes a file into a new folder. */
function write(t: TestContext, text: string): string {
  const file = join(temporaryFolder(t), 'items.json')
  writeFileSync(file, text)
  return file
}

/** Runs a command that succeeds; returns its standard output. */
async function succeed(t: TestContext, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(t, args)
  assert.equal(code, 0, stderr)
  return stdout
}

suite('items export and import', { concurrency: 4 }, () => {
  test('move items between a file and PostgreSQL without a change, and the last id with them', async (t) => {
    const folder = temporaryFolder(t)
    const { url } = await newDatabase()
    const [one, other] = [join(folder, 'one.db'), join(folder, 'other.db')]
    await succeed(t, 'items', 'import', write(t, exported), '--data', one)
    const fromFile = await succeed(t, 'items', 'export', '--data', one)
    assert.equal(fromFile, exportedAll)
    await succeed(t, 'items', 'import', write(t, fromFile), '--database-url', url)
    const fromDatabase = await succeed(t, 'items', 'export', '--database-url', url)
    assert.equal(fromDatabase, exportedAll)
    await succeed(t, 'items', 'import', write(t, fromDatabase), '--data', other)
    for (const instance of [await Instance.startOnFile(t, other), await Instance.start(t, url)]) {
      const { text } = await instance.send('POST', '', item('next'))
      assert.match(text, /^\{"id":9223372036854775805,/)
    }
  })

  test('an import replaces what is there, but not the items of a profile that the file lacks', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const { url } = await newDatabase()
    for (const target of [
      ['--data', file],
      ['--database-url', url],
    ]) {
      await succeed(t, 'items', 'import', write(t, exported), ...target)
      await succeed(t, 'items', 'import', write(t, '{"a":[{"id":5,"isComplete":true}]}'), ...target)
      const { a, b, lastId } = JSON.parse(await succeed(t, 'items', 'export', ...target))
      assert.deepEqual([a, lastId], [[{ id: 5, name: null, isComplete: true }], 5])
      assert.equal(b.length, 2)
    }
  })

  test('an import reads standard input', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const running = new Program(t, process.execPath, [cli, 'items', 'import', '--data', file], {})
    running.process.stdin?.end(exported)
    const { code, stderr } = await running.ended
    assert.deepEqual([code, stderr], [0, 'Imported items: 3 of Profile A, 2 of Profile B.\n'])
    assert.equal(await succeed(t, 'items', 'export', '--data', file), exportedAll)
  })

  test('an export works while the service uses the file; an import does not, and changes nothing', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const instance = await Instance.startOnFile(t, file)
    await instance.send('POST', '', item('x'))
    const { a } = JSON.parse(await succeed(t, 'items', 'export', '--data', file))
    assert.deepEqual(a, [{ id: 1, ...item('x') }])
    const { code, stderr } = await run(t, ['items', 'import', write(t, exported), '--data', file])
    assert.equal(code, 1)
    assert.match(stderr, /is in use by another process/)
    assert.deepEqual(await instance.list(), a)
    assert.equal((await instance.send('POST', '', item('y'))).status, 201)
  })

  test('a mistake in the file is named, with its position, and nothing is imported', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    await succeed(t, 'items', 'import', write(t, exported), '--data', file)
    for (const [text, mistake] of [
      ['', 'It is not JSON'],
      ['[]', 'It must be an object such as { "a": [items of Profile A], "b": [items of Profile B] }.'],
      ['{"a":{}}', 'a must be an array of items.'],
      ['{"A":[]}', 'There is no member "A": use a, lastId and b.'],
      ['{"a":[{"id":1,"isComplete":true},{"id":1,"isComplete":true}]}', 'a[1].id is the same as [0].id.'],
      ['{"a":[{"id":9223372036854775808,"isComplete":true}]}', 'a[0].id must be an int64.'],
      ['{"a":[],"lastId":9223372036854775808}', 'lastId must be an int64.'],
      ['{"a":[],"lastId":"5"}', 'lastId must be an int64.'],
      ['{"a":[],"b":[{"id":"x","name":"n","notes":" "}]}', 'b[0].notes must not be blank.'],
    ] as const) {
      const { code, stdout, stderr } = await run(t, ['items', 'import', write(t, text), '--data', file])
      assert.deepEqual([code, stdout], [1, ''])
      assert.ok(stderr.includes(mistake), stderr)
    }
    assert.equal(await succeed(t, 'items', 'export', '--data', file), exportedAll)
  })

  test('a lost connection is reported as what it means for the items', async (t) => {
    const { port } = await sharedPostgres()
    const { url } = await newDatabase()
    const proxy = await startProxy(t, port)
    const target = ['--database-url', url.replace(`:${port}/`, `:${proxy.port}/`)]
    const file = write(t, exported)
    // Makes the tables. Where the machine is busy, that may take longer than the command waits for the database.
    while ((await run(t, ['items', 'import', file, ...target])).code !== 0);
    const failure = async (bytes: string, action: 'disconnect before' | 'disconnect after', ...args: string[]) => {
      proxy.onBytes(bytes, action)
      const { code, stderr } = await run(t, ['items', ...args, ...target])
      assert.equal(code, 1)
      return stderr
    }
    assert.equal(
      await failure('do update set place', 'disconnect before', 'import', file),
      'todo-service: The server closed the connection. Nothing is changed.\n',
    )
    assert.match(
      await failure('order by space, collection, place', 'disconnect before', 'export'),
      /^todo-service: The database cannot be used \(.*\): The server closed the connection\.\n$/,
    )
    // The commit succeeds, and its response is lost.
    assert.equal(
      await failure('commit', 'disconnect after', 'import', file),
      `todo-service: The connection was lost during the commit. Run ${typed('items', 'export')} to see whether the items are there.\n`,
    )
    assert.equal(await succeed(t, 'items', 'export', '--database-url', url), exportedAll)
  })

  test('an export of version 1 has all items and leaves them as they are; an import says what to do', async (t) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'todo.db')
    const { url } = await newDatabase()
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    await sql.unsafe(databaseOfVersion1)
    const old = new Libsql(file)
    cleanUp(t, () => old.close())
    old.exec(`${fileOfVersion1}; pragma journal_mode = wal`)
    const items = write(t, exported)
    const expected = `{
  "a": [
    {"id":1,"name":null,"isComplete":false,"secret":"hidden"},
    {"id":9007199254740993,"name":"x","isComplete":true}
  ],
  "lastId": 9007199254740999,
  "b": [
    {"id":"z","name":"n","notes":"o","done":true},
    {"id":"y","name":"n","notes":"o","done":false}
  ],
  "spaces": {}
}
`
    for (const [target, writeOld, name] of [
      [
        ['--data', file],
        async () => old.exec('update numbered_items set version = version + 1'),
        `The data file ${file}`,
      ],
      [['--database-url', url], () => sql.unsafe('update todo.numbered_items set version = 7'), 'Schema todo'],
    ] as const) {
      const refusal = {
        code: 1,
        stdout: '',
        stderr: `todo-service: ${name} has version 1, and this program writes version 3. Start todo-service serve with it once: that migrates the items.\n`,
      }
      assert.equal(await succeed(t, 'items', 'export', ...target), expected)
      assert.deepEqual(await run(t, ['items', 'import', items, ...target]), refusal)
      assert.match((await run(t, ['items', 'export', '--space', 'ada', ...target])).stderr, /There is no space "ada"/)
      // What an old instance does goes on.
      await writeOld()
      assert.equal(await succeed(t, 'items', 'export', ...target), expected)
    }
    assert.equal(Object(old.prepare('pragma user_version').get()).user_version, 1)
    assert.deepEqual(await sql`select tablename from pg_tables where schemaname = 'todo' order by tablename`, [
      { tablename: 'named_items' },
      { tablename: 'numbered_items' },
      { tablename: 'version' },
    ])
    assert.deepEqual(readdirSync(folder).toSorted(), ['todo.db', 'todo.db-lock', 'todo.db-shm', 'todo.db-wal'])
  })

  test('an export of a file changes no byte in its folder', async (t) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'todo.db')
    await succeed(t, 'items', 'import', write(t, exported), '--data', file)
    const filesOf = () => readdirSync(folder).map((name) => [name, readFileSync(join(folder, name)).toString('base64')])
    const before = filesOf()
    chmodSync(file, 0o400)
    assert.equal(await succeed(t, 'items', 'export', '--data', file), exportedAll)
    assert.deepEqual(filesOf(), before)
  })

  test('an export of a file in which a write was interrupted says what to do, and changes nothing', async (t) => {
    const [folder, copy] = [temporaryFolder(t), temporaryFolder(t)]
    const file = join(folder, 'todo.db')
    await succeed(t, 'items', 'import', write(t, exported), '--data', file)
    const writing = new Libsql(file)
    cleanUp(t, () => writing.close())
    // Few pages in memory: the file is written before the commit.
    writing.exec("pragma cache_size = 1; begin immediate; create table other (text); insert into other values ('x')")
    for (let rows = 1; rows < 2_000; rows *= 2) writing.exec('insert into other select randomblob(1000) from other')
    cpSync(folder, copy, { recursive: true })
    const data = join(copy, 'todo.db')
    const before = readFileSync(data)
    const { code, stderr } = await run(t, ['items', 'export', '--data', data])
    assert.deepEqual(
      [code, stderr],
      [
        1,
        `todo-service: A write to the data file ${data} was interrupted. Start todo-service serve with it once: that undoes this write.\n`,
      ],
    )
    assert.deepEqual(readFileSync(data), before)
    const instance = await Instance.startOnFile(t, data)
    assert.equal((await instance.list()).length, 3)
    assert.equal(await succeed(t, 'items', 'export', '--data', data), exportedAll)
  })

  test('an export says where there are no items, and makes nothing there', async (t) => {
    const { url } = await newDatabase()
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    const failure = async (action: string, ...target: string[]) => {
      const { code, stdout, stderr } = await run(t, ['items', ...action.split(' '), ...target])
      assert.deepEqual([code, stdout], [1, ''])
      return stderr
    }
    const nothing =
      'todo-service: Schema todo has no tables of this service. Set another database with --database-url, or another schema with --database-schema.\n'
    for (const action of ['export', 'delete --space ada'])
      assert.equal(await failure(action, '--database-url', url), nothing)
    assert.deepEqual(await sql`select nspname from pg_namespace where nspname = 'todo'`, [])
    await sql.unsafe('create schema todo; create table todo.version (number text)')
    assert.equal(await failure('export', '--database-url', url), nothing)
    await sql.unsafe(
      'drop table todo.version; create table todo.version (version integer); insert into todo.version values (99)',
    )
    assert.match(await failure('export', '--database-url', url), /^todo-service: Schema todo has version 99, but this /)
    assert.deepEqual(await sql`select tablename from pg_tables where schemaname = 'todo'`, [{ tablename: 'version' }])

    const file = write(t, '')
    for (const action of ['export', 'delete --space ada'])
      assert.equal(
        await failure(action, '--data', file),
        `todo-service: The data file ${file} is empty. Set another file with --data.\n`,
      )
    assert.deepEqual(readdirSync(dirname(file)), ['items.json'])
    writeFileSync(file, 'x')
    assert.match(await failure('export', '--data', file), /is not a data file of this service/)
  })

  test('a text with U+0000 is imported; a secret with it is refused', async (t) => {
    const { url } = await newDatabase()
    const items = write(t, exportedAll.replace('"n"', '"n\\u0000"'))
    for (const target of [
      ['--data', join(temporaryFolder(t), 'todo.db')],
      ['--database-url', url],
    ]) {
      await succeed(t, 'items', 'import', items, ...target)
      assert.equal(await succeed(t, 'items', 'export', ...target), readFileSync(items, 'utf8'))
    }
    const secret = write(t, exportedAll.replace(/"secret":"/, '"secret":"\\u0000'))
    const { code, stderr } = await run(t, ['items', 'import', secret, '--database-url', url])
    assert.deepEqual([code, /secret must/.test(stderr)], [1, true], stderr)
  })

  test('docs/operations.md: other programs read items in SQL', async (t) => {
    const page = readFileSync(new URL('../../../docs/operations.md', import.meta.url), 'utf8')
    const [inFile = '', inDatabase = ''] = [...page.matchAll(/^select place as id, [^;]*;/gm)].map(([text]) => text)
    const [file, { url }] = [join(temporaryFolder(t), 'todo.db'), await newDatabase()]
    const items = write(t, JSON.stringify({ a: [{ id: 7, name: 'x "y"', isComplete: true }] }))
    await succeed(t, 'items', 'import', items, '--data', file)
    await succeed(t, 'items', 'import', items, '--database-url', url)
    const db = new Libsql(file)
    cleanUp(t, () => db.close())
    assert.deepEqual(db.prepare(inFile).all(), [{ id: 7, name: 'x "y"' }])
    const sql = openSql(url)
    cleanUp(t, () => sql.end())
    assert.deepEqual(Object(await sql.unsafe(inDatabase)).rows, [{ id: '7', name: 'x "y"' }])
  })

  test('of one space or of all; what would destroy others is refused without --yes', async (t) => {
    const { url } = await newDatabase()
    for (const target of [
      ['--data', join(temporaryFolder(t), 'todo.db')],
      ['--database-url', url],
    ]) {
      const imports = async (text: string, ...flags: string[]) =>
        (await run(t, ['items', 'import', write(t, text), ...flags, ...target])).stderr
      const exports = async (...flags: string[]) => JSON.parse(await succeed(t, 'items', 'export', ...flags, ...target))
      const one = (id: number) => `{"a":[{"id":${id},"isComplete":true}]}`
      assert.equal(await imports(one(1), '--space', 'ada'), 'Imported items: 1 of Profile A.\n')
      await imports(one(2), '--space', '["https://issuer","b\\"ob"]')
      assert.deepEqual(Object.keys((await exports()).spaces), ['["https://issuer","b\\"ob"]', 'ada'])
      assert.deepEqual(await exports('--space', 'ada'), {
        a: [{ id: 1, name: null, isComplete: true }],
        lastId: 1,
      })
      const all = JSON.stringify(await exports())
      const replaced = `{"a":[],"spaces":{"eve":${one(7)},"ada":${one(8)}}}`
      assert.match(
        await imports(replaced),
        /2 spaces would be deleted or replaced\. Nothing was changed: to go on, add --yes\.\n$/,
      )
      assert.equal(JSON.stringify(await exports()), all)
      assert.equal(await imports(replaced, '--space', 'eve'), 'Imported items: 1 of Profile A.\n')
      assert.deepEqual(Object.keys((await exports()).spaces).length, 3)
      assert.equal(await imports(replaced, '--yes'), 'Imported items in 3 spaces: 2 of Profile A.\n')
      assert.deepEqual(Object.keys((await exports()).spaces), ['ada', 'eve'])
      assert.match(await imports(replaced, '--space', 'no'), /The file has no space "no"\./)
      assert.match(await imports('{"spaces":{"a b":{}}}'), /spaces\["a b"\] is not the name of a space\./)
      const removes = async (...flags: string[]) =>
        (await run(t, ['items', 'delete', '--space', 'ada', ...flags, ...target])).stderr
      assert.match(await removes(), /Space "ada" has 1 item\. Nothing was changed: to delete it, add --yes\.\n$/)
      assert.equal(await removes('-y'), 'Space "ada" is deleted.\n')
      assert.match(await removes('-y'), /There is no space "ada": nobody has written to it\.\n$/)
      assert.match((await run(t, ['items', 'export', '--space', 'ada', ...target])).stderr, /There is no space "ada"/)
    }
  })

  test('say what is missing or contradictory', async (t) => {
    const { url } = await sharedPostgres()
    for (const [args, problem] of [
      [[], 'Say what to do: items export, items import or items delete.'],
      [['exprot'], 'Unknown action exprot. Did you mean export?'],
      [['export'], 'Say where the items are: --data or --database-url.'],
      [['export', '--data', 'x', '--database-url', url()], '--data and --database-url contradict each other.'],
      [['export', 'x', '--data', 'x'], 'Unexpected argument "x".'],
    ] as const) {
      const { code, stderr } = await run(t, ['items', ...args])
      assert.equal(code, 2)
      assert.ok(stderr.includes(`todo-service: ${problem}\n`), stderr)
    }
    const { code, stderr } = await run(t, ['items', 'export', '--data', join(temporaryFolder(t), 'no.db')])
    assert.equal(code, 1)
    assert.match(stderr, /There is no data file .*no\.db\./)
  })
})

suite('serve --items', { concurrency: 4 }, () => {
  test('starts with these items in memory, and a reset restores them', async (t) => {
    const { url } = await serve(t, ['--items', write(t, exported)])
    const get = async (path = '') => (await fetch(`${url}/api/todoitems${path}`)).text()
    assert.match(await get('/9007199254740993'), /^\{"id":9007199254740993,"name":"walk \\"the\\" dog"/)
    const list = await get()
    await fetch(`${url}/api/todoitems/9007199254740993`, { method: 'DELETE' })
    assert.notEqual(await get(), list)
    assert.equal((await fetch(`${url}/__admin/reset`, { method: 'POST' })).status, 204)
    assert.equal(await get(), list)
    assert.equal(await (await fetch(`${url}/~ada/api/todoitems`)).text(), list)
  })

  test('B2 without items of Profile B, the three starting items are there', async (t) => {
    const { url } = await serve(t, ['--items', write(t, '{"a":[]}')], {}, 'b')
    assert.equal(((await (await fetch(`${url}/api/todoitems`)).json()) as unknown[]).length, 3)
  })

  test('exits with code 1 and the mistakes in the file', async (t) => {
    const file = write(t, '{"a":[{"id":1}]}')
    assert.deepEqual(await run(t, ['serve', '--items', file]), {
      code: 1,
      stdout: '',
      stderr: `todo-service: The items in ${file} cannot be used. a[0].isComplete is missing.\n`,
    })
    const missing = join(temporaryFolder(t), 'no.json')
    assert.equal(
      (await run(t, ['serve', '--items', missing])).stderr,
      `todo-service: Cannot read ${missing}: ENOENT.\n`,
    )
  })

  test('is rejected together with --data', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--items', 'x', '--data', 'y'])
    assert.equal(code, 2)
    assert.match(stderr, /--items is for items in memory: with --data, use the command "items import"\./)
  })
})
