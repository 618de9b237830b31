/** Counts the faulty servers of test/verify/servers that verify finds, and other tools. `npm run mutation -- --help` */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { start } from '../src/index.ts'
import { verify } from '../src/verify/index.ts'
import { pretty } from '../src/verify/report/pretty.ts'
import { correctServers, faultyServers, startServer } from '../test/verify/servers/index.ts'
import { ReferenceA, ReferenceB } from '../test/verify/servers/reference.ts'
import { type Job, runInWorkers } from './mutation/pool.ts'
import type { Profile } from './mutation/requests.ts'
import { install, rivals, writeFiles } from './mutation/rivals.ts'
import {
  isBlamed,
  isMissed,
  kinds,
  type Result,
  type Row,
  type Run,
  rowsByKind,
  rowsByRule,
  type Score,
  surprises,
  toChart,
  toMarkdown,
  toScore,
  toSeconds,
  toText,
} from './mutation/score.ts'

const root = new URL('../../', import.meta.url)
const jobTimeoutMs = 300_000
/** A run of verify waits as long as it computes. */
const verifyRunsPerCore = 2

interface Server {
  readonly id: string
  readonly profile: Profile
  /** A correct server gives its clients URIs with this base. */
  readonly publicUrl?: string
  open(): Promise<{ url: string; token: string; otherToken?: string; close(): unknown }>
}

/** Every tool must be green for these before its other results count. */
const baseline: readonly Server[] = (['a', 'b'] as const).flatMap((profile) => [
  {
    id: `reference-${profile}`,
    profile,
    open: () => startServer({ create: (options) => new ({ a: ReferenceA, b: ReferenceB })[profile](options).create() }),
  },
  {
    id: `this-service-${profile}`,
    profile,
    async open() {
      const server = await start({ profile })
      return { url: server.url, token: await server.token({ name: 'ada' }), close: () => server.close() }
    },
  },
])
const correct: readonly Server[] = correctServers.map((server) => ({ ...server, open: () => startServer(server) }))
const faulty: readonly Server[] = faultyServers.map((server) => ({ ...server, open: () => startServer(server) }))
const groups = { baseline, correct, faulty }

async function runJob({ tool, group, id }: Job, folder: string): Promise<Run> {
  const server = groups[group].find((one) => one.id === id)
  if (!server) throw new Error(`There is no server ${id}.`)
  const { url, token, otherToken, close } = await server.open()
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  const { profile, publicUrl } = server
  try {
    const rival = rivals.find(({ name }) => name === tool)
    if (rival) {
      const failed = await rival.run({ folder, profile, url, token })
      return { id, failed, notes: [], lines: 0, seconds: seconds() }
    }
    const verification = await verify({ url, profile, token, otherToken, publicUrl, fresh: group === 'faulty' })
    const rulesWith = (status: string) =>
      verification.outcomes.filter((outcome) => outcome.status === status).map(({ rule }) => rule)
    return {
      id,
      failed: rulesWith('failed'),
      notes: rulesWith('deviates'),
      lines: pretty(verification).trimEnd().split('\n').length,
      seconds: seconds(),
      ...(verification.complete ? {} : { problem: 'the run is not complete' }),
    }
  } catch (cause) {
    return { id, failed: [], notes: [], lines: 0, seconds: seconds(), problem: `${cause}` }
  } finally {
    await close()
  }
}

