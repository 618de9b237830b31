import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import postgres from 'postgres'
import { generate } from 'selfsigned'
import { run, start } from '../support/cli.ts'
import { newDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Instance, item } from '../support/instance.ts'
import { freePort } from '../support/port.ts'
import { startPostgres } from '../support/postgres.ts'
import { sharedPostgres } from '../support/stores.ts'
import { wireTo } from '../support/wire.ts'

const serve = (t: TestContext, url: string, ...args: string[]) =>
  run(t, ['serve', '--profile', 'a', '--port', '0', ...args], { TODO_DATABASE_URL: url })

/** The start fails with one sentence, and without the password. */
async function fails(t: TestContext, url: string, sentence: RegExp, ...args: string[]) {
  const { code, stdout, stderr } = await serve(t, url, ...args)
  assert.equal(code, 1, stderr)
  assert.equal(stdout, '')
  assert.match(stderr, /^todo-service: [^\n]*\.\n$/)
  assert.match(stderr, sentence)
  assert.doesNotMatch(stderr, /sesame/)
}

suite('serve --database-url says in one sentence why it cannot start', () => {
  test('nobody listens', async (t) =>
    fails(
      t,
      `postgres://u:sesame@127.0.0.1:${await freePort()}/x`,
      /No server answers \(database x at 127\.0\.0\.1:\d+\)/,
    ))

  test('the host is unknown', async (t) =>
    fails(t, 'postgres://u:sesame@no.such.host.invalid/x', /unknown \(database x at no\.such\.host\.invalid:5432\)/))

  test('the password is wrong', async (t) => {
    const { url } = await newDatabase()
    await fails(t, url.replace('sesame', 'sesame2'), /The user or the password is refused/)
  })

  test('there is no such database', async (t) => {
    const { url } = await newDatabase()
    await fails(t, `${url}_not`, /There is no such database/)
  })

  test('a right is missing', async (t) => {
    const { sql } = await sharedPostgres()
    const { url } = await newDatabase('reader')
    await sql.unsafe(`create role reader login password 'sesame'`)
    await fails(t, url, /A right is missing .*: permission denied for database/)
  })

  test('a newer version made the tables', async (t) => {
    const { url } = await newDatabase()
    const first = await Instance.start(t, url)
    first.running.process.kill('SIGTERM')
    await first.running.ended
    const sql = postgres(url)
    await sql`insert into todo.version values (99)`
    await sql.end()
    await fails(t, url, /version 99, this program knows \d+/)
    await fails(t, url, /version 99/, '--wait-for-database')
  })

  test('its encoding cannot hold every text', async (t) => {
    const { sql, url } = await sharedPostgres()
    await sql.unsafe(`create database latin encoding 'LATIN1' template template0`)
    await fails(t, url('latin'), /keeps text as LATIN1/)
  })

  test('a database that takes no writes', async (t) => {
    const { sql } = await sharedPostgres()
    const { name, url } = await newDatabase()
    await sql.unsafe(`alter database ${name} set default_transaction_read_only = on`)
    await fails(t, url, /takes no writes/)
  })

  test('the server offers no encryption', async (t) => {
    const { url } = await newDatabase()
    await fails(t, `${url}?sslmode=require`, /when asked for encryption/)
  })
})

