import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startPostgres } from '../test/support/postgres.ts'
import { memoryOf } from '../test/support/process.ts'
import { runtimes } from '../test/support/runtimes.ts'
import { measure, type Samples, type Settings, startLoadGenerator, type Workload, withServers } from './measure.ts'
import { compareServers, type Finding, report, toFinding } from './report.ts'
import { compiledFile, type Server, type ServerConfig, startServer, thisService } from './server-process.ts'
import { measureWorkers } from './workers.ts'

type Profile = 'a' | 'b'

const parts = [
  'items',
  'lists',
  'growth',
  'memory',
  'start',
  'control',
  'file',
  'postgres',
  'workers',
  'runtimes',
  'frameworks',
]

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: parts.join() },
    rounds: { type: 'string' },
    against: { type: 'string', multiple: true, default: [] },
    'against-pid': { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', default: false },
  },
})
const selected = options.only.split(',')
const unknownPart = selected.find((part) => !parts.includes(part))

if (options.help || unknownPart !== undefined) {
  if (unknownPart !== undefined) process.stderr.write(`Unknown part: ${unknownPart}\n\n`)
  process.stdout.write(`npm run bench -- [--quick] [--only PARTS] [--rounds N] [--against NAME=URL [--against-pid PID] …]

  --quick             fewer and shorter windows, about two minutes; writes results/quick.*
  --only PARTS        separated by commas: ${parts.join(', ')}
  --rounds N          how often the servers are started for a comparison
  --against NAME=URL  compares requests per second with a server of Profile A that runs on this machine;
                      URL is that of its collection (parts items and frameworks). Its own items are not changed.
  --against-pid PID   id of its process: then CPU time per request is compared; one for each --against, in order
`)
  process.exit(unknownPart === undefined ? 0 : 2)
}

