import { parseArgs } from 'node:util'
import { startPostgres } from '../test/support/postgres.ts'
import { memoryOf } from '../test/support/process.ts'
import { type Contender, canPin, contenderAt, file, ours, type Program, start, thisService } from './contender.ts'
import { measure, median, type Terms } from './measure.ts'
import { compared, type Finding, report, single } from './report.ts'
import { changingList, fill, type Held, list, singles, unchangedList, type Work } from './work.ts'

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    against: { type: 'string', multiple: true, default: [] },
    help: { type: 'boolean', default: false },
  },
})

if (options.help) {
  process.stdout.write(`npm run bench -- [--quick] [--only WORDS] [--rounds N] [--against NAME=URL …]

  --quick             fewer rounds, less work, under a minute
  --only WORDS        the parts whose name holds one of these, separated by commas:
                      singles, lists, growth, memory, start, postgres
  --rounds N          rounds for each comparison
  --against NAME=URL  another server of Profile A on this machine, with the path of its collection
`)
  process.exit(0)
}

const round: Terms = {
  rounds: Number(options.rounds ?? (options.quick ? 3 : 11)),
  share: options.quick ? 0.1 : 1,
  warmUp: options.quick ? 100 : 1_500,
}
const isWanted = (part: string) => !options.only || options.only.split(',').some((word) => part.includes(word))

const rival = (name: string, program: string, ...args: string[]): Program => ({
  name,
  args: [file(`contenders/${program}.js`), 'PORT', ...args],
  env: { NODE_ENV: 'production' },
})
const bare = (profile: 'a' | 'b') => rival('bare node:http', 'bare', profile)
const frameworks = (profile: 'a' | 'b') => [
  bare(profile),
  rival('Fastify', 'fastify', profile),
  rival('Express', 'express', profile),
  rival('Hono', 'hono', profile),
  ...(profile === 'a' ? [rival('json-server', 'json-server')] : []),
]

const findings: Finding[] = []
const progress = (text: string) => process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`)

async function withContenders<T>(programs: readonly Program[], use: (all: Contender[]) => Promise<T>): Promise<T> {
  const all: Contender[] = []
  try {
    for (const program of programs) all.push(await start(program))
    return await use(all)
  } finally {
    for (const contender of all) await contender.stop()
  }
}

async function compare(works: readonly Work[], programs: readonly Program[], others: readonly Contender[] = []) {
  await withContenders(programs, async (started) => {
    const contenders = [...started, ...others]
    const holdings = new Map<Contender, Held>()
    for (const work of works) {
      progress(`Profile ${work.profile.toUpperCase()}: ${work.name}`)
      findings.push(...compared(work, await measure(work, contenders, holdings, round)))
    }
  })
}

if (isWanted('singles')) {
  const others = options.against.map((text) => {
    const [name = '', url = ''] = text.split(/=(.*)/)
    return contenderAt(name, url)
  })
  await compare(singles('a', 100, 4_000), [thisService('a'), ...frameworks('a')], others)
  await compare(singles('b', 100, 4_000), [thisService('b'), ...frameworks('b')])
}

if (isWanted('lists')) {
  const floor = rival('the bytes alone', 'bare-bytes')
  await compare([list('a', 10, 4_000), list('a', 1_000, 600)], [thisService('a'), ...frameworks('a'), floor])
  await compare([list('b', 1_000, 800)], [thisService('b'), bare('b')])
  await compare([changingList(10_000, 121), unchangedList(10_000, 120)], [thisService('a'), bare('a')])
  await compare([list('a', 10_000, 120)], [thisService('a'), bare('a'), floor])
  if (!options.quick) await compare([list('a', 100_000, 24)], [thisService('a'), bare('a'), floor])
}

if (isWanted('growth')) {
  const sizes = options.quick ? [10, 10_000] : [10, 1_000, 10_000, 100_000]
  for (const profile of options.quick ? (['a'] as const) : (['a', 'b'] as const)) {
    await withContenders(
      sizes.map(() => thisService(profile)),
      async (contenders) => {
        const holdings = new Map<Contender, Held>()
        for (const [at, contender] of contenders.entries()) {
          const held = { first: 1, last: 0 }
          holdings.set(contender, held)
          progress(`Profile ${profile.toUpperCase()}: filling with ${sizes[at]} items`)
          await fill(profile, contender, held, sizes[at] ?? 0)
        }
        const sized = contenders.map((contender, at) => ({
          ...contender,
          name: `${sizes[at]?.toLocaleString('en-US')} items`,
        }))
        const sizedHoldings = new Map(
          sized.map((contender, at) => [contender, holdings.get(contenders[at] as Contender) as Held]),
        )
        for (const work of singles(profile, 0, 4_000)) {
          progress(`Profile ${profile.toUpperCase()}: ${work.name} by number of items`)
          findings.push(
            ...compared(
              { ...work, name: `${work.name} as items grow` },
              await measure(work, sized, sizedHoldings, round),
            ),
          )
        }
      },
    )
  }
}

if (isWanted('memory')) {
  progress('memory per item')
  const items = options.quick ? 20_000 : 100_000
  const perItem = async (program: Program) =>
    withContenders([program], async ([contender]) => {
      const { pid, port, items: path } = contender as Contender
      await fill('a', contender as Contender, { first: 1, last: 0 }, 500)
      const before = memoryOf(pid as number)
      await fill('a', contender as Contender, { first: 501, last: 500 }, items)
      await new Promise((settled) => setTimeout(settled, 1_000))
      const used = memoryOf(pid as number) - before
      const text = await (await fetch(`http://127.0.0.1:${port}${path}`)).text()
      return used / items - text.length / (items + 500)
    })
  for (const program of [thisService('a'), bare('a')])
    findings.push(single('memory per item beyond its JSON text', program.name, await perItem(program), 'bytes'))
}

