import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { generate } from 'selfsigned'
import { cleanUp } from '../support/cleanup.ts'
import { run, start } from '../support/cli.ts'
import { createClient } from '../support/client.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item } from '../support/instance.ts'
import { freePort } from '../support/port.ts'
import { startPostgres } from '../support/postgres.ts'
import { openSql } from '../support/sql.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const serve = (t: TestContext, url: string, ...args: string[]) =>
  run(t, ['serve', '--profile', 'a', '--port', '0', ...args], { TODO_DATABASE_URL: url })

/** The command fails with one line that does not contain the password. */
async function assertFails(t: TestContext, url: string, message: RegExp, ...args: string[]) {
  const { code, stdout, stderr } = await serve(t, url, ...args)
  assert.equal(code, 1, stderr)
  assert.equal(stdout, '')
  assert.match(stderr, /^todo-service: [^\n]*\.\n$/)
  assert.match(stderr, message)
  assert.doesNotMatch(stderr, /sesame/)
}

suite('serve --database-url exits with code 1 and a one-line message', { concurrency: 4 }, () => {
  test('when no server is listening', async (t) =>
    assertFails(
      t,
      `postgres://u:sesame@127.0.0.1:${await freePort()}/x`,
      /No server is listening \(database x at 127\.0\.0\.1:\d+\)\. .* To wait for it at the start, add --wait-for-database\./,
    ))

  test('when the host is unknown', async (t) =>
    assertFails(
      t,
      'postgres://u:sesame@no.such.host.invalid/x',
      /Unknown host \(database x at no\.such\.host\.invalid:5432\)/,
    ))

  test('when the password is wrong', async (t) => {
    const { url } = await newDatabase()
    await assertFails(t, url.replace('sesame', 'sesame2'), /Authentication failed/)
  })

  test('when the database does not exist', async (t) => {
    const { url } = await newDatabase()
    await assertFails(t, `${url}_not`, /The database does not exist/)
  })

  test('when the role lacks a privilege', async (t) => {
    const { sql } = await sharedPostgres()
    const { url } = await newDatabase('reader')
    await sql`create role reader login password 'sesame'`
    await assertFails(t, url, /Missing privilege .*: permission denied for database/)
  })

  test('when the schema was created by a newer version', async (t) => {
    const { url } = await newDatabase()
    const first = await Instance.start(t, url)
    first.running.process.kill('SIGTERM')
    await first.running.ended
    const sql = openSql(url)
    await sql`insert into todo.version values (99)`
    await sql.end()
    await assertFails(t, url, /version 99, but this program supports versions up to \d+/)
    await assertFails(t, url, /version 99/, '--wait-for-database')
  })

  test('when the database encoding is not UTF8', async (t) => {
    const { sql, url } = await sharedPostgres()
    await sql`create database latin encoding 'LATIN1' template template0`
    await assertFails(t, url('latin'), /encoding is LATIN1/)
  })

  test('when the database is read-only', async (t) => {
    const { sql } = await sharedPostgres()
    const { name, url } = await newDatabase()
    await sql`alter database ${sql(name)} set default_transaction_read_only = on`
    await assertFails(t, url, /is a standby, or the database is read-only/)
  })

  test('when TLS is required and the server does not support it', async (t) => {
    const { url } = await newDatabase()
    await assertFails(t, `${url}?sslmode=require`, /The server does not support TLS: set \?sslmode=disable\./)
  })
})

