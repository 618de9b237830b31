import type { Outcome } from '../outcome.ts'
import type { Verification } from '../verify.ts'
import { curlOf } from './curl.ts'

/** For CI: a test suite for each rule, a test case for each check. */
export function junit({ url, profile, outcomes, unobservable, leftovers }: Verification): string {
  const rules = [...new Set(outcomes.map(({ rule }) => rule))]
  const suites = rules.map((rule) =>
    suite(
      url,
      rule,
      outcomes.filter((outcome) => outcome.rule === rule),
    ),
  )
  const sums = attributes({ name: `profile ${profile} at ${url}`, ...counts(outcomes) })
  const unseen = unobservable.map(({ rule, what, reason }) => unseenCase(rule, what, reason))
  const left = leftovers.map((path) => unseenCase('clean-up', path, 'this item could not be deleted'))
  const rest = [...unseen, ...left]
  const further = `  <testsuite${attributes({ name: 'not checked', tests: rest.length, skipped: rest.length })}>\n${rest.join('')}  </testsuite>\n`
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites${sums}>\n${suites.join('')}${further}</testsuites>\n`
}

function suite(url: string, rule: string, own: readonly Outcome[]): string {
  const cases = own.map((outcome) => testCase(url, outcome))
  return `  <testsuite${attributes({ name: rule, ...counts(own), skipped: own.filter(({ status }) => status === 'skipped').length })}>\n${cases.join('')}  </testsuite>\n`
}

function testCase(url: string, { rule, name, status, reason, failure, sentence, milliseconds }: Outcome): string {
  const head = `    <testcase${attributes({ name, classname: rule, time: seconds(milliseconds) })}`
  if (status === 'skipped')
    return `${head}>\n      <skipped${attributes({ message: reason ?? '' })}/>\n    </testcase>\n`
  if (!failure) return `${head}/>\n`
  const words = [
    sentence,
    failure.sent && curlOf(url, failure.sent),
    `expected ${failure.expected}`,
    `got ${failure.got}`,
  ]
  const text = escaped(words.filter((line) => line).join('\n'))
  const element = status === 'failed' ? 'failure' : 'system-out'
  const message = status === 'failed' ? attributes({ message: `expected ${failure.expected}`, type: rule }) : ''
  return `${head}>\n      <${element}${message}>${text}</${element}>\n    </testcase>\n`
}

const unseenCase = (classname: string, name: string, message: string) =>
  `    <testcase${attributes({ name, classname, time: '0' })}>\n      <skipped${attributes({ message })}/>\n    </testcase>\n`

function counts(outcomes: readonly Outcome[]) {
  const time = outcomes.reduce((sum, { milliseconds }) => sum + milliseconds, 0)
  const failures = outcomes.filter(({ status }) => status === 'failed').length
  return { tests: outcomes.length, failures, errors: 0, time: seconds(time) }
}

const seconds = (milliseconds: number) => (milliseconds / 1000).toFixed(3)

const attributes = (all: Record<string, string | number>) =>
  Object.entries(all)
    .map(([name, value]) => ` ${name}="${escaped(`${value}`)}"`)
    .join('')

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** XML has no way to write most control characters, nor half a surrogate pair. */
const escaped = (text: string) =>
  text
    .toWellFormed()
    .replace(/[&<>"]/g, (char) => entities[char] as string)
    .replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