if (isWanted('start')) {
  const hello = rival('Fastify hello', 'fastify-hello')
  const all: Record<string, { startedIn: number[]; memory: number[] }> = {}
  for (let at = 0; at < round.rounds; at++)
    for (const program of [thisService('a'), hello]) {
      progress(`start to first answer ${at + 1} of ${round.rounds}`)
      await withContenders([program], async ([contender]) => {
        const { startedIn, pid } = contender as Contender
        await new Promise((settled) => setTimeout(settled, 300))
        all[program.name] ??= { startedIn: [], memory: [] }
        all[program.name]?.startedIn.push(startedIn)
        all[program.name]?.memory.push(memoryOf(pid as number) / 2 ** 20)
      })
    }
  for (const [name, { startedIn, memory }] of Object.entries(all)) {
    findings.push(single('start to first answer', name, median(startedIn), 'ms'))
    findings.push(single('resident, idle', name, median(memory), 'MB'))
  }
}

if (isWanted('postgres')) {
  progress('starting PostgreSQL')
  const cluster = await startPostgres()
  try {
    const withDatabase = { ...thisService('a', '--database-url', cluster.url()), name: ours }
    const bareDatabase = rival('bare node:http, same SQL', 'bare-postgres', cluster.url())
    await withContenders([withDatabase, bareDatabase], async (contenders) => {
      // Both work on the same tables.
      const held = { first: 1, last: 0 }
      const holdings = new Map(contenders.map((contender) => [contender, held]))
      for (const work of [...singles('a', 1_000, 3_000), list('a', 1_000, 300)]) {
        progress(`PostgreSQL: ${work.name}`)
        findings.push(
          ...compared({ ...work, name: `PostgreSQL: ${work.name}` }, await measure(work, contenders, holdings, round)),
        )
      }
    })
  } finally {
    await cluster.remove()
  }
}

progress('')
report(findings, { pinned: canPin, rounds: round.rounds, quick: options.quick })
