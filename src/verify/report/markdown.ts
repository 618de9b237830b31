import type { Outcome } from '../outcome.ts'
import type { Verification } from '../verify.ts'
import { curlOf } from './curl.ts'
import { printable } from './pretty.ts'

/** For a pull request or a wiki. */
export function markdown(verification: Verification): string {
  const { url, profile, ok, passed, failed, deviations, skipped, outcomes, unobservable, leftovers } = verification
  const of = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  return [
    `# Profile ${profile.toUpperCase()} at ${url}: ${ok ? 'the contract holds' : 'the contract is broken'}`,
    `${passed} passed, ${failed} failed, ${skipped} skipped, ${deviations} notes`,
    ...of('failed').map((outcome) => broken(url, outcome, 'Failed')),
    ...of('deviates').map((outcome) => broken(url, outcome, 'Note')),
    ...table(
      'Skipped',
      of('skipped').map(({ rule, name, reason }) => [rule, name, reason ?? '']),
    ),
    ...table(
      'Not to be seen from outside',
      unobservable.map(({ rule, what, reason }) => [rule, what, reason]),
    ),
    ...table(
      'Could not be deleted',
      leftovers.map((path) => [path]),
    ),
  ]
    .map((block) => `${block}\n`)
    .join('\n')
}

function broken(url: string, { rule, basis, name, sentence, failure }: Outcome, title: string): string {
  const request = failure?.sent ? `\n${fenced(curlOf(url, failure.sent))}\n` : ''
  return `## ${title}: ${rule} ${name}\n\n> ${sentence} (${basis})\n${request}\n- expected ${code(failure?.expected ?? '')}\n- got ${code(failure?.got ?? '')}`
}

function table(title: string, rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return []
  const width = rows[0]?.length ?? 0
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const head = [`| ${Array(width).fill(' ').join(' | ')} |`, `|${'---|'.repeat(width)}`]
  return [`## ${title}\n\n${[...head, ...rows.map(line)].join('\n')}`]
}

/** A fence longer than any run of backticks inside. */
function fenced(text: string): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(({ length }) => length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}\n${text}\n${fence}`
}

const code = (text: string) => `\`${printable(text.replaceAll('`', "'").replace(/\s+/g, ' '))}\``
