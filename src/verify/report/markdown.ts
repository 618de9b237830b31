import type { Outcome, Verification } from '../run.ts'
import { toCurl } from './curl.ts'
import { escapeControls } from './pretty.ts'

/** For a pull request or a wiki. */
export function markdown(verification: Verification): string {
  const { url, profile, ok, passed, failed, deviations, skipped, outcomes, unobservable, leftovers } = verification
  const withStatus = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  const blocks = [
    `# Profile ${profile.toUpperCase()} at ${url}: ${ok ? 'the contract holds' : 'the contract is broken'}`,
    `${passed} passed, ${failed} failed, ${skipped} skipped, ${deviations} notes`,
    ...withStatus('failed').map((outcome) => failureSection(url, outcome, 'Failed')),
    ...withStatus('deviates').map((outcome) => failureSection(url, outcome, 'Note')),
    ...table(
      'Skipped',
      withStatus('skipped').map(({ rule, name, reason }) => [rule, name, reason ?? '']),
    ),
    ...table(
      'Not observable over HTTP',
      unobservable.map(({ rule, what, reason }) => [rule, what, reason]),
    ),
    ...table(
      'Could not be deleted',
      leftovers.map((path) => [path]),
    ),
  ]
  return blocks.map((block) => `${block}\n`).join('\n')
}

function failureSection(url: string, { rule, basis, name, sentence, failure }: Outcome, title: string): string {
  const request = failure?.sent ? `\n${fence(toCurl(url, failure.sent))}\n` : ''
  return `## ${title}: ${rule} ${name}\n\n> ${sentence} (${basis})\n${request}\n- expected ${code(failure?.expected ?? '')}\n- got ${code(failure?.got ?? '')}`
}

function table(title: string, rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return []
  const width = rows[0]?.length ?? 0
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const head = [`| ${Array(width).fill(' ').join(' | ')} |`, `|${'---|'.repeat(width)}`]
  return [`## ${title}\n\n${[...head, ...rows.map(line)].join('\n')}`]
}

/** The fence must be longer than any run of backticks inside. */
function fence(text: string): string {
  const longestRun = Math.max(2, ...(text.match(/`+/g) ?? []).map(({ length }) => length))
  const marker = '`'.repeat(longestRun + 1)
  return `${marker}\n${text}\n${marker}`
}

const code = (text: string) => `\`${escapeControls(text.replaceAll('`', "'").replace(/\s+/g, ' '))}\``