const settings: Settings = {
  rounds: Number(options.rounds ?? (options.quick ? 1 : 5)),
  windows: 3,
  windowMs: options.quick ? 300 : 1_000,
  warmUpMs: options.quick ? 1_000 : 6_000,
}
/** For servers that keep their items: in a second round, the ids would not start at 1. */
const oneRound = { ...settings, rounds: 1, windows: settings.rounds * settings.windows }
const findings: Finding[] = []
const progress = (text: string) => process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`)

const server = (name: string, file: string, ...args: string[]): ServerConfig => ({
  name,
  args: [compiledFile(`servers/${file}.js`), 'PORT', ...args],
})
const bare = (profile: Profile) => server('bare node:http', 'bare', profile)
const fastify = (profile: Profile) => server('Fastify', 'fastify', profile)
const bytesOnly = (profile: Profile) => server('bytes only', 'bytes-only', profile)

const externalServers: readonly ServerConfig[] = options.against.map((text, at) => {
  const [name = '', url = ''] = text.split(/=(.*)/)
  const pid = options['against-pid'][at]
  return { name, url, pid: pid === undefined ? undefined : Number(pid) }
})

const formatted = (count: number) => count.toLocaleString('en-US')

/** Profile B has no GET of one item (B10). */
const itemWorkloads = (profile: Profile, items: number, deletionsPerSecond = 20_000): readonly Workload[] => [
  ...(profile === 'a'
    ? ([
        { name: 'GET item', profile, items, operation: 'get' },
        { name: 'GET, 404', profile, items, operation: 'get-missing' },
      ] as const)
    : []),
  { name: 'POST', profile, items, operation: 'post' },
  { name: 'PUT', profile, items, operation: 'put' },
  { name: 'DELETE', profile, items, operation: 'delete', deletionsPerSecond },
]

const list = (profile: Profile, items: number, operation: Workload['operation'] = 'list', suffix = ''): Workload => ({
  name: `list of ${formatted(items)}${suffix}`,
  profile,
  items,
  operation,
})

async function compare(
  workloads: readonly Workload[],
  configs: readonly ServerConfig[],
  titleOf = ({ profile, name }: Workload) => `${profile.toUpperCase()} ${name}`,
  how = settings,
): Promise<void> {
  const samples = await measure(workloads, configs, how, (workload, round) =>
    progress(`${titleOf(workload)}, round ${round + 1} of ${how.rounds}`),
  )
  for (const [at, workload] of workloads.entries())
    findings.push(...compareServers(titleOf(workload), samples[at] ?? []))
}

async function compareItems(): Promise<void> {
  for (const profile of ['a', 'b'] as const)
    await compare(itemWorkloads(profile, 100), [thisService(profile), bare(profile), fastify(profile)])
  for (const external of externalServers) await compare(itemWorkloads('a', 100), [thisService('a'), external])
}

/** Servers compared with a bare one on Node: all at the same time. */
async function compareWithBare(others: readonly ServerConfig[], titleOf: (workload: string, server: string) => string) {
  const workloads = [...itemWorkloads('a', 10), list('a', 10)].filter(({ name }) => !/DELETE|404/.test(name))
  const samples = await measure(workloads, [bare('a'), ...others], settings, (workload, round) =>
    progress(`${workload.name}, round ${round + 1} of ${settings.rounds}`),
  )
  for (const [at, { name }] of workloads.entries()) {
    const [reference, ...rest] = samples[at] ?? []
    for (const other of rest)
      findings.push(...compareServers(titleOf(name, other.server), [other, reference as Samples]))
  }
}

/**
 * This service on each runtime, and what a constant response takes there. One at a time: another process on Node would make
 * the bare server cheaper.
 */
async function compareRuntimes(): Promise<void> {
  for (const { name, command, args, skip } of runtimes) {
    if (skip) {
      progress(`${name} is left out: ${skip}`)
      continue
    }
    const here = (config: ServerConfig) => ({ ...config, name, interpreter: [command, ...args] })
    await compareWithBare([here(thisService('a'))], (workload) => `${workload} on ${name}`)
    await compareWithBare([here(server('', 'constant'))], (workload) => `${workload}, constant, on ${name}`)
  }
}

/** A few at a time: with many on one core, none would get warm. */
async function compareFrameworks(): Promise<void> {
  const titleOf = (workload: string, name: string) => `${workload} of ${name}`
  await compareWithBare([fastify('a'), server('Hono', 'hono'), server('Express', 'express')], titleOf)
  for (const other of [server('json-server', 'json-server'), server('node:net', 'net'), ...externalServers])
    await compareWithBare([other], titleOf)
}

async function compareLists(): Promise<void> {
  const all = (profile: Profile) => [thisService(profile), bare(profile), fastify(profile), bytesOnly(profile)]
  for (const profile of ['a', 'b'] as const) await compare([list(profile, 10), list(profile, 1_000)], all(profile))
  await compare(
    [
      list('a', 10_000, 'list-with-writes', ', a write per ten reads'),
      list('a', 10_000, 'list-if-none-match', ', unchanged (If-None-Match)'),
    ],
    [thisService('a'), bare('a')],
  )
  // Two starts: it takes a minute to create 100,000 items, and these ratios are far from any target.
  for (const items of options.quick ? [10_000] : [10_000, 100_000])
    await compare([list('a', items)], [thisService('a'), bare('a'), bytesOnly('a')], undefined, {
      ...settings,
      rounds: Math.min(settings.rounds, 2),
    })
}

/** This service with few items, compared with itself with many. */
async function compareItemCounts(): Promise<void> {
  const counts = options.quick ? [10, 10_000] : [10, 1_000, 10_000, 100_000]
  for (const profile of options.quick ? (['a'] as const) : (['a', 'b'] as const))
    await compare(
      itemWorkloads(profile, 0),
      counts.map((items) => ({ ...thisService(profile), name: `${formatted(items)} items`, items })),
      ({ name }) => `${profile.toUpperCase()} ${name} with 10 items`,
    )
}

async function measureMemoryPerItem(): Promise<void> {
  progress('memory per item')
  const [warmUpItems, items] = [500, options.quick ? 20_000 : 100_000]
  const perItem = (config: ServerConfig) =>
    withServers([config], async ([started]) => {
      const { pid = 0, port, path } = started as Server
      const generator = startLoadGenerator(started as Server, 'a')
      await generator.prepare('post', warmUpItems)
      const before = memoryOf(pid)
      await generator.prepare('post', warmUpItems + items)
      await sleep(1_000)
      const used = memoryOf(pid) - before
      generator.kill()
      const json = await (await fetch(`http://127.0.0.1:${port}${path}`)).text()
      return used / items - json.length / (items + warmUpItems)
    })
  const [own, other] = [await perItem(thisService('a')), await perItem(bare('a'))]
  findings.push(toFinding('memory per item beyond its JSON', 'bare node:http', [own], [other], 'bytes'))
}

async function measureStart(): Promise<void> {
  const starts = options.quick ? 3 : 11
  const configs = [thisService('a'), server('Fastify hello', 'fastify-hello')]
  const samples = configs.map(() => ({ ms: [] as number[], cpuMs: [] as number[], megabytes: [] as number[] }))
  for (let count = 1; count <= starts; count++) {
    progress(`start ${count} of ${starts}`)
    for (const [at, config] of configs.entries())
      await withServers([config], async ([started]) => {
        const { startMs, startCpuMs, pid = 0 } = started as Server
        await sleep(300)
        samples[at]?.ms.push(startMs)
        samples[at]?.cpuMs.push(startCpuMs)
        samples[at]?.megabytes.push(memoryOf(pid) / 2 ** 20)
      })
  }
  const [own, other] = samples
  if (!own || !other) return
  findings.push(
    toFinding('start to first response', 'Fastify hello', own.ms, other.ms, 'ms'),
    toFinding('CPU time to first response', 'Fastify hello', own.cpuMs, other.cpuMs, 'ms'),
    toFinding('idle memory (RSS)', 'Fastify hello', own.megabytes, other.megabytes, 'MB'),
  )
}

