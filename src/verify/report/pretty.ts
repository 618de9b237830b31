import type { Outcome, Verification } from '../run.ts'
import { toCurl } from './curl.ts'

export type Colorize = (color: 'red' | 'green' | 'yellow' | 'dim', text: string) => string

/** For a terminal: failures first, then what was not checked, then totals. */
export function pretty(verification: Verification, colorize: Colorize = (_, text) => text): string {
  const { url, outcomes, passed, failed, deviations, skipped, unobservable, leftovers } = verification
  const withStatus = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  const sections = [
    ...withStatus('failed').map((outcome) => failureLines(url, outcome, colorize('red', 'FAILED '))),
    ...withStatus('deviates').map((outcome) => failureLines(url, outcome, colorize('yellow', 'note   '))),
    withStatus('skipped').map(({ rule, name, reason }) => `${colorize('dim', 'skipped')} ${rule}  ${name}: ${reason}`),
    ['Not observable over HTTP:', ...unobservable.map(({ rule, what, reason }) => `  ${rule}  ${what}: ${reason}`)],
    leftovers.length > 0 ? [colorize('red', 'Could not be deleted:'), ...leftovers.map((path) => `  ${path}`)] : [],
    totalsByGroup(outcomes),
  ]
  const text = sections.map((lines) => (lines.length > 0 ? `${lines.join('\n')}\n\n` : '')).join('')
  const notes = deviations > 0 ? `${deviations} deviations from choices are notes; with --strict they fail.\n` : ''
  const totals = `${passed} passed, ${failed} failed, ${skipped} skipped`
  return `${text}${notes}${colorize(failed > 0 ? 'red' : 'green', totals)}\n`
}

const failureLines = (url: string, { rule, basis, name, sentence, failure }: Outcome, label: string) => [
  `${label} ${rule}  ${name}`,
  `        rule      ${sentence} (${basis})`,
  ...(failure?.sent ? [`        request   ${toCurl(url, failure.sent)}`] : []),
  `        expected  ${escapeControls(failure?.expected ?? '')}`,
  `        got       ${escapeControls(failure?.got ?? '')}`,
]

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
    return `${letter}  ${counts.map(([count, status]) => `${count} ${status === 'deviates' ? 'notes' : status}`).join(', ')}`
  })
}
