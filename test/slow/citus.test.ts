import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { verify } from '../../src/verify/index.ts'
import { cleanUp } from '../support/cleanup.ts'
import { uniqueName } from '../support/database.ts'
import { Instance, item } from '../support/instance.ts'
import { openSql, type Sql } from '../support/sql.ts'

/** A coordinator with two workers on this machine, which may be killed and started again. */
const { CITUS_URL: url = '' } = process.env

/** A request may take the time limit of the service, and a slow machine a second more. */
const maxResponseMs = 6_500

const docs = readFileSync(new URL('../../../docs/operations.md', import.meta.url), 'utf8')

/** Tables that are distributed as docs/operations.md says. */
async function distribute(t: TestContext) {
  const schema = uniqueName('todo')
  const sql = openSql(url)
  cleanUp(t, () => sql.end())
  const flags = ['--database-schema', schema]
  const start = (profile: 'a' | 'b') => Instance.start(t, url, profile, flags)
  const [a, b] = [await start('a'), await start('b')]
  const statements = [...docs.matchAll(/^select create_distributed_table\(.*\);$/gm)].map(([statement]) => statement)
  assert.equal(statements.length, 2)
  for (const statement of statements) await sql.unsafe(statement.replaceAll("'todo.", `'${schema}.`))
  cleanUp(t, async () => {
    // Its session has lost a worker that was killed.
    await sql.unsafe(`drop schema ${schema} cascade`).catch(() => sql.unsafe(`drop schema ${schema} cascade`))
  })
  return { schema, sql, a, b, start }
}

const query = async (sql: Sql, text: string) => ((await sql.unsafe(text)) as { rows: Record<string, unknown>[] }).rows

/** The port of the node that has each of these spaces. */
async function nodesOf(sql: Sql, schema: string, names: readonly string[]): Promise<Map<string, number>> {
  const rows = await query(
    sql,
    `
    select name, nodeport from unnest(array['${names.join("','")}']) as name
    join pg_dist_shard_placement on shardid = get_shard_id_for_distribution_column('${schema}.collections', name)`,
  )
  return new Map(rows.map(({ name, nodeport }) => [String(name), Number(nodeport)]))
}

interface Outcome {
  readonly space: string
  readonly name: string
  readonly status: number
  readonly milliseconds: number
}

/** Eight clients of each instance create items in these spaces until they are stopped. */
function writeTo(instances: readonly Instance[], spaces: readonly string[]) {
  const outcomes: Outcome[] = []
  let isStopped = false
  let count = 0
  const write = async (instance: Instance) => {
    while (!isStopped) {
      const space = spaces[count % spaces.length] as string
      const name = `item ${++count}`
      const sentAt = performance.now()
      const response = await fetch(`${instance.url}/~${space}/api/todoitems`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name, isComplete: false }),
      })
      await response.text()
      outcomes.push({ space, name, status: response.status, milliseconds: performance.now() - sentAt })
    }
  }
  const writers = instances.flatMap((instance) => Array.from({ length: 8 }, () => write(instance)))
  return {
    outcomes,
    async stop() {
      isStopped = true
      await Promise.all(writers)
      return outcomes
    },
  }
}

/** Every item that was acknowledged is there, once. */
async function assertKept({ url }: Instance, outcomes: readonly Outcome[]): Promise<void> {
  const spaces = new Set(outcomes.map(({ space }) => space))
  for (const space of spaces) {
    const written = outcomes.filter((one) => one.space === space)
    const response = await fetch(`${url}/~${space}/api/todoitems`)
    const items = (await response.json()) as { id: number; name: string }[]
    const names = new Map(items.map(({ name }) => [name, items.filter((other) => other.name === name).length]))
    for (const { name, status } of written) if (status === 201) assert.equal(names.get(name), 1, `${space}: ${name}`)
    assert.deepEqual(
      items.map(({ id }) => id),
      items.map(({ id }) => id).toSorted((one, other) => one - other),
    )
    assert.equal(new Set(items.map(({ id }) => id)).size, items.length)
  }
}