/** Development mode with its control API, unused, and without it. */
async function compareControl(): Promise<void> {
  const flags = ['--mode', 'development', '--no-https', '--log-level', 'error']
  const withoutControl = { ...thisService('a', ...flags, '--no-admin'), name: 'without control' }
  const workloads = [...itemWorkloads('a', 100), list('a', 100)]
  await compare(workloads, [thisService('a', ...flags), withoutControl], ({ name }) => `development: ${name}`)
}

/** Items in a data file, compared with items in memory and with the same SQL; on tmpfs an fsync costs nothing. */
async function compareFile(): Promise<void> {
  const folders = {
    file: mkdtempSync(join(tmpdir(), 'todo-bench-')),
    ...(existsSync('/dev/shm') && { tmpfs: mkdtempSync('/dev/shm/todo-bench-') }),
  }
  const memory = { ...thisService('a'), name: 'items in memory' }
  try {
    for (const [name, folder] of Object.entries(folders)) {
      const own = thisService('a', '--data', join(folder, 'PORT.db'))
      const sameSql = server('bare node:http, same SQL', 'bare-sqlite', join(folder, 'bare.db'))
      // This service creates the tables.
      await (await startServer(thisService('a', '--data', join(folder, 'bare.db')))).stop()
      await compare(
        [
          ...itemWorkloads('a', 100, 2_000),
          list('a', 10),
          list('a', 1_000),
          list('a', 10_000, 'list-with-writes', ', a write per ten reads'),
        ],
        [own, memory, sameSql],
        ({ name: workload }) => `${name}: ${workload}`,
        oneRound,
      )
    }
    await measureStartWithFile(folders.file)
  } finally {
    for (const folder of Object.values(folders)) rmSync(folder, { recursive: true })
  }
}

async function measureStartWithFile(folder: string): Promise<void> {
  const items = Array.from({ length: 100_000 }, (_, at) => `{"id":${at + 1},"name":"walk the dog","isComplete":false}`)
  const [json, data] = [join(folder, 'items.json'), join(folder, 'start.db')]
  writeFileSync(json, `{"a":[${items.join()}]}`)
  execFileSync(process.execPath, [compiledFile('../src/cli.js'), 'items', 'import', json, '--data', data], {
    stdio: 'ignore',
  })
  const times: number[][] = [[], []]
  for (let count = 0; count < (options.quick ? 3 : 7); count++)
    for (const [at, config] of [thisService('a', '--data', data), thisService('a')].entries())
      await withServers([config], async ([started]) => times[at]?.push((started as Server).startMs))
  findings.push(
    toFinding(
      'file: start to the first list of 100,000',
      'items in memory, none',
      times[0] ?? [],
      times[1] ?? [],
      'ms',
    ),
  )
}

async function comparePostgres(): Promise<void> {
  progress('starting PostgreSQL')
  const cluster = await startPostgres()
  const url = cluster.url('bare')
  try {
    // Each server has its own database; this service creates the tables in both.
    await cluster.sql`create database bare`
    await (await startServer(thisService('a', '--database-url', url))).stop()
    const workloads = [...itemWorkloads('a', 1_000, 4_000), list('a', 10), list('a', 1_000)]
    await compare(
      [...workloads, ...workloads.map((one) => ({ ...one, name: `${one.name}, 64 clients`, clients: 64 }))],
      [thisService('a', '--database-url', cluster.url()), server('bare node:http, same SQL', 'bare-postgres', url)],
      ({ name }) => `PostgreSQL: ${name}`,
      oneRound,
    )
  } finally {
    await cluster.remove()
  }
}

async function compareWorkers(): Promise<void> {
  progress('workers')
  const cluster = await startPostgres()
  try {
    findings.push(...(await measureWorkers(cluster.url(), settings.rounds * settings.windows, settings.windowMs)))
  } finally {
    await cluster.remove()
  }
}

if (selected.includes('items')) await compareItems()
if (selected.includes('lists')) await compareLists()
if (selected.includes('growth')) await compareItemCounts()
if (selected.includes('memory')) await measureMemoryPerItem()
if (selected.includes('start')) await measureStart()
if (selected.includes('control')) await compareControl()
if (selected.includes('file')) await compareFile()
if (selected.includes('postgres')) await comparePostgres()
if (selected.includes('workers')) await compareWorkers()
if (selected.includes('runtimes')) await compareRuntimes()
if (selected.includes('frameworks')) await compareFrameworks()

progress('')
const isOfRuntimes = selected.every((part) => part === 'runtimes' || part === 'frameworks')
report(findings, settings, options.quick ? 'quick' : isOfRuntimes ? 'runtimes' : 'latest')