suite('serve, told about a database', () => {
  test('refuses a URL that it does not understand, and does not repeat it', async (t) => {
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

  test('refuses what needs a database, without one', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--database-schema', 'x', '--wait-for-database'])
    assert.equal(code, 2)
    assert.match(stderr, /--database-schema needs --database-url\.\n.*--wait-for-database needs --database-url\./)
  })

  test('refuses a name that is no schema', async (t) => {
    const { stderr } = await serve(t, 'postgres://h/d', '--database-schema', 'x"; drop')
    assert.match(stderr, /--database-schema must be a lower-case name/)
  })

  test('says where the items are, and never the password', async (t) => {
    const { url, name } = await newDatabase()
    const { running, url: at } = await Instance.start(t, url, 'a', ['--log-level', 'info'])
    await fetch(`${at}/api/todoitems`)
    running.process.kill('SIGTERM')
    const { code, stdout, stderr } = await running.ended
    assert.equal(code, 0)
    assert.match(stdout, new RegExp(`items in PostgreSQL, schema todo of database ${name} at 127\\.0\\.0\\.1:\\d+\n`))
    assert.doesNotMatch(stdout + stderr, /sesame/)
  })

  test('keeps each schema to itself', async (t) => {
    const { url } = await newDatabase()
    const [one, other] = await Promise.all(
      ['one', 'other'].map((name) => Instance.start(t, url, 'a', ['--database-schema', name])),
    )
    await one?.send('POST', '', item('x'))
    assert.deepEqual(await other?.list(), [])
  })

  test('needs no more rights than to read and write, once the tables are there', async (t) => {
    const cluster = await sharedPostgres()
    const { name, url } = await newDatabase()
    await Instance.start(t, url)
    await cluster.sql.unsafe(`create role writer login password 'sesame'`)
    const sql = postgres(url)
    await sql.unsafe(
      `grant usage on schema todo to writer; grant select, insert, update, delete on all tables in schema todo to writer`,
    )
    await sql.end()
    const instance = await Instance.start(t, cluster.url(name, 'writer'))
    assert.equal((await instance.send('POST', '', item('x'))).status, 201)
    assert.equal((await instance.send('PUT', '/1', { id: 1, ...item('y') })).status, 204)
    assert.deepEqual(await instance.list(), [{ id: 1, ...item('y') }])
    assert.equal((await instance.send('DELETE', '/1')).status, 204)
  })

  test('--wait-for-database: says what it waits for, and starts when it is there', async (t) => {
    const cluster = await startPostgres()
    t.after(() => cluster.remove())
    await cluster.kill()
    const args = ['serve', '--profile', 'a', '--port', '0', '--wait-for-database']
    const waiting = start(t, args, { TODO_DATABASE_URL: cluster.url() })
    await waiting.prints(/^Waiting for the database\. No server answers/)
    await cluster.start()
    await waiting.prints(/http:\/\/localhost:\d+/)
    assert.equal(waiting.stdout.match(/Waiting/g)?.length, 1)
  })

  test('a signal ends a start in which the database stops to answer', async (t) => {
    const cluster = await sharedPostgres()
    const wire = await wireTo(t, cluster.port)
    wire.cutOn('server_encoding', 'silently')
    const url = (await newDatabase()).url.replace(`:${cluster.port}/`, `:${wire.port}/`)
    const args = ['serve', '--profile', 'a', '--port', '0', '--wait-for-database']
    const starting = start(t, args, { TODO_DATABASE_URL: url })
    await wire.isCaught
    starting.process.kill('SIGTERM')
    assert.deepEqual(await starting.ended, { code: 0, stdout: '', stderr: '' })
  })

  test('--wait-for-database: a signal ends the waiting', async (t) => {
    const args = ['serve', '--profile', 'a', '--port', '0', '--wait-for-database']
    const waiting = start(t, args, { TODO_DATABASE_URL: `postgres://127.0.0.1:${await freePort()}/x` })
    await waiting.prints(/Waiting/)
    waiting.process.kill('SIGTERM')
    assert.equal((await waiting.ended).code, 0)
  })
})

suite('TLS to the database', () => {
  test('sslmode says how much is checked', async (t) => {
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
    t.after(() => cluster.remove())
    const encrypted = () =>
      cluster.sql`select count(*)::int as n from pg_stat_ssl s join pg_stat_activity a using (pid) where s.ssl and a.application_name = 'todo-item-service'`
    const byName = cluster.url().replace('127.0.0.1', 'localhost')

    for (const parameters of [
      'sslmode=require',
      `sslmode=verify-full&sslrootcert=${cert}`,
      `sslmode=require&sslrootcert=${cert}`,
    ]) {
      const { running, url } = await Instance.start(t, `${cluster.url()}?${parameters}`)
      assert.equal((await fetch(`${url}/api/todoitems`)).status, 200)
      assert.equal((await encrypted())[0]?.n, 1, parameters)
      running.process.kill('SIGTERM')
      assert.equal((await running.ended).code, 0)
    }
    await Instance.start(t, `${byName}?sslmode=verify-ca&sslrootcert=${cert}`)
    await fails(t, `${cluster.url()}?sslmode=verify-full`, /self-signed certificate/)
    await fails(t, `${byName}?sslmode=verify-full&sslrootcert=${cert}`, /altnames/)
  })
})
