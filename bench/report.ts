import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { type Measured, median, ratios } from './measure.ts'
import type { Work } from './work.ts'
import { hasWrk } from './wrk.ts'

/** One line of the report. */
export interface Finding {
  readonly what: string
  readonly against: string
  /** The median of the rounds, its spread, and in which unit. */
  readonly value: number
  readonly low?: number
  readonly high?: number
  readonly unit: '×' | 'bytes' | 'ms' | 'MB'
  readonly wanted?: string
  readonly isMet?: boolean
  /** Microseconds of CPU for a request: ours, theirs. */
  readonly cpu?: readonly [number, number]
  /** Requests per second and p99, as ratios: more and less than 1 are better for us. */
  readonly throughput?: number
  readonly p99?: number
}

/** What a comparison must show; the first that fits counts. */
const targets: readonly { what: RegExp; against: RegExp; least?: number; most?: number }[] = [
  { what: /^PostgreSQL: list/, against: /./, least: 1.0 },
  { what: /^PostgreSQL/, against: /./, least: 0.9 },
  { what: /as items grow/, against: /^100,000/, most: 1.15 },
  { what: /list of 10,000, a write/, against: /bare/, least: 10 },
  { what: /^. list of 1,000$/, against: /bare/, least: 12 },
  { what: /^. list of 100,000$/, against: /bare/, least: 20 },
  { what: /^. (GET|POST|PUT|DELETE)/, against: /bare/, least: 1.0 },
  { what: /^. (GET|POST|PUT|DELETE)/, against: /Fastify/, least: 1.1 },
  { what: /^. (GET|POST|PUT|DELETE)/, against: /Express/, least: 3 },
  { what: /^. (GET|POST|PUT|DELETE)/, against: /json-server/, least: 10 },
]

function judged(finding: Finding): Finding {
  const target = targets.find(({ what, against }) => what.test(finding.what) && against.test(finding.against))
  if (!target) return finding
  const { least = 0, most = Number.POSITIVE_INFINITY } = target
  const wanted = target.least === undefined ? `≤ ${most}×` : `≥ ${least}×`
  const value = Math.round(finding.value * 100) / 100
  return { ...finding, wanted, isMet: value >= least && value <= most }
}

/** The first against each of the others. */
export function compared({ name, profile }: Work, [ours, ...rivals]: readonly Measured[]): Finding[] {
  if (!ours) return []
  const what = name.startsWith('PostgreSQL') ? name : `${profile.toUpperCase()} ${name}`
  return rivals.map((rival) => {
    const byCpu = rival.cpu.length > 0
    const all = byCpu ? ratios(ours.cpu, rival.cpu) : ratios(rival.perSecond, ours.perSecond)
    return judged({
      what,
      against: rival.contender,
      unit: '×',
      value: median(all),
      low: Math.min(...all),
      high: Math.max(...all),
      ...(byCpu && { cpu: [median(ours.cpu), median(rival.cpu)] as const }),
      throughput: median(ratios(rival.perSecond, ours.perSecond)),
      p99: median(ratios(rival.p99, ours.p99)),
    })
  })
}

export const single = (what: string, against: string, value: number, unit: Finding['unit']): Finding => ({
  what,
  against,
  value,
  unit,
})

const number = (value: number | undefined, digits = 2) => (value === undefined ? '' : value.toFixed(digits))

const columns = ['what', 'against', 'figure', 'spread', 'wanted', '', 'CPU µs', 'theirs', 'req/s ×', 'p99 ×']

const row = ({ what, against, value, low, high, unit, wanted = '', isMet, cpu, throughput, p99 }: Finding) => [
  what,
  against,
  `${number(value, unit === '×' ? 2 : 1)} ${unit}`,
  low === undefined ? '' : `${number(low)}–${number(high)}`,
  wanted,
  isMet === undefined ? '' : isMet ? 'ok' : 'MISSED',
  number(cpu?.[0], 1),
  number(cpu?.[1], 1),
  number(throughput),
  number(p99),
]

interface Terms {
  readonly pinned: boolean
  readonly rounds: number
  readonly quick: boolean
}

const explanation = ({ pinned, rounds, quick }: Terms) =>
  `CPU time of the server process for a request, theirs ÷ ours: the median of ${rounds} interleaved rounds and its spread; above 1 we are cheaper. ` +
  `Node ${process.version}, ${process.platform} ${process.arch}, ${cpus()[0]?.model.trim()}, ${pinned ? 'server and load on a core each' : 'not bound to cores'}, ` +
  `load by ${hasWrk ? "wrk for lists, else by the bench's own client" : "the bench's own client"}${quick ? ', quick mode' : ''}.`

export function report(findings: readonly Finding[], terms: Terms): void {
  const rows = [columns, ...findings.map(row)]
  const widths = columns.map((_, column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd()
  process.stdout.write(`${rows.map(line).join('\n')}\n\n${explanation(terms)}\n`)

  const folder = new URL('../../bench/results/', import.meta.url)
  mkdirSync(folder, { recursive: true })
  const name = terms.quick ? 'quick' : 'latest'
  const markdown = [
    `# Results\n\n${explanation(terms)}\n\n![Chart](${name}.svg)\n`,
    `| ${columns.join(' | ')} |`,
    `|${columns.map(() => '---|').join('')}`,
    ...findings.map((finding) => `| ${row(finding).join(' | ')} |`),
  ]
  writeFileSync(
    new URL(`${name}.json`, folder),
    `${JSON.stringify({ ...terms, node: process.version, findings }, null, 2)}\n`,
  )
  writeFileSync(new URL(`${name}.md`, folder), `${markdown.join('\n')}\n`)
  writeFileSync(new URL(`${name}.svg`, folder), chart(findings.filter(({ unit }) => unit === '×')))
}

/** A bar for each ratio on a logarithmic scale, a line at 1. */
function chart(findings: readonly Finding[]): string {
  const [left, height, width] = [330, 20, 460]
  const most = Math.max(2, ...findings.map(({ value }) => value)) * 1.3
  const least = Math.min(0.5, ...findings.map(({ value }) => value))
  const x = (value: number) => left + (Math.log(value / least) / Math.log(most / least)) * width
  const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const bars = findings.map(({ what, against, value, isMet }, at) => {
    const y = 30 + at * height
    const [from, to] = [Math.min(x(1), x(value)), Math.max(x(1), x(value))]
    return `<text x="${left - 8}" y="${y + 13}" text-anchor="end">${escaped(`${what} / ${against}`)}</text>
<rect x="${from.toFixed(1)}" y="${y + 3}" width="${Math.max(1, to - from).toFixed(1)}" height="${height - 6}" fill="${isMet === false ? '#c0392b' : '#2e7d5b'}"/>
<text x="${(to + 4).toFixed(1)}" y="${y + 13}">${number(value)}×</text>`
  })
  const total = 40 + findings.length * height
  return `<svg xmlns="http://www.w3.org/2000/svg" width="860" height="${total}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<text x="${left}" y="16" font-size="13">CPU per request, theirs ÷ ours (logarithmic)</text>
<line x1="${x(1)}" x2="${x(1)}" y1="24" y2="${total - 8}" stroke="#888"/>
${bars.join('\n')}
</svg>
`
}