/** A worker of the cluster, by what it says of itself. */
async function workerAt(sql: Sql, port: number) {
  const ask = async (asked: string) => {
    const rows = await query(
      sql,
      `select result from run_command_on_workers($command$${asked}$command$) where nodeport = ${port}`,
    )
    return String(rows[0]?.result)
  }
  const directory = await ask('show data_directory')
  const programs = await ask("select setting from pg_config where name = 'BINDIR'")
  const pid = Number((await ask("select pg_read_file('postmaster.pid')")).split('\n', 1)[0])
  const { uid, gid } = statSync(directory)
  return {
    kill: () => process.kill(pid, 'SIGKILL'),
    /** Its other processes end when they notice, and keep the memory until then. */
    async restart() {
      const args = ['-D', directory, '-l', `${directory}.log`, '-w', 'start']
      while (
        spawnSync(`${programs}/pg_ctl`, args, { uid, gid, stdio: 'ignore', env: { HOME: directory } }).status !== 0
      )
        await sleep(200)
    },
  }
}

suite('Citus', { skip: url === '' && 'CITUS_URL names no cluster' }, () => {
  test('both contracts hold in spaces on distributed tables', async (t) => {
    const { a, b } = await distribute(t)
    for (const [profile, instance] of Object.entries({ a, b }) as ['a' | 'b', Instance][]) {
      const { ok, failed } = await verify({ profile, url: `${instance.url}/~ada` })
      assert.deepEqual([ok, failed], [true, 0])
    }
  })

  test('a worker that is killed: other spaces see no failure, its spaces get 503 in time, and lose nothing', async (t) => {
    const { schema, sql, a, start } = await distribute(t)
    const spaces = Array.from({ length: 1_000 }, (_, index) => `space-${index}`)
    const nodes = await nodesOf(sql, schema, spaces)
    const killedPort = Math.max(...nodes.values())
    const worker = await workerAt(sql, killedPort)
    const writing = writeTo([a, await start('a')], spaces)
    while (writing.outcomes.length < 1_500) await sleep(50)
    worker.kill()
    const isOnKilled = ({ space }: Outcome) => nodes.get(space) === killedPort
    const failures = () => writing.outcomes.filter(({ status }) => status !== 201)
    while (failures().length < 200) await sleep(50)
    await worker.restart()
    const restartedAt = writing.outcomes.length
    while (writing.outcomes.slice(restartedAt).filter((one) => isOnKilled(one) && one.status === 201).length < 500)
      await sleep(50)
    const outcomes = await writing.stop()
    assert.deepEqual(
      failures().filter((one) => !isOnKilled(one)),
      [],
    )
    assert.deepEqual([...new Set(failures().map(({ status }) => status))], [503])
    const slowest = Math.max(...outcomes.map(({ milliseconds }) => milliseconds))
    assert.ok(slowest < maxResponseMs, `${slowest} ms`)
    // A commit that the killed worker had prepared is visible once Citus has recovered it, which it does every minute.
    const recover = () => query(sql, 'select recover_prepared_transactions() as count')
    // The first attempt may use a connection to the worker that was killed.
    const recovered = await recover().catch(recover)
    t.diagnostic(`${recovered[0]?.count} commits were recovered`)
    await assertKept(a, outcomes)
  })

  test('a shard that is moved while its spaces are written loses nothing', async (t) => {
    const { schema, sql, a, start } = await distribute(t)
    const spaces = Array.from({ length: 50 }, (_, index) => `space-${index}`)
    const writing = writeTo([a, await start('a')], spaces)
    while (writing.outcomes.length < 200) await sleep(50)
    const [shard = assert.fail()] = await query(
      sql,
      `
      select placement.shardid, source.nodeport as source,
        (select min(nodeport) from pg_dist_node as other
          where other.nodeport <> source.nodeport and other.shouldhaveshards) as target
      from pg_dist_shard_placement as placement join pg_dist_node as source on source.nodeport = placement.nodeport
      where shardid = get_shard_id_for_distribution_column('${schema}.collections', 'space-0')`,
    )
    await sql.unsafe(`
      select citus_move_shard_placement(${shard.shardid}, '127.0.0.1', ${shard.source}, '127.0.0.1', ${shard.target})`)
    const movedAt = writing.outcomes.length
    while (writing.outcomes.length < movedAt + 500) await sleep(50)
    const outcomes = await writing.stop()
    for (const { status } of outcomes) assert.ok(status === 201 || status === 503, `${status}`)
    const moved = outcomes.filter(({ space }) => space === 'space-0')
    assert.equal(moved.at(-1)?.status, 201)
    assert.notEqual((await nodesOf(sql, schema, ['space-0'])).get('space-0'), Number(shard.source))
    await assertKept(a, outcomes)
    assert.equal((await a.send('POST', '', item('x'))).status, 201)
  })
})
