import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { parse } from 'yaml'
import { read } from './support/documentation.ts'

interface Job {
  readonly strategy?: { readonly matrix: { os: string[]; node: number[]; include: { os: string; node: number }[] } }
  readonly 'timeout-minutes': number
  readonly steps: readonly { readonly uses?: string; readonly run?: string }[]
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const workflow = (name: string): Workflow => parse(read(`.github/workflows/${name}.yml`))
const commandsOf = ({ jobs }: Workflow) =>
  Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ run = [] }) => run))
const { scripts } = JSON.parse(read('package.json'))

suite('GitHub workflows', () => {
  for (const name of ['ci', 'release'])
    test(`${name}: its scripts exist, actions have a version, jobs end, permissions are few`, () => {
      const { jobs, permissions } = workflow(name)
      for (const { steps, 'timeout-minutes': minutes } of Object.values(jobs)) {
        assert.ok(minutes <= 90)
        for (const { uses, run } of steps) {
          if (uses !== undefined) assert.match(uses, /^actions\/[\w-]+@v\d+$/)
          const script = /^npm run ([\w:]+)$/.exec(run ?? '')?.[1]
          if (script !== undefined) assert.ok(scripts[script], run)
        }
      }
      assert.equal(permissions.contents, 'read')
    })

  test('ci runs the gate on each supported Node and on three systems, and the slow tests', () => {
    const ci = workflow('ci')
    assert.deepEqual(Object.keys(ci.on), ['push', 'pull_request'])
    const { os, node, include } = ci.jobs.gate?.strategy?.matrix ?? assert.fail()
    assert.deepEqual([...os, ...include.map((one) => one.os)], ['ubuntu-latest', 'macos-latest', 'windows-latest'])
    const [, supported = ''] = /tested on Node ([^.]+)\./.exec(read('README.md')) ?? []
    assert.deepEqual(node, supported.match(/\d+/g)?.map(Number))
    assert.deepEqual(commandsOf(ci), ['npm ci', 'npm run check', 'npm ci', 'npm run test:slow'])
  })

  test('release publishes with provenance what has passed all tests, when somebody starts it', () => {
    const release = workflow('release')
    assert.deepEqual(Object.keys(release.on), ['workflow_dispatch'])
    assert.equal(release.permissions['id-token'], 'write')
    assert.deepEqual(commandsOf(release), [
      'npm ci',
      'npm run check',
      'npm run test:slow',
      'npm publish --provenance --access public',
    ])
  })
})
