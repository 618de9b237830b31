import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { describeDatabaseError } from '../../src/store/postgres/store.ts'
import { readDatabaseUrl } from '../../src/store/postgres/url.ts'
import { UnavailableError } from '../../src/store/store.ts'
import { cleanUp } from '../support/cleanup.ts'
import { newDatabase, sharedPostgres } from '../support/database.ts'
import { message } from '../support/postgres-messages.ts'
import { openPostgres, type Stores } from '../support/stores.ts'
import { startProxy } from '../support/tcp-proxy.ts'

const int16 = (value: number) => Buffer.from([(value >> 8) & 255, value & 255])
const int32 = (value: number) => Buffer.concat([int16(value >> 16), int16(value)])
const bytes = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map((part) => Buffer.from(part)))

/** What no PostgreSQL sends in response to a statement, or before it. */
const unexpected: Readonly<Record<string, Buffer>> = {
  'GSSAPI authentication': message('R', int32(7)),
  'an unknown authentication': message('R', int32(99)),
  'an authentication without its kind': message('R', ''),
  'MD5 authentication without salt': message('R', int32(5)),
  'SASL authentication with unknown mechanisms': message('R', bytes(int32(10), 'X\0\0')),
  'the next step of SASL': message('R', bytes(int32(11), 'r=x')),
  'the end of SASL': message('R', bytes(int32(12), 'v=x')),
  'an unknown type': message('#', 'x'),
  'the length 0': bytes('Z', int32(0)),
  'the length -1': bytes('Z', int32(-1)),
  'a length of 2 GB': bytes('D', int32(0x7fffffff)),
  'an error without fields': message('E', ''),
  'an error without an end': message('E', 'SERROR\0C42000\0'),
  'an error with half a field': message('E', 'SERROR'),
  'a notice without an end': message('N', 'SNOTICE\0'),
  'a row with -1 columns': message('D', int16(-1)),
  'a row with missing columns': message('D', int16(3)),
  'a row with a column of -2 bytes': message('D', bytes(int16(1), int32(-2))),
  'a row with a column of 1 GB': message('D', bytes(int16(1), int32(2 ** 30))),
  'the description of 32,767 missing columns': message('T', int16(32767)),
  'the description of -1 columns': message('T', int16(-1)),
  'rows without a description': bytes(
    message('D', bytes(int16(1), int32(1), 'x')),
    message('C', 'SELECT 1\0'),
    message('Z', 'I'),
  ),
  'a command without its name': message('C', ''),
  'COPY in': message('G', bytes('\0', int16(1))),
  'COPY out': message('H', bytes('\0', int16(1), int16(0))),
  'an unexpected BackendKeyData': message('K', ''),
  'parameters without values': message('S', ''),
  HTTP: Buffer.from('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'),
  'an error of protocol 2': Buffer.from('Ecould not fork new process\n\0'),
  SSH: Buffer.from('SSH-2.0-OpenSSH_9.2\r\n'),
  'zero bytes': Buffer.alloc(1_000),
  'high bytes': Buffer.alloc(1_000, 255),
}

/** Where the machine is busy, a response may take longer than the pool waits for it. */
async function untilListed({ list }: Stores['a']): Promise<void> {
  while (await Promise.resolve(list()).then(() => false, isUnavailable));
}

function isUnavailable(error: unknown): true {
  if (error instanceof UnavailableError) return true
  throw error
}

