import { shortenPath } from '../engine/cleanup.ts'
import type { Outcome, Verification } from '../engine/run.ts'

export type Colorize = (color: 'red' | 'green' | 'yellow' | 'dim', text: string) => string

/**
 * For a terminal, short enough for one screen if one thing is wrong: failures first, then what was not checked, then
 * totals. The other reports have everything.
 */
export function pretty(verification: Verification, colorize: Colorize = (_, text) => text): string {
  const { outcomes, failed, deviations, unobservable, leftovers, retries } = verification
  const withStatus = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  const sections = [
    ...groupBy(withStatus('failed'), ({ rule }) => rule).map((group, index) =>
      failureLines(group, colorize('red', 'FAILED '), index < maxFullFailures),
    ),
    noteLines(withStatus('deviates'), failed > 0, colorize('yellow', 'note   ')),
    groupBy(withStatus('waived'), ({ rule }) => rule).map(
      (group) => `${groupLine(group, colorize('yellow', 'waived '))} (${group[0]?.reason})`,
    ),
    waiverLines(verification, colorize('yellow', 'waiver ')),
    groupBy(withStatus('skipped'), ({ reason = '' }) => reason).map((group) => {
      const what =
        group.length === 1 ? `${group[0]?.rule}  ${group[0]?.name}` : `${group.length} checks of ${rulesOf(group)}`
      return `${colorize('dim', 'skipped')} ${what}: ${group[0]?.reason}`
    }),
    withStatus('passed')
      .filter(({ reason }) => reason !== undefined)
      .map(({ rule, name, reason }) => `${colorize('dim', 'remark ')} ${rule}  ${name}: ${reason}`),
    leftovers.length > 0 ? [colorize('red', 'Could not be deleted:'), ...leftoverLines(leftovers)] : [],
    retries > 0 ? [`Requests repeated after a response 429 or 503: ${retries}`] : [],
    unobservable.length > 0
      ? [`Not observable over HTTP: parts of ${rulesOf(unobservable)} (--report markdown lists them)`]
      : [],
    totalsByGroup(outcomes),
  ]
  const text = sections.map((lines) => (lines.length > 0 ? `${lines.join('\n')}\n\n` : '')).join('')
  const failedRules = new Set(withStatus('failed').map(({ rule }) => rule))
  const further = 'Rule and requests of further failures: --only with the rule, or --report markdown.\n'
  const hint = 'Notes are deviations from choices: --strict fails them, --report markdown shows them in full.\n'
  return `${text}${failedRules.size > maxFullFailures ? further : ''}${deviations > 0 ? hint : ''}${colorize(failed > 0 ? 'red' : 'green', totals(verification))}\n`
}

/** The totals are one line. */
export function totals(verification: Verification): string {
  const { passed, failed, deviations, waived, skipped, complete, quick, seed, milliseconds } = verification
  const noted = `${deviations > 0 ? `${notes(deviations)}, ` : ''}${waived > 0 ? `${waived} waived, ` : ''}`
  const how = `${quick ? 'quick, ' : ''}seed ${seed}, ${(milliseconds / 1000).toFixed(1)} s`
  return `${passed} passed, ${failed} failed, ${noted}${skipped} skipped (${how})${complete ? '' : '; the run is not complete'}`
}

const notes = (count: number) => (count === 1 ? '1 note' : `${count} notes`)

function groupBy<T>(values: readonly T[], key: (value: T) => string): T[][] {
  const groups = new Map<string, T[]>()
  for (const value of values) groups.set(key(value), [...(groups.get(key(value)) ?? []), value])
  return [...groups.values()]
}

/** Further failures are one line each: the other reports have their rule and request. */
const maxFullFailures = 2
const maxFurtherFailures = 3
const maxLineLength = 300
/** A shortened command cannot be run, so it is shortened later. */
const maxRequestLength = 600

/** The failures of one rule: the first in full. */
function failureLines([first, ...further]: readonly Outcome[], label: string, isFull: boolean): string[] {
  if (!first?.failure) return []
  const { rule, basis, name, sentence, failure } = first
  const more = further.length - maxFurtherFailures
  const requestLines = (failure.request ?? '').split('\n').filter((line) => line !== '')
  return [
    `${label} ${rule}  ${name}`,
    ...(isFull ? [`        rule      ${sentence} (${basis})`] : []),
    ...(isFull ? requestLines : []).map(
      (line, index) => `        ${index === 0 ? 'request ' : '        '}  ${shorten(line, maxRequestLength)}`,
    ),
    `        expected  ${shorten(failure.expected)}`,
    `        got       ${shorten(failure.got)}`,
    ...further.slice(0, maxFurtherFailures).map((outcome) => `${label} ${inOneLine(outcome)}`),
    ...(more > 0 ? [`        and ${more} more checks of ${rule}`] : []),
  ]
}

/** A line for each rule; one line in all beside failures, which may have caused them. */
function noteLines(deviations: readonly Outcome[], isShort: boolean, label: string): string[] {
  if (isShort && deviations.length > 0) return [`${label} deviates from choices of ${rulesOf(deviations)}`]
  return groupBy(deviations, ({ rule }) => rule).map((group) => groupLine(group, label))
}

const groupLine = ([first, ...further]: readonly Outcome[], label: string) =>
  `${label} ${first && inOneLine(first)}${further.length > 0 ? ` (and ${further.length} more)` : ''}`

const rulesOf = (checked: readonly { readonly rule: string }[]) =>
  [...new Set(checked.map(({ rule }) => rule))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).join(', ')

const maxOneLineLength = 110

const inOneLine = ({ rule, name, failure }: Outcome) =>
  `${rule}  ${name}: expected ${shorten(`${failure?.expected}, got ${failure?.got}`, maxOneLineLength)}`

/** Waivers that should be removed or renewed. */
const waiverLines = ({ waivers }: Verification, label: string) =>
  waivers.flatMap(({ rule, reason, until, status }) => {
    if (status === 'expired') return [`${label} ${rule} (${reason}) expired after ${until}`]
    return status === 'unused' ? [`${label} ${rule} (${reason}) was not needed`] : []
  })

const maxLeftoverLines = 5

const leftoverLines = (paths: readonly string[]) => [
  ...paths.slice(0, maxLeftoverLines).map((path) => `  ${shortenPath(path)}`),
  ...(paths.length > maxLeftoverLines ? [`  and ${paths.length - maxLeftoverLines} more`] : []),
]

const shorten = (text: string, maxLength = maxLineLength) =>
  text.length > maxLength ? `${text.slice(0, maxLength)}…` : text

/** One line for each group of rules, by the letters of their ids: G, A, B, S. */
function totalsByGroup(outcomes: readonly Outcome[]): string[] {
  const groupOf = (rule: string) => rule.replace(/[^a-z]*\d.*$/i, '')
  const letters = [...new Set(outcomes.map(({ rule }) => groupOf(rule)))].sort()
  return letters.map((letter) => {
    const ofGroup = outcomes.filter(({ rule }) => groupOf(rule) === letter)
    const counts = (['passed', 'failed', 'deviates', 'waived', 'skipped'] as const)
      .map((status) => [ofGroup.filter((outcome) => outcome.status === status).length, status] as const)
      .filter(([count]) => count > 0)
    return `${letter}  ${counts.map(([count, status]) => (status === 'deviates' ? notes(count) : `${count} ${status}`)).join(', ')}`
  })
}
