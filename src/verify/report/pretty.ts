import type { Outcome } from '../outcome.ts'
import type { Verification } from '../verify.ts'
import { curlOf } from './curl.ts'

export type Paint = (colour: 'red' | 'green' | 'yellow' | 'dim', text: string) => string

/** For people: what is broken first, then what was not checked, then the sums. */
export function pretty(verification: Verification, paint: Paint = (_, text) => text): string {
  const { url, outcomes, passed, failed, deviations, skipped, unobservable, leftovers } = verification
  const of = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  const sections = [
    ...of('failed').map((outcome) => broken(url, outcome, paint('red', 'FAILED '))),
    ...of('deviates').map((outcome) => broken(url, outcome, paint('yellow', 'note   '))),
    section(of('skipped').map(({ rule, name, reason }) => `${paint('dim', 'skipped')} ${rule}  ${name}: ${reason}`)),
    section([
      'Not to be seen from outside:',
      ...unobservable.map(({ rule, what, reason }) => `  ${rule}  ${what}: ${reason}`),
    ]),
    section(
      leftovers.length > 0 ? [paint('red', 'Could not be deleted:'), ...leftovers.map((path) => `  ${path}`)] : [],
    ),
    section(groups(outcomes)),
  ]
  const notes = deviations > 0 ? `${deviations} deviations from choices are notes; with --strict they fail.\n` : ''
  const sum = `${passed} passed, ${failed} failed, ${skipped} skipped`
  return `${sections.join('')}${notes}${paint(failed > 0 ? 'red' : 'green', sum)}\n`
}

const section = (lines: readonly string[]) => (lines.length > 0 ? `${lines.join('\n')}\n\n` : '')

function broken(url: string, { rule, basis, name, sentence, failure }: Outcome, label: string): string {
  const rows = [
    `${label} ${rule}  ${name}`,
    `        rule      ${sentence} (${basis})`,
    ...(failure?.sent ? [`        request   ${curlOf(url, failure.sent)}`] : []),
    `        expected  ${printable(failure?.expected ?? '')}`,
    `        got       ${printable(failure?.got ?? '')}`,
  ]
  return section(rows)
}

/** What a stranger's server sent must not steer the terminal. */
export const printable = (text: string) =>
  text.replace(/[^\P{Cc}]/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`)

function groups(outcomes: readonly Outcome[]): string[] {
  const letters = [...new Set(outcomes.map(({ rule }) => rule[0]))].sort()
  return letters.map((letter) => {
    const own = outcomes.filter(({ rule }) => rule[0] === letter)
    const counts = (['passed', 'failed', 'deviates', 'skipped'] as const)
      .map((status) => [own.filter((outcome) => outcome.status === status).length, status] as const)
      .filter(([count]) => count > 0)
    return `${letter}  ${counts.map(([count, status]) => `${count} ${status === 'deviates' ? 'notes' : status}`).join(', ')}`
  })
}
