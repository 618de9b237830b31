import { shortenPath } from '../cleanup.ts'
import type { Outcome, Verification } from '../run.ts'

export type Colorize = (color: 'red' | 'green' | 'yellow' | 'dim', text: string) => string

/**
 * For a terminal, short enough for one screen if one thing is wrong: failures first, then what was not checked, then
 * totals. The other reports have everything.
 */
export function pretty(verification: Verification, colorize: Colorize = (_, text) => text): string {
  const { outcomes, failed, deviations, unobservable, leftovers } = verification
  const withStatus = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  const sections = [
    ...groupBy(withStatus('failed'), ({ rule }) => rule).map((group) =>
      failureLines(group, colorize('red', 'FAILED ')),
    ),
    noteLines(withStatus('deviates'), failed > 0, colorize('yellow', 'note   ')),
    groupBy(withStatus('skipped'), ({ reason = '' }) => reason).map((group) =>
      skippedLine(group, colorize('dim', 'skipped')),
    ),
    leftovers.length > 0 ? [colorize('red', 'Could not be deleted:'), ...leftoverLines(leftovers)] : [],
    [`Not observable over HTTP: parts of ${rulesOf(unobservable)} (--report markdown lists them)`],
    totalsByGroup(outcomes),
  ]
  const text = sections.map((lines) => (lines.length > 0 ? `${lines.join('\n')}\n\n` : '')).join('')
  const hint = 'Notes are deviations from choices: --strict fails them, --report markdown shows them in full.\n'
  return `${text}${deviations > 0 ? hint : ''}${colorize(failed > 0 ? 'red' : 'green', totals(verification))}\n`
}

/** On one line. */
export function totals({ passed, failed, deviations, skipped, complete }: Verification): string {
  const noted = deviations > 0 ? `${notes(deviations)}, ` : ''
  return `${passed} passed, ${failed} failed, ${noted}${skipped} skipped${complete ? '' : '; the run is not complete'}`
}

const notes = (count: number) => (count === 1 ? '1 note' : `${count} notes`)

function groupBy<T>(values: readonly T[], key: (value: T) => string): T[][] {
  const groups = new Map<string, T[]>()
  for (const value of values) groups.set(key(value), [...(groups.get(key(value)) ?? []), value])
  return [...groups.values()]
}

const maxFurtherFailures = 3
const maxLineLength = 300
/** A shortened command cannot be run, so it is shortened later. */
const maxRequestLength = 600

/** The failures of one rule: the first in full. */
function failureLines([first, ...further]: readonly Outcome[], label: string): string[] {
  if (!first?.failure) return []
  const { rule, basis, name, sentence, failure } = first
  const more = further.length - maxFurtherFailures
  return [
    `${label} ${rule}  ${name}`,
    `        rule      ${sentence} (${basis})`,
    ...(failure.request ? [`        request   ${cut(failure.request, maxRequestLength)}`] : []),
    `        expected  ${shorten(failure.expected)}`,
    `        got       ${shorten(failure.got)}`,
    ...further.slice(0, maxFurtherFailures).map((outcome) => `${label} ${inOneLine(outcome)}`),
    ...(more > 0 ? [`        and ${more} more checks of ${rule}`] : []),
  ]
}

/** A line for each rule; one line in all beside failures, which may have caused them. */
function noteLines(deviations: readonly Outcome[], isShort: boolean, label: string): string[] {
  if (isShort && deviations.length > 0) return [`${label} deviates from choices of ${rulesOf(deviations)}`]
  return groupBy(deviations, ({ rule }) => rule).map(([first, ...further]) => {
    const more = further.length > 0 ? ` (and ${further.length} more)` : ''
    return `${label} ${first && inOneLine(first)}${more}`
  })
}

const rulesOf = (checked: readonly { readonly rule: string }[]) =>
  [...new Set(checked.map(({ rule }) => rule))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).join(', ')

const maxOneLineLength = 110

const inOneLine = ({ rule, name, failure }: Outcome) =>
  `${rule}  ${name}: expected ${shorten(`${failure?.expected}, got ${failure?.got}`, maxOneLineLength)}`

/** The skipped checks with the same reason. */
function skippedLine(group: readonly Outcome[], label: string): string {
  const [first] = group
  return group.length === 1
    ? `${label} ${first?.rule}  ${first?.name}: ${first?.reason}`
    : `${label} ${group.length} checks of ${rulesOf(group)}: ${first?.reason}`
}

const maxLeftoverLines = 5

const leftoverLines = (paths: readonly string[]) => [
  ...paths.slice(0, maxLeftoverLines).map((path) => `  ${shortenPath(path)}`),
  ...(paths.length > maxLeftoverLines ? [`  and ${paths.length - maxLeftoverLines} more`] : []),
]

const cut = (text: string, maxLength: number) => (text.length > maxLength ? `${text.slice(0, maxLength)}…` : text)
const shorten = (text: string, maxLength = maxLineLength) => cut(escapeControls(text), maxLength)

/** Prevents a server from sending escape sequences to the terminal. */
export const escapeControls = (text: string) =>
  text.replace(/\p{Cc}/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** One line for each group of rules: G, A, B, S. */
function totalsByGroup(outcomes: readonly Outcome[]): string[] {
  const letters = [...new Set(outcomes.map(({ rule }) => rule[0]))].sort()
  return letters.map((letter) => {
    const ofGroup = outcomes.filter(({ rule }) => rule[0] === letter)
    const counts = (['passed', 'failed', 'deviates', 'skipped'] as const)
      .map((status) => [ofGroup.filter((outcome) => outcome.status === status).length, status] as const)
      .filter(([count]) => count > 0)
    return `${letter}  ${counts.map(([count, status]) => (status === 'deviates' ? notes(count) : `${count} ${status}`)).join(', ')}`
  })
}
