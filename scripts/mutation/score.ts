import type { FaultyServer } from '../../test/verify/servers/index.ts'

/** What a tool said about a server. */
export interface Run {
  readonly id: string
  /** Rules of the checks that failed, or what another tool complained about. */
  readonly failed: readonly string[]
  /** Rules of the notes, which `--strict` turns into failures. */
  readonly notes: readonly string[]
  /** Lines of the report for a terminal. */
  readonly lines: number
  readonly seconds: number
  /** Why the run did not come to its end. */
  readonly problem?: string
}

/** A faulty server without its code. */
export type Fault = Pick<FaultyServer, 'id' | 'profile' | 'rule' | 'kind' | 'breaks' | 'fault'>

/** A faulty server and what the run said about it. */
export interface Result extends Run {
  readonly fault: Fault
}

export const kinds = ['state', 'text', 'wire', 'document', 'samples'] as const

type Verdict = 'failed' | 'noted' | 'passed'

const verdictOf = ({ failed, notes }: Run): Verdict =>
  failed.length > 0 ? 'failed' : notes.length > 0 ? 'noted' : 'passed'

/** The specification forbids it and a client can see it, but the run is green without `--strict`. */
export const isMissed = (result: Result) => result.fault.breaks === 'specified' && verdictOf(result) !== 'failed'

/** Whether the failure, or without one the note, is of the rule that is broken. */
const isNamed = ({ fault, failed, notes }: Result) => (failed.length > 0 ? failed : notes).includes(fault.rule)

/** Verdicts that the author of the server did not expect, beside those that are missed. */
export const surprises = (results: readonly Result[]) => ({
  'Only a choice is broken, but a check of the specified part fails': results.filter(
    (result) => result.fault.breaks === 'choice' && verdictOf(result) === 'failed',
  ),
  'A choice is broken, and there is no note': results.filter(
    (result) => result.fault.breaks === 'choice' && verdictOf(result) === 'passed',
  ),
  'Said to be unobservable, but seen': results.filter(
    (result) => result.fault.breaks === 'unobservable' && verdictOf(result) !== 'passed',
  ),
})

export interface Row {
  readonly name: string
  readonly servers: number
  readonly failed: number
  readonly noted: number
  readonly unobservable: number
  readonly missed: number
  readonly named: number
  readonly medianLines: number
  readonly maxLines: number
}

export function toRow(name: string, results: readonly Result[]): Row {
  const count = (matches: (result: Result) => boolean) => results.filter(matches).length
  const lines = results.map((result) => result.lines).sort((a, b) => a - b)
  return {
    name,
    servers: results.length,
    failed: count((result) => verdictOf(result) === 'failed'),
    noted: count((result) => verdictOf(result) === 'noted'),
    unobservable: count((result) => result.fault.breaks === 'unobservable' && verdictOf(result) === 'passed'),
    missed: count((result) => result.fault.breaks !== 'unobservable' && verdictOf(result) === 'passed'),
    named: count(isNamed),
    medianLines: lines[Math.floor(lines.length / 2)] ?? 0,
    maxLines: lines.at(-1) ?? 0,
  }
}

const byRule = new Intl.Collator('en', { numeric: true }).compare

export const rowsByRule = (results: readonly Result[]): Row[] =>
  [...new Set(results.map(({ fault }) => fault.rule))].sort(byRule).map((rule) =>
    toRow(
      rule,
      results.filter(({ fault }) => fault.rule === rule),
    ),
  )

export const rowsByKind = (results: readonly Result[]): Row[] => [
  ...kinds.map((kind) =>
    toRow(
      kind,
      results.filter(({ fault }) => fault.kind === kind),
    ),
  ),
  toRow('all', results),
]

/** How many of the servers that a client can see to break the specification a tool fails, by kind. */
export interface Score {
  readonly tool: string
  readonly note: string
  readonly caught: readonly { readonly kind: string; readonly caught: number; readonly of: number }[]
  readonly blamed: number
  readonly correct: number
  readonly medianSeconds: number
  /** The sums over all faulty servers. */
  readonly row: Row
}

export function toScore(tool: string, note: string, results: readonly Result[], correct: readonly Run[]): Score {
  const visible = results.filter(({ fault }) => fault.breaks === 'specified')
  const part = (kind: string, ofKind: readonly Result[]) => ({
    kind,
    caught: ofKind.filter((result) => verdictOf(result) === 'failed').length,
    of: ofKind.length,
  })
  const seconds = [...results, ...correct].map((run) => run.seconds).sort((a, b) => a - b)
  return {
    tool,
    note,
    caught: [
      ...kinds.map((kind) =>
        part(
          kind,
          visible.filter(({ fault }) => fault.kind === kind),
        ),
      ),
      part('all', visible),
    ],
    blamed: correct.filter(isBlamed).length,
    correct: correct.length,
    medianSeconds: seconds[Math.floor(seconds.length / 2)] ?? 0,
    row: toRow('all', results),
  }
}

/** Said of a correct server. */
export const isBlamed = ({ failed, problem }: Run) => failed.length > 0 || problem !== undefined

