import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sendRequests } from '../../scripts/mutation/requests.ts'
import {
  type Fault,
  isBlamed,
  isMissed,
  type Result,
  type Run,
  rowsByKind,
  rowsByRule,
  surprises,
  toChart,
  toMarkdown,
  toRow,
  toScore,
} from '../../scripts/mutation/score.ts'
import { cleanUp } from '../support/cleanup.ts'
import { startServer } from './servers/index.ts'
import { ReferenceA, ReferenceB } from './servers/reference.ts'

const run = (values: Partial<Run> = {}): Run => ({ id: 'a', failed: [], notes: [], lines: 10, seconds: 1, ...values })
const fault = (values: Partial<Fault> = {}): Fault => ({
  id: 'a',
  profile: 'a',
  rule: 'A1',
  kind: 'state',
  breaks: 'specified',
  fault: 'The list is empty.',
  ...values,
})
const result = (ofRun: Partial<Run>, ofFault: Partial<Fault> = {}): Result => ({
  ...run(ofRun),
  fault: fault(ofFault),
})

const results = [
  result({ failed: ['A1', 'A7'], lines: 30 }),
  result({ failed: ['A7'], notes: ['A1'], lines: 20 }),
  result({ notes: ['A10'] }, { rule: 'A10', breaks: 'choice', kind: 'text' }),
  result({}, { rule: 'A10', breaks: 'unobservable', kind: 'text' }),
  result({}, { rule: 'A2', kind: 'wire' }),
  result({ notes: ['A2'] }, { rule: 'A2', kind: 'wire' }),
]

test('mutation counts by rule, and names a rule only if a failure does', () => {
  assert.deepEqual(
    rowsByRule(results).map(({ name }) => name),
    ['A1', 'A2', 'A10'],
  )
  assert.deepEqual(toRow('all', results), {
    name: 'all',
    servers: 6,
    failed: 2,
    noted: 2,
    unobservable: 1,
    missed: 1,
    named: 3,
    medianLines: 10,
    maxLines: 30,
  })
  assert.equal(rowsByKind(results).find(({ name }) => name === 'text')?.servers, 2)
})

test('mutation: a fault that the specification forbids is missed unless a check fails without --strict', () => {
  assert.deepEqual(results.map(isMissed), [false, false, false, false, true, true])
})

test('mutation lists verdicts that the author of a server did not expect', () => {
  const lists = surprises([
    result({ failed: ['A1'] }, { id: 'choice failed', breaks: 'choice' }),
    result({}, { id: 'choice passed', breaks: 'choice' }),
    result({ notes: ['A1'] }, { id: 'seen', breaks: 'unobservable' }),
    ...results,
  ])
  assert.deepEqual(
    Object.values(lists).map((list) => list.map((one) => one.fault.id)),
    [['choice failed'], ['choice passed'], ['seen']],
  )
})

test('mutation scores a tool by the faults that a client can see and the specification forbids', () => {
  const correct = [run(), run({ failed: ['A1'] }), run({ problem: 'the run is not complete' }), run({ notes: ['A4'] })]
  assert.deepEqual(correct.map(isBlamed), [false, true, true, false])
  const score = toScore('verify', '', results, correct)
  assert.deepEqual([score.blamed, score.correct], [2, 4])
  assert.deepEqual(score.caught.at(-1), { kind: 'all', caught: 2, of: 4 })
  assert.deepEqual(score.caught[0], { kind: 'state', caught: 2, of: 2 })
})

test('mutation writes a table and a chart with each tool', () => {
  const scores = [toScore('verify', '', results, [run()]), toScore('Tool', '1.2.3', results.slice(0, 5), [run()])]
  const rivals = [{ name: 'Tool', setup: 'as its manual says' }]
  const markdown = toMarkdown(scores, rivals, { when: '2026-11-17', platform: 'Node' })
  assert.match(markdown, /^\| Tool 1\.2\.3 \| 2 of 2 \| 0 of 0 \| 0 of 1 \|/m)
  assert.match(markdown, /^- Tool: as its manual says$/m)
  assert.match(markdown, /the tool got a sample/)
  assert.ok(markdown.split('\n').length <= 40)
  const chart = toChart(scores)
  assert.match(chart, />50 % \(2 of 4\)</)
  assert.equal(chart.match(/class="own"/g)?.length, 6)
})

for (const [profile, Reference] of [
  ['a', ReferenceA],
  ['b', ReferenceB],
] as const)
  test(`the requests that other tools get pass on a correct server of profile ${profile}`, async (t) => {
    const { url, token, close } = await startServer({ create: (options) => new Reference(options).create() })
    cleanUp(t, close)
    assert.deepEqual(await sendRequests(profile, url, token), [])
  })
