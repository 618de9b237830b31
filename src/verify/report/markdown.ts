import { escapeText } from '../../common/escape.ts'
import { shortenPath } from '../engine/cleanup.ts'
import type { Outcome, Verification } from '../engine/run.ts'
import { totals } from './pretty.ts'

/** Formats a report for a pull request or a wiki. */
export function markdown(verification: Verification): string {
  const { url, contract, failed, complete, outcomes, waivers, unobservable, leftovers } = verification
  const withStatus = (status: Outcome['status']) => outcomes.filter((outcome) => outcome.status === status)
  const blocks = [
    `# ${contract} at ${url}: ${failed > 0 ? 'the contract is broken' : complete ? 'the contract holds' : 'not checked to the end'}`,
    totals(verification),
    ...withStatus('failed').map((outcome) => failureSection(outcome, 'Failed')),
    ...withStatus('deviates').map((outcome) => failureSection(outcome, 'Note')),
    ...withStatus('waived').map((outcome) => failureSection(outcome, 'Waived')),
    ...table(
      'Waivers',
      waivers.map(({ rule, reason, until = '', status }) => [rule, reason, until, status]),
    ),
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
      leftovers.map((path) => [shortenPath(path)]),
    ),
  ]
  return blocks.map((block) => `${block}\n`).join('\n')
}

function failureSection({ rule, basis, name, sentence, failure }: Outcome, title: string): string {
  const request = failure?.request ? `\n${fence(failure.request)}\n` : ''
  return `## ${title}: ${rule} ${name}\n\n> ${sentence} (${basis})\n${request}\n- expected ${code(failure?.expected ?? '')}\n- got ${code(failure?.got ?? '')}`
}

function table(title: string, rows: readonly (readonly string[])[]): string[] {
  if (rows.length === 0) return []
  const width = rows[0]?.length ?? 0
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => escapeText(cell, 'markdown')).join(' | ')} |`
  const head = [`| ${Array(width).fill(' ').join(' | ')} |`, `|${'---|'.repeat(width)}`]
  return [`## ${title}\n\n${[...head, ...rows.map(line)].join('\n')}`]
}

/** The fence must be longer than any run of backticks inside. */
function fence(text: string): string {
  const longestRun = Math.max(2, ...(text.match(/`+/g) ?? []).map(({ length }) => length))
  const marker = '`'.repeat(longestRun + 1)
  return `${marker}\n${text}\n${marker}`
}

const code = (text: string) => `\`${text.replaceAll('`', "'")}\``