/** Aligned columns for a terminal. */
export function toText(rows: readonly (readonly (string | number)[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => `${row[at]}`.length)))
  const toLine = (row: readonly (string | number)[]) =>
    row
      .map((cell, at) => (at === 0 ? `${cell}`.padEnd(widths[at] ?? 0) : `${cell}`.padStart(widths[at] ?? 0)))
      .join('  ')
      .trimEnd()
  return `${rows.map(toLine).join('\n')}\n`
}

export const toSeconds = (seconds: number) => (seconds < 0.1 ? '< 0.1' : seconds.toFixed(1))

const percent = ({ caught, of }: { caught: number; of: number }) => (of === 0 ? 0 : (100 * caught) / of)

/** The part of docs/verify.md between the markers. The first score is that of verify. */
export function toMarkdown(
  [own, ...others]: readonly Score[],
  rivals: readonly { readonly name: string; readonly setup: string }[],
  { when, platform }: { readonly when: string; readonly platform: string },
): string {
  if (!own) return ''
  const head = ['', ...kinds, 'all', 'correct servers blamed', 'seconds']
  const rows = [own, ...others].map(({ tool, note, caught, blamed, correct, medianSeconds }) => [
    `${tool} ${note}`.trim(),
    ...caught.map((part) => `${part.caught} of ${part.of}`),
    `${blamed} of ${correct}`,
    toSeconds(medianSeconds),
  ])
  const table = [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`)
  const { servers, failed, noted, named, medianLines, maxLines } = own.row
  const lines = [
    ...table,
    '',
    '![Faulty servers that each tool finds, in percent](mutation.svg)',
    '',
    `\`npm run mutation\`, ${when}, ${platform}. ${servers} servers with one fault each, and ${own.correct} correct ones with unusual habits, were written from the specification by people who had not seen the checks. The table counts the ${own.caught.at(-1)?.of} faults that the specification forbids and a client can see, by kind (\`wire\`: status codes and headers). \`seconds\` is the median of a run. Of the ${failed + noted} servers that \`verify\` fails or notes, it names the broken rule itself for ${named}; its report has ${medianLines} lines in the median, ${maxLines} at most.`,
    '',
  ]
  if (others.length === 0) return lines.join('\n')
  const isSample = others.some(({ row }) => row.servers < servers)
  return [
    ...lines,
    `The other tools got the OpenAPI document of this service and the requests of a smoke test, and had to be green for this service and a plain correct server first.${isSample ? ' Where the numbers are smaller, the tool got a sample: every nth server of each kind.' : ''}`,
    '',
    ...rivals
      .filter(({ name }) => others.some(({ tool }) => tool === name))
      .map(({ name, setup }) => `- ${name}: ${setup}`),
    '',
    'The checks of `verify` were improved until none of these servers got through: its figure does not say what share of other faults it would find. The other tools have other aims, and find more with more tests. The document also says what the specification leaves open, so that a server that chooses otherwise is blamed, as by `verify --strict`. Tools that npm does not have, such as Hurl, are missing.',
    '',
  ].join('\n')
}

/** In pixels. */
const [width, labelWidth, barHeight, gap, titleHeight] = [760, 100, 18, 6, 34]
const scale = (width - labelWidth - 150) / 100

const titles: Readonly<Record<string, string>> = {
  all: 'all faults',
  state: 'state of the store',
  text: 'texts',
  wire: 'status codes and headers',
  document: 'OpenAPI document',
  samples: 'sample endpoints',
}

/** docs/mutation.svg: a bar for each tool, by kind. */
export function toChart(scores: readonly Score[]): string {
  const lines: string[] = []
  let y = 34
  for (const kind of ['all', ...kinds]) {
    lines.push(`<text x="0" y="${y + 16}" class="title">${titles[kind]}</text>`)
    y += titleHeight - gap
    for (const { tool, caught } of scores) {
      const part = caught.find((one) => one.kind === kind) ?? { caught: 0, of: 0 }
      const length = percent(part) * scale
      lines.push(
        `<text x="${labelWidth - 8}" y="${y + 13}" class="label">${tool}</text>`,
        `<rect x="${labelWidth}" y="${y}" width="${length.toFixed(0)}" height="${barHeight}" class="${tool === 'verify' ? 'own' : 'other'}"/>`,
        `<text x="${(labelWidth + length + 6).toFixed(0)}" y="${y + 13}">${Math.floor(percent(part))} % (${part.caught} of ${part.of})</text>`,
      )
      y += barHeight + gap
    }
    y += gap
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y}" viewBox="0 0 ${width} ${y}" role="img" aria-label="Faulty servers that each tool finds, in percent">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f; stroke: #ffffff; stroke-width: 3px; paint-order: stroke }
.title { font-weight: 600 } .label { text-anchor: end }
.own { fill: #0969da } .other { fill: #afb8c1 }
</style>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="0" y="16" class="title">Servers with one fault that each tool finds, in percent; more is better</text>
${lines.join('\n')}
</svg>
`
}