suite('a server that does not speak as PostgreSQL does', { concurrency: 4 }, () => {
  let database: ReturnType<typeof newDatabase> | undefined
  async function openBehindProxy(t: TestContext) {
    const { port } = await sharedPostgres()
    database ??= newDatabase()
    const { url } = await database
    const proxy = await startProxy(t, port)
    return { proxy, ...(await openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`))) }
  }

  for (const [kind, response] of Object.entries(unexpected))
    test(`${kind}: that connection is lost, and requests succeed on others`, async (t) => {
      const { a, proxy } = await openBehindProxy(t)
      await untilListed(a)
      proxy.respond('is answered wrongly', response)
      await assert.rejects(async () => a.create({ name: 'is answered wrongly', isComplete: false }), UnavailableError)
      await untilListed(a)
    })

  const description = (column: string) =>
    message('T', bytes(int16(1), `${column}\0`, int32(0), int16(0), int32(20), int16(8), int32(-1), int16(0)))
  const row = message('D', bytes(int16(1), int32(1), '7'))
  const results: Readonly<Record<string, readonly [operation: 'create' | 'update', result: Buffer]>> = {
    'another command': ['create', bytes(description('id'), row, message('C', 'SELECT 1\0'))],
    'another column': ['create', bytes(description('key'), row, message('C', 'INSERT 0 1\0'))],
    'two rows': ['create', bytes(description('id'), row, row, message('C', 'INSERT 0 2\0'))],
    'fewer rows than counted': ['create', bytes(description('id'), message('C', 'INSERT 0 1\0'))],
    'no row': ['create', bytes(description('id'), message('C', 'INSERT 0 0\0'))],
    'two updated rows': ['update', bytes(message('n', ''), message('C', 'UPDATE 2\0'))],
    'a row of an update': ['update', bytes(description('id'), row, message('C', 'UPDATE 1\0'))],
    'an update that is a deletion': ['update', bytes(message('n', ''), message('C', 'DELETE 1\0'))],
  }
  for (const [kind, [operation, result]] of Object.entries(results))
    test(`A15 ${kind} is no result of the statement that was sent`, async (t) => {
      const { a, proxy } = await openBehindProxy(t)
      const fields = { name: 'is answered wrongly', isComplete: false }
      proxy.respond(fields.name, bytes(message('1', ''), message('2', ''), result, message('Z', 'I')))
      await assert.rejects(
        async () => (operation === 'create' ? a.create(fields) : a.update('7', fields)),
        UnavailableError,
      )
    })

  test('A15 a ReadyForQuery too many does not give a statement the result of another', async (t) => {
    const { a, proxy } = await openBehindProxy(t)
    const fields = { name: 'is answered wrongly', isComplete: false }
    const ready = message('Z', 'I')
    const result = bytes(description('id'), row, message('C', 'INSERT 0 1\0'))
    proxy.respond(fields.name, bytes(ready, message('1', ''), message('2', ''), result, ready))
    // Two statements in one packet.
    const outcomes = await Promise.allSettled([a.create(fields), a.update('7', fields)])
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected'],
    )
  })

  test('A15 connections that are open go on while new ones get an unknown authentication', async (t) => {
    const { port, sql } = await sharedPostgres()
    const { name, url } = await newDatabase()
    const proxy = await startProxy(t, port)
    const { a } = await openPostgres(t, url.replace(`:${port}/`, `:${proxy.port}/`))
    const open = async () => (await sql`select pid from pg_stat_activity where datname = ${name}`).map(({ pid }) => pid)
    // Each waits for its own connection.
    while ((await open()).length < 3) await Promise.all(Array.from({ length: 20 }, async () => a.get('1')))
    proxy.respond('application_name', message('R', int32(7)), Number.POSITIVE_INFINITY)
    // Another connection may be about to open.
    const [ended] = await open()
    await sql`select pg_terminate_backend(${ended})`
    while ((await open()).includes(ended)) await sleep(10)
    const outcomes: unknown[] = []
    for (let round = 0; round < 100; round++) outcomes.push(await Promise.resolve(a.get('1')).catch(() => 'failed'))
    // One may have been sent on the connection that was lost.
    assert.ok(outcomes.filter((outcome) => outcome !== 'not-found').length <= 1, `${outcomes}`)
  })

  for (const [kind, greeting] of Object.entries(unexpected))
    test(`${kind}: the service does not start, and says why`, async (t) => {
      const url = await startServer(t, (socket) => socket.once('data', () => socket.end(greeting)))
      const error = await openPostgres(t, url).then(
        () => assert.fail('It was opened.'),
        (cause: unknown) => cause,
      )
      const database = readDatabaseUrl(url)
      assert.ok(database)
      assert.match(describeDatabaseError(error, database), /^The database cannot be used \(.*\): .+\.$/)
    })
})

test('the message says what to set where a server requires a password, or a pooler refuses start parameters', async (t) => {
  const greetings = {
    password: message('R', int32(3)),
    scram: message('R', bytes(int32(10), 'SCRAM-SHA-256\0\0')),
    pooler: message('E', 'SFATAL\0C08P01\0Munsupported startup parameter: statement_timeout\0\0'),
  }
  for (const [kind, greeting] of Object.entries(greetings)) {
    const url = (await startServer(t, (socket) => socket.once('data', () => socket.write(greeting)))).replace(
      ':sesame',
      '',
    )
    const database = readDatabaseUrl(url)
    assert.ok(database)
    const error = await openPostgres(t, url).catch((cause: unknown) => cause)
    assert.match(
      describeDatabaseError(error, database),
      kind === 'pooler'
        ? /set ignore_startup_parameters = statement_timeout\.$/
        : /: The server requires a password: add it to --database-url, or set PGPASSWORD\.$/,
    )
  }
})

async function startServer(t: TestContext, onConnection: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    onConnection(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanUp(t, () => server.close())
  return `postgres://todo:sesame@127.0.0.1:${(server.address() as AddressInfo).port}/todo`
}