/** The statements in docs/operations.md. */
function documentedGrants(): string {
  const page = readFileSync(new URL('../../../docs/operations.md', import.meta.url), 'utf8')
  return /^grant usage on schema todo[^`]*/m.exec(page)?.[0] ?? assert.fail('docs/operations.md has no grants')
}

suite('serve with a database', { concurrency: 4 }, () => {
  test('rejects an invalid URL without printing it', async (t) => {
    for (const url of [
      'mysql://u:sesame@h/d',
      'postgres://u:ses@me@h/d',
      'postgres://u:sesame@h/d?sslmode=maybe',
      'postgres://u:sesame@h/d?foo=bar',
      'postgres://u:sesame@h:99999/d',
      'postgres://u:sesame@h/d?sslrootcert=no-such-file',
      'sesame',
    ]) {
      const { code, stderr } = await serve(t, url)
      assert.equal(code, 2)
      assert.match(stderr, /^todo-service: TODO_DATABASE_URL must be a URL such as postgres:/)
      assert.doesNotMatch(stderr, /sesame|ses@me/)
    }
  })

  test('rejects database flags without --database-url', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--database-schema', 'x', '--wait-for-database'])
    assert.equal(code, 2)
    assert.match(stderr, /--database-schema needs --database-url\.\n.*--wait-for-database needs --database-url\./)
  })

  test('rejects an invalid schema name', async (t) => {
    const { stderr } = await serve(t, 'postgres://h/d', '--database-schema', 'x"; drop')
    assert.match(stderr, /--database-schema must be a lower-case name/)
  })

  test('logs the location of the items, and never the password', async (t) => {
    const { url, name } = await newDatabase()
    const { running, url: address } = await Instance.start(t, url, 'a', ['--log-level', 'info'])
    await fetch(`${address}/api/todoitems`)
    running.process.kill('SIGTERM')
    const { code, stdout, stderr } = await running.ended
    assert.equal(code, 0)
    assert.match(stdout, new RegExp(`items in PostgreSQL, schema todo of database ${name} at 127\\.0\\.0\\.1:\\d+\n`))
    assert.doesNotMatch(stdout + stderr, /sesame/)
  })

  test('isolates schemas from each other', async (t) => {
    const { url } = await newDatabase()
    const [one, other] = await Promise.all(
      ['one', 'other'].map((name) => Instance.start(t, url, 'a', ['--database-schema', name])),
    )
    await one?.send('POST', '', item('x'))
    assert.deepEqual(await other?.list(), [])
  })

  test('needs only read and write privileges once the tables exist', async (t) => {
    const cluster = await sharedPostgres()
    const { name, url } = await newDatabase()
    await Instance.start(t, url)
    await cluster.sql`create role writer login password 'sesame'`
    const sql = openSql(url)
    await sql.unsafe(documentedGrants().replaceAll('todo_writer', 'writer'))
    await sql.end()
    const instance = await Instance.start(t, cluster.url(name, 'writer'))
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
    assert.equal((await instance.send('PUT', '/1', { id: 1, ...item('y') })).status, 204)
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('y') }])
    assert.equal((await instance.send('DELETE', '/1')).status, 204)
    assert.equal((await createClient(instance.url).send('POST', '/__admin/reset')).status, 204)
    assert.match((await instance.send('POST', '', item('z'))).text, /^{"id":1,/)
    const target = ['--database-url', cluster.url(name, 'writer')]
    const { stdout: exported } = await run(t, ['items', 'export', ...target])
    assert.equal(JSON.parse(exported).lastId, 1)
    const file = join(temporaryFolder(t), 'items.json')
    writeFileSync(file, exported.replace('"lastId": 1', '"lastId": 7'))
    assert.deepEqual(await run(t, ['items', 'import', file, ...target]), {
      code: 0,
      stdout: '',
      stderr: 'Imported items: 1 of Profile A, 3 of Profile B.\n',
    })
    assert.match((await instance.send('POST', '', item('next'))).text, /^{"id":8,/)
  })

  test('the control API works on the items in the database, in each space', async (t) => {
    const { url } = await newDatabase()
    const [a, b] = await Promise.all([Instance.start(t, url, 'a'), Instance.start(t, url, 'b')])
    const admin = createClient(a.url)
    const items =
      '[{"id":9007199254740992,"name":"x","isComplete":true},{"id":9007199254740993,"name":null,"isComplete":false}]'
    assert.equal((await admin.send('PUT', '/__admin/items', items)).status, 204)
    for (const path of ['/__admin/items', '/api/todoitems']) assert.equal((await admin.send('GET', path)).text, items)
    assert.match((await a.send('POST', '', item('y'))).text, /^{"id":9007199254740994,/)
    assert.equal((await admin.send('POST', '/__admin/reset')).status, 204)
    assert.deepEqual(await a.list(), [])
    assert.match((await a.send('POST', '', item('z'))).text, /^{"id":1,/)

    const adminB = createClient(b.url)
    const starting = await b.list<object>()
    assert.equal(starting.length, 3)
    const named = { id: 'x', name: 'x', notes: 'x', done: true }
    assert.equal((await adminB.send('PUT', '/__admin/items', [named])).status, 204)
    assert.deepEqual(await b.list(), [named])
    assert.equal((await adminB.send('POST', '/__admin/reset')).status, 204)
    assert.deepEqual(await b.list(), starting)

    assert.match((await admin.send('POST', '/~ada/api/todoitems', item('ada'))).text, /^{"id":1,/)
    for (const [path, headers] of [
      ['/~ada/api/todoitems', {}],
      ['/api/todoitems', { 'x-todo-space': 'ada' }],
      ['/~ada/__admin/items', {}],
    ] as const)
      assert.deepEqual(JSON.parse((await admin.send('GET', path, undefined, headers)).text), [
        { id: 1, ...item('ada') },
      ])
    assert.deepEqual(await a.list(), [{ id: 1, ...item('z') }])
  })

  test('--wait-for-database logs once that it waits, and starts when the database is up', async (t) => {
    const cluster = await startPostgres()
    cleanUp(t, () => cluster.remove())
    await cluster.kill()
    const args = ['serve', '--profile', 'a', '--port', '0', '--wait-for-database']
    const waiting = start(t, args, { TODO_DATABASE_URL: cluster.url() })
    await waiting.prints(/^Waiting for the database\. No server is listening/)
    await cluster.start()
    await waiting.prints(/http:\/\/localhost:\d+/)
    assert.equal(waiting.stdout.match(/Waiting for the database\. No server/g)?.length, 1)
    await cluster.kill()
    const url = /http:\S+/.exec(waiting.stdout)?.[0] ?? ''
    while ((await createClient(url).send('GET', '/health/ready')).status === 200) await sleep(20)
    await waiting.prints(/^No server is listening \(.*\)\. Start it, or check --database-url\.\n/m)
    assert.doesNotMatch(waiting.stdout, /--wait-for-database/)
  })

  test('SIGTERM ends a start during which the database stops responding', async (t) => {
    const cluster = await sharedPostgres()
    const proxy = await startProxy(t, cluster.port)
    proxy.onBytes('server_encoding', 'blackhole')
    const url = (await newDatabase()).url.replace(`:${cluster.port}/`, `:${proxy.port}/`)
    const args = ['serve', '--profile', 'a', '--port', '0', '--wait-for-database']
    const starting = start(t, args, { TODO_DATABASE_URL: url })
    await proxy.triggered
    starting.process.kill('SIGTERM')
    assert.deepEqual(await starting.ended, { code: 0, stdout: '', stderr: '' })
  })

  test('--wait-for-database exits on SIGTERM', async (t) => {
    const args = ['serve', '--profile', 'a', '--port', '0', '--wait-for-database']
    const waiting = start(t, args, { TODO_DATABASE_URL: `postgres://127.0.0.1:${await freePort()}/x` })
    await waiting.prints(/Waiting/)
    waiting.process.kill('SIGTERM')
    assert.equal((await waiting.ended).code, 0)
  })
})