async function main(args: readonly string[]): Promise<number> {
  const { values: options } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string', default: '' },
      every: { type: 'string', default: '1' },
      rivals: { type: 'boolean', default: false },
      tools: { type: 'string' },
      scores: { type: 'string', default: '' },
      workers: { type: 'string', default: `${availableParallelism()}` },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (options.help) {
    print(help)
    return 0
  }
  const folder = mkdtempSync(join(tmpdir(), 'mutation-'))
  try {
    return await score({
      ...options,
      folder,
      only: new RegExp(options.only),
      every: Number(options.every),
      workers: Number(options.workers),
      tools: options.tools?.split(',') ?? ['verify', ...(options.rivals ? rivals.map(({ name }) => name) : [])],
      scoresFile: options.scores,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const help = `npm run mutation -- [--only PATTERN] [--rivals | --tools NAMES] [--every N] [--workers N] [--scores FILE] [--write]

Runs every faulty server and every correct one of test/verify/servers against verify. Exit code 1: a fault that the
specification forbids and a client can see is missed, or a correct server is blamed.

  --only PATTERN  servers whose id matches this regular expression
  --rivals        also runs other tools, which npm installs into a temporary folder
  --tools NAMES   only these, separated by commas: ${['verify', ...rivals.map(({ name }) => name)].join(', ')}
  --every N       for the other tools, every Nth faulty server of each kind only
  --workers N     runs of another tool at a time (the number of cores); of verify, twice as many
  --scores FILE   keeps the scores there, and takes from it those of tools that are not run
  --write         writes docs/mutation.svg and the table in docs/verify.md
`

interface Settings {
  readonly folder: string
  readonly only: RegExp
  readonly every: number
  readonly workers: number
  readonly tools: readonly string[]
  readonly scoresFile: string
  readonly write: boolean
}

async function score(settings: Settings): Promise<number> {
  const { only, tools, folder, every, scoresFile, write } = settings
  const faults = faultyServers.filter(({ id }) => only.test(id))
  const sample = everyNth(faults, every)
  const scores = new Map(scoresFile === '' ? [] : readScores(scoresFile))
  const keep = (one: Score) => {
    scores.set(one.tool, one)
    if (scoresFile !== '') writeFileSync(scoresFile, JSON.stringify([...scores.values()]))
  }
  let exitCode = 0
  if (tools.includes('verify')) {
    const own = await runTool('verify', faults, settings)
    printResults(own)
    keep(toScore('verify', '', own.results, own.correct))
    if (own.results.some(isMissed) || own.correct.some(isBlamed)) exitCode = 1
  }
  const others = rivals.filter(({ name }) => tools.includes(name))
  if (others.length > 0) writeFiles(folder, new URL('openapi/', root))
  for (const rival of others) {
    const { name, version } = rival
    progress(`installing ${name} ${version}`)
    const reason = (await install(rival, folder)) ?? (await whyNotGreen(name, settings))
    if (reason) {
      print(`${name} ${version} is left out: ${reason}\n\n`)
      continue
    }
    const { results, correct, seconds } = await runTool(name, sample, settings)
    keep(toScore(name, version, results, correct))
    print(`${`${name} ${version}`.trim()}: ${seconds.toFixed(0)} s for ${results.length + correct.length} servers\n`)
    for (const { id, failed, problem } of correct.filter(isBlamed))
      print(`  blames the correct server ${id}: ${problem ?? failed.join('; ').slice(0, 200)}\n`)
  }
  const inOrder = ['verify', ...rivals.map(({ name }) => name)].flatMap((name) => scores.get(name) ?? [])
  print(`\n${scoreTable(inOrder)}\n`)
  if (write) writeDocs(inOrder)
  return exitCode
}

function readScores(file: string): [string, Score][] {
  if (!existsSync(file)) return []
  const scores: Score[] = JSON.parse(readFileSync(file, 'utf8'))
  return scores.map((one) => [one.tool, one])
}

interface Results {
  readonly results: readonly Result[]
  readonly correct: readonly Run[]
  readonly seconds: number
}

/** The correct servers come first: among them are the slowest. */
async function runTool(tool: string, faults: typeof faultyServers, settings: Settings): Promise<Results> {
  const startedAt = performance.now()
  const jobs = [
    ...correctServers.filter(({ id }) => settings.only.test(id)).map(({ id }): Job => ({ tool, group: 'correct', id })),
    ...faults.map(({ id }): Job => ({ tool, group: 'faulty', id })),
  ]
  const runs = await runAll(jobs, settings)
  const results = faults.flatMap((fault) => {
    const run = runs.get(`faulty ${fault.id}`)
    return run ? [{ ...run, fault }] : []
  })
  const correct = correctServers.flatMap(({ id }) => runs.get(`correct ${id}`) ?? [])
  return { results, correct, seconds: (performance.now() - startedAt) / 1000 }
}

async function runAll(jobs: readonly Job[], { workers, folder }: Settings): Promise<Map<string, Run>> {
  const runs = new Map<string, Run>()
  const crashed = { failed: [], notes: [], lines: 0, seconds: jobTimeoutMs / 1000 }
  await runInWorkers<Run>(
    new URL(import.meta.url),
    jobs,
    {
      workers: jobs[0]?.tool === 'verify' ? workers * verifyRunsPerCore : workers,
      timeoutMs: jobTimeoutMs,
      data: folder,
    },
    ({ tool, group, id }, outcome) => {
      runs.set(`${group} ${id}`, 'failed' in outcome ? outcome : { ...crashed, ...outcome, id })
      progress(`${tool} ${runs.size}/${jobs.length} ${id}`)
    },
  )
  progress('')
  return runs
}

async function whyNotGreen(tool: string, settings: Settings): Promise<string | undefined> {
  const runs = await runAll(
    baseline.map(({ id }) => ({ tool, group: 'baseline', id })),
    settings,
  )
  const red = [...runs.values()].find(isBlamed)
  return red && `not green for ${red.id}: ${red.problem ?? red.failed.join('; ')}`
}

function everyNth(faults: typeof faultyServers, every: number): typeof faultyServers {
  return kinds.flatMap((kind) => faults.filter((fault) => fault.kind === kind).filter((_, at) => at % every === 0))
}

const columns = ['', 'servers', 'failed', 'note only', 'not observable', 'missed', 'named', 'lines', 'most lines']
const cells = (row: Row) => [
  row.name,
  row.servers,
  row.failed,
  row.noted,
  row.unobservable,
  row.missed,
  row.named,
  row.medianLines,
  row.maxLines,
]

function printResults({ results, correct, seconds }: Results): void {
  print(`${toText([['rule', ...columns.slice(1)], ...rowsByRule(results).map(cells)])}\n`)
  print(`${toText([['kind', ...columns.slice(1)], ...rowsByKind(results).map(cells)])}\n`)
  printList('Specified and observable, but no check fails', results.filter(isMissed))
  for (const [title, list] of Object.entries(surprises(results))) printList(title, list)
  const blamed = correct.filter(isBlamed)
  print(`${blamed.length} of ${correct.length} correct servers are blamed${blamed.length > 0 ? ':' : '.'}\n`)
  for (const { id, failed, problem } of blamed)
    print(`  ${id}  ${[...failed, ...(problem ? [problem] : [])].join(', ')}\n`)
  print(`${seconds.toFixed(0)} s for ${results.length + correct.length} servers\n\n`)
}

function printList(title: string, results: readonly Result[]): void {
  if (results.length === 0) return
  print(`${title}: ${results.length}\n`)
  for (const { id, fault, failed, notes, problem } of results)
    print(`  ${id}  ${fault.rule}  ${fault.fault}${remark(failed, notes, problem)}\n`)
  print('\n')
}

function remark(failed: readonly string[], notes: readonly string[], problem: string | undefined): string {
  const parts = [
    ...(failed.length > 0 ? [`failed: ${[...new Set(failed)]}`] : []),
    ...(notes.length > 0 ? [`notes: ${[...new Set(notes)]}`] : []),
    ...(problem ? [problem] : []),
  ]
  return parts.length > 0 ? ` (${parts.join('; ')})` : ''
}

const scoreTable = (scores: readonly Score[]) =>
  toText([
    ['tool', ...kinds, 'all', 'blamed', 'seconds'],
    ...scores.map(({ tool, caught, blamed, correct, medianSeconds }) => [
      tool,
      ...caught.map((part) => `${part.caught}/${part.of}`),
      `${blamed}/${correct}`,
      toSeconds(medianSeconds),
    ]),
  ])

function writeDocs(scores: readonly Score[]): void {
  const page = new URL('docs/verify.md', root)
  const text = toMarkdown(scores, rivals, {
    when: new Date().toISOString().slice(0, 10),
    platform: `Node ${process.versions.node}, ${process.platform} ${process.arch}`,
  })
  const marked = /(?<=<!-- mutation -->\n).*?(?=<!-- \/mutation -->)/s
  writeFileSync(
    page,
    readFileSync(page, 'utf8').replace(marked, () => text),
  )
  writeFileSync(new URL('docs/mutation.svg', root), toChart(scores))
}

function print(text: string): void {
  process.stdout.write(text)
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

if (isMainThread) process.exitCode = await main(process.argv.slice(2))
else
  parentPort?.on('message', async (job: Job) => {
    parentPort?.postMessage(await runJob(job, workerData as string))
  })
