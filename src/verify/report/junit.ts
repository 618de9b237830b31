import { shortenPath } from '../engine/cleanup.ts'
import type { Outcome, Verification } from '../engine/run.ts'

/** A test suite for each rule, a test case for each check. */
export function junit({ url, contract, outcomes, unobservable, leftovers }: Verification): string {
  const rules = [...new Set(outcomes.map(({ rule }) => rule))]
  const suites = rules.map((rule) => {
    const ofRule = outcomes.filter((outcome) => outcome.rule === rule)
    const skipped = ofRule.filter(({ status }) => status === 'skipped').length
    const cases = ofRule.map(testCase)
    return testSuite({ name: rule, ...totals(ofRule), skipped }, cases)
  })
  const notChecked = [
    ...unobservable.map(({ rule, what, reason }) => skippedCase({ name: what, classname: rule, time: '0' }, reason)),
    ...leftovers.map((path) =>
      skippedCase({ name: shortenPath(path), classname: 'clean-up', time: '0' }, 'this item could not be deleted'),
    ),
  ]
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites${attributes({ name: `${contract} at ${url}`, ...totals(outcomes) })}>\n`,
    ...suites,
    testSuite({ name: 'not checked', tests: notChecked.length, skipped: notChecked.length }, notChecked),
    '</testsuites>\n',
  ].join('')
}

type Attributes = Readonly<Record<string, string | number>>

const testSuite = (own: Attributes, cases: readonly string[]) =>
  `  <testsuite${attributes(own)}>\n${cases.join('')}  </testsuite>\n`

function testCase({ rule, name, status, reason, failure, sentence, milliseconds }: Outcome): string {
  const own = { name, classname: rule, time: toSeconds(milliseconds) }
  if (status === 'skipped') return skippedCase(own, reason ?? '')
  if (!failure) return `    <testcase${attributes(own)}/>\n`
  const { request, expected, got } = failure
  const lines = [sentence, ...(request ? [request] : []), `expected ${expected}`, `got ${got}`]
  const text = escapeXml(lines.join('\n'))
  const content =
    status === 'failed'
      ? `<failure${attributes({ message: `expected ${expected}`, type: rule })}>${text}</failure>`
      : `<system-out>${text}</system-out>`
  return `    <testcase${attributes(own)}>\n      ${content}\n    </testcase>\n`
}

const skippedCase = (own: Attributes, message: string) =>
  `    <testcase${attributes(own)}>\n      <skipped${attributes({ message })}/>\n    </testcase>\n`

function totals(outcomes: readonly Outcome[]) {
  const milliseconds = outcomes.reduce((sum, outcome) => sum + outcome.milliseconds, 0)
  const failures = outcomes.filter(({ status }) => status === 'failed').length
  return { tests: outcomes.length, failures, errors: 0, time: toSeconds(milliseconds) }
}

const toSeconds = (milliseconds: number) => (milliseconds / 1000).toFixed(3)

const attributes = (values: Attributes) =>
  Object.entries(values)
    .map(([name, value]) => ` ${name}="${escapeXml(`${value}`)}"`)
    .join('')

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** XML 1.0 cannot represent most control characters, nor lone surrogates. */
const escapeXml = (text: string) =>
  text
    .toWellFormed()
    .replace(/[&<>"]/g, (char) => entities[char] as string)
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
