import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { median, type Samples, type Settings } from './measure.ts'
import { isPinned } from './server-process.ts'

/** One row of the report. */
export interface Finding {
  readonly what: string
  readonly comparedWith: string
  /** Median over the windows. */
  readonly ratio: number
  readonly minRatio: number
  readonly maxRatio: number
  readonly own: number
  readonly other: number
  readonly unit: 'µs' | 'req/s' | 'ms' | 'MB' | 'bytes'
  readonly target?: string
  readonly isMet?: boolean
}

/** The first that matches applies. `orBytesOnly`: this ratio to the server that only sends the bytes is enough, too. */
const targets: readonly { what: RegExp; comparedWith: RegExp; min?: number; max?: number; orBytesOnly?: number }[] = [
  { what: /^(GET item|list of 10) on (Bun|Deno)/, comparedWith: /^bare/, min: 1.8 },
  { what: /^(POST|PUT) on (Bun|Deno)/, comparedWith: /^bare/, min: 1.5 },
  { what: /^file: (GET|list of 10$|list of 1,000$)/, comparedWith: /^items in memory$/, min: 0.65 },
  { what: /^PostgreSQL, two workers: GET/, comparedWith: /^one process/, min: 1.7 },
  { what: /^(PostgreSQL|file|tmpfs)/, comparedWith: /same SQL$/, min: 0.95 },
  { what: /^development/, comparedWith: /^without control/, min: 0.8 },
  { what: /with 10 items$/, comparedWith: /items$/, max: 1.15 },
  { what: /^. GET item$/, comparedWith: /^bare/, min: 1.2 },
  { what: /^. list of 10$/, comparedWith: /^bare/, min: 1.25 },
  { what: /^. PUT$/, comparedWith: /^bare/, min: 1.05 },
  { what: /^. POST$/, comparedWith: /^bare/, min: 1.15 },
  { what: /^. DELETE$/, comparedWith: /^bare/, min: 1 },
  { what: /^. list of 1,000$/, comparedWith: /^bare/, min: 10, orBytesOnly: 0.9 },
  { what: /^. (GET|POST|PUT|DELETE|list)/, comparedWith: /^Fastify/, min: 1 },
]

export function toFinding(
  what: string,
  comparedWith: string,
  own: readonly number[],
  other: readonly number[],
  unit: Finding['unit'],
): Finding {
  const ratios = own.map((value, at) => (unit === 'req/s' ? value / (other[at] ?? 0) : (other[at] ?? 0) / value))
  return {
    what,
    comparedWith,
    ratio: median(ratios),
    minRatio: Math.min(...ratios),
    maxRatio: Math.max(...ratios),
    own: median(own),
    other: median(other),
    unit,
  }
}

/** Compares the first server with each of the others. */
export function compareServers(what: string, [first, ...others]: readonly Samples[]): Finding[] {
  if (!first) return []
  return others.map((other) =>
    other.cpuPerRequest.some(Number.isNaN)
      ? toFinding(what, other.server, first.requestsPerSecond, other.requestsPerSecond, 'req/s')
      : toFinding(what, other.server, first.cpuPerRequest, other.cpuPerRequest, 'µs'),
  )
}

function withTarget(finding: Finding, findings: readonly Finding[]): Finding {
  const target = targets.find((one) => one.what.test(finding.what) && one.comparedWith.test(finding.comparedWith))
  if (!target) return finding
  const { min = 0, max = Number.POSITIVE_INFINITY, orBytesOnly = Number.POSITIVE_INFINITY } = target
  const ratio = rounded(finding.ratio)
  const toBytesOnly = findings.find((one) => one.what === finding.what && one.comparedWith === 'bytes only')?.ratio ?? 0
  return {
    ...finding,
    target:
      (target.min === undefined ? `≤ ${max}` : `≥ ${min}`) +
      (target.orBytesOnly === undefined ? '' : `, or ≥ ${orBytesOnly} of bytes only`),
    isMet: (ratio >= min && ratio <= max) || rounded(toBytesOnly) >= orBytesOnly,
  }
}

const rounded = (ratio: number) => Math.round(ratio * 100) / 100

const columns = ['what', 'compared with', 'ratio', 'min–max', 'target', '', 'this service', 'other']

function cells({ what, comparedWith, ratio, minRatio, maxRatio, own, other, unit, target, isMet }: Finding): string[] {
  const digits = unit === 'req/s' || unit === 'bytes' ? 0 : 1
  return [
    what,
    comparedWith,
    ratio.toFixed(2),
    minRatio === maxRatio ? '' : `${minRatio.toFixed(2)}–${maxRatio.toFixed(2)}`,
    target ?? '',
    isMet === undefined ? '' : isMet ? 'ok' : 'MISSED',
    `${own.toFixed(digits)} ${unit}`,
    `${other.toFixed(digits)} ${unit}`,
  ]
}

/** The commit that is measured; `-dirty` with changes of the service that are in no commit. */
function readCommit(): string {
  const options = { cwd: new URL('../../', import.meta.url), encoding: 'utf8' } as const
  const isDirty = execFileSync('git', ['status', '--porcelain', 'src'], options) !== ''
  return `${execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], options).trim()}${isDirty ? '-dirty' : ''}`
}

const description = ({ rounds, windows, windowMs }: Settings, commit: string) =>
  `Commit ${commit}. ` +
  `µs: CPU time of the server process per request. Ratio: the other server ÷ this service, median over ` +
  `${rounds * windows} windows of ${windowMs} ms (${rounds} × ${windows}); above 1, this service is cheaper. ` +
  `Node ${process.version}, ${process.platform} ${process.arch}, ${cpus()[0]?.model.trim()}, ` +
  `${isPinned ? 'servers on one core, load generators on another' : 'not pinned to cores'}.`

/** Writes the table to stdout, and as NAME.md and NAME.json to bench/results/. */
export function report(results: readonly Finding[], settings: Settings, name: string): void {
  const commit = readCommit()
  const findings = results.map((finding) => withTarget(finding, results))
  const rows = findings.map(cells)
  const widths = columns.map((title, at) =>
    Math.max(...[title, ...rows.map((row) => row[at] ?? '')].map((s) => s.length)),
  )
  const toLine = (row: readonly string[]) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd()
  process.stdout.write(`${[columns, ...rows].map(toLine).join('\n')}\n\n${description(settings, commit)}\n`)

  const folder = new URL('../../bench/results/', import.meta.url)
  mkdirSync(folder, { recursive: true })
  const table = [columns, columns.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`)
  writeFileSync(new URL(`${name}.md`, folder), `# Results\n\n${description(settings, commit)}\n\n${table.join('\n')}\n`)
  const json = { commit, ...settings, isPinned, node: process.version, findings }
  writeFileSync(new URL(`${name}.json`, folder), `${JSON.stringify(json, null, 2)}\n`)
}