suite('TLS to the database', { concurrency: 4 }, () => {
  test('sslmode selects how the certificate is verified', async (t) => {
    const folder = temporaryFolder(t)
    const authority = await generate([{ name: 'commonName', value: 'db.invalid' }], {
      keySize: 2048,
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
    })
    const cert = join(folder, 'cert.pem')
    writeFileSync(cert, authority.cert)
    const cluster = await startPostgres(
      { ssl: 'on' },
      { 'server.crt': authority.cert, 'server.key': authority.private },
    )
    cleanUp(t, () => cluster.remove())
    const areEncrypted = async () => {
      const [row] =
        await cluster.sql`select bool_and(s.ssl) as all from pg_stat_ssl s join pg_stat_activity a using (pid) where a.application_name = 'todo-item-service'`
      return row?.all
    }
    const byName = cluster.url().replace('127.0.0.1', 'localhost')

    for (const parameters of [
      'sslmode=require',
      `sslmode=verify-full&sslrootcert=${cert}`,
      `sslmode=require&sslrootcert=${cert}`,
    ]) {
      const { running, url } = await Instance.start(t, `${cluster.url()}?${parameters}`)
      assert.equal((await fetch(`${url}/api/todoitems`)).status, 200)
      assert.equal(await areEncrypted(), true, parameters)
      running.process.kill('SIGTERM')
      assert.equal((await running.ended).code, 0)
    }
    await Instance.start(t, `${byName}?sslmode=verify-ca&sslrootcert=${cert}`)
    await assertFails(t, `${cluster.url()}?sslmode=verify-full`, /self-signed certificate/)
    await assertFails(t, `${byName}?sslmode=verify-full&sslrootcert=${cert}`, /altnames/)
  })
})
