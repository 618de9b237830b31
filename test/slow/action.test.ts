import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { cleanEnvironment, runCommand, start } from '../support/cli.ts'
import { faultyServer } from '../support/faulty-server.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { freePort } from '../support/port.ts'
import { transports } from '../support/running.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

interface Step {
  readonly name: string
  readonly shell: string
  readonly run: string
  readonly env?: Record<string, string>
}

interface Action {
  readonly name: string
  readonly description: string
  readonly inputs: Record<string, { description: string; required?: boolean; default?: string }>
  readonly runs: { readonly using: string; readonly steps: Step[] }
}

const action: Action = parse(readFileSync(join(root, 'action.yml'), 'utf8'))
const [install, verify] = action.runs.steps as [Step, Step]

/** Runs a step as a runner does: the script in a file, inputs in the environment, bash with -e and pipefail. */
async function runStep(
  t: TestContext,
  step: Step,
  actionPath: string,
  inputs: Record<string, string> = {},
  written: readonly string[] = [],
) {
  const folder = temporaryFolder(t)
  const [script, summary] = [join(folder, 'script.sh'), join(folder, 'summary.md')]
  writeFileSync(script, step.run)
  writeFileSync(summary, 'of an earlier step\n')
  const evaluate = (text: string) =>
    text.replaceAll(/\$\{\{ inputs\.(\w+) \}\}/g, (_, name) => inputs[name] ?? action.inputs[name]?.default ?? '')
  const env = {
    ...cleanEnvironment(),
    PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`,
    GITHUB_ACTION_PATH: actionPath,
    GITHUB_STEP_SUMMARY: summary,
    npm_config_prefer_offline: 'true',
    ...Object.fromEntries(Object.entries(step.env ?? {}).map(([name, value]) => [name, evaluate(value)])),
  }
  const args = ['--noprofile', '--norc', '-eo', 'pipefail', script]
  const ended = await runCommand(t, 'bash', args, { cwd: folder, env })
  const files = ['script.sh', 'summary.md', ...written]
  assert.deepEqual(readdirSync(folder).sort(), files.sort())
  const [, added = assert.fail('the summary is overwritten')] =
    /^of an earlier step\n(.*)$/s.exec(readFileSync(summary, 'utf8')) ?? []
  return { ...ended, summary: added, read: (name: string) => readFileSync(join(folder, name), 'utf8') }
}

/** The URL of a server of profile A; with `missing`, the status of a GET of an item that does not exist. */
async function serve(t: TestContext, missing = 404): Promise<string> {
  const client = await transports['over a socket'](t, 'a')
  const server = faultyServer(client, async (request, forward) => {
    const response = await forward(request)
    return request.method === 'GET' && response.status === 404 ? { ...response, status: missing } : response
  })
  return listen(t, server)
}

const skip = process.platform === 'win32' && 'bash and tee are those of a runner'

suite('action.yml', { skip, concurrency: true }, () => {
  test('is a composite action whose inputs are described, used, and never part of a script', () => {
    assert.equal(action.runs.using, 'composite')
    assert.ok(action.name && action.description)
    const used = action.runs.steps.flatMap(({ env = {} }) => Object.values(env))
    assert.deepEqual(
      used.sort(),
      Object.keys(action.inputs)
        .map((name) => `\${{ inputs.${name} }}`)
        .sort(),
    )
    for (const { description } of Object.values(action.inputs)) assert.ok(description)
    for (const { run, shell } of action.runs.steps) {
      assert.equal(shell, 'bash')
      assert.ok(!run.includes('${{'), run)
    }
  })

  test('builds in a checkout, adds the report to the job summary, and passes a correct server', async (t) => {
    const checkout = temporaryFolder(t)
    for (const name of ['package.json', 'package-lock.json', '.npmrc', 'tsconfig.json', 'tsconfig.build.json'])
      cpSync(join(root, name), join(checkout, name))
    for (const name of ['page', 'scripts', 'src']) cpSync(join(root, name), join(checkout, name), { recursive: true })
    const { code, stderr } = await runStep(t, install, checkout)
    assert.equal(code, 0, stderr)
    const passed = await runStep(t, verify, checkout, { url: await serve(t), profile: 'a' })
    assert.equal(passed.code, 0, passed.stdout)
    assert.match(passed.summary, /^# Profile A at http:\S+: the contract holds\n/)
    assert.equal(passed.stdout, passed.summary)
  })

  test('adds the report also when it fails a faulty server', async (t) => {
    const { code, summary } = await runStep(t, verify, root, { url: await serve(t, 410), profile: 'a', only: 'A2,A11' })
    assert.equal(code, 1)
    assert.match(summary, /: the contract is broken\n/)
    assert.match(summary, /^## Failed: A2 /m)
  })

  test('writes the report to a file, too, in the format of its extension', async (t) => {
    const inputs = { url: await serve(t, 410), profile: 'a', only: 'A2,A11' }
    for (const [report, start] of [
      ['contract.xml', '<?xml '],
      ['my contract.json', '{'],
      ['contract.md', '# Profile A at '],
    ] as const) {
      const { code, summary, read } = await runStep(t, verify, root, { ...inputs, report }, [report])
      assert.equal(code, 1)
      assert.ok(read(report).startsWith(start))
      assert.match(summary, /^## Failed: A2 /m)
    }
  })

  test('passes a server that breaks only rules of except, and one that is still starting', async (t) => {
    const { code, summary } = await runStep(t, verify, root, {
      url: await serve(t, 410),
      profile: 'a',
      only: 'A2,A11',
      except: 'A2',
    })
    assert.deepEqual([code, /^## Waived: A2 /m.test(summary)], [0, true], summary)
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const running = runStep(t, verify, root, { url, profile: 'b', only: 'B1', wait: '60', reset: 'true' })
    start(t, ['serve', '--profile', 'b', '--host', '127.0.0.1', '--port', `${port}`, '--no-https'])
    const started = await running
    assert.equal(started.code, 0, started.stdout)
  })

  test('checks another contract, and reports a missing one', async (t) => {
    const contract = join(temporaryFolder(t), 'contract.mjs')
    const library = new URL('../../src/verify/index.js', import.meta.url).href
    writeFileSync(
      contract,
      `import { defineContract, expectStatus, spec } from '${library}'
      export default defineContract({
        name: 'Lists',
        rules: [{ id: 'L1', basis: 'spec', sentence: 'GET returns 200.' }],
        items: { path: '/api/todoitems' },
        checks: [spec('L1', 'GET', async (client) => expectStatus(await client.send('GET', '/api/todoitems'), 200))],
      })`,
    )
    const url = await serve(t)
    const { code, summary } = await runStep(t, verify, root, { url, contract })
    assert.deepEqual([code, /^# Lists at http:\S+: the contract holds\n/.test(summary)], [0, true], summary)
    const without = await runStep(t, verify, root, { url })
    assert.equal(without.code, 2)
    assert.match(without.summary, /Which contract\? Add --profile a or --profile b, or --contract with a file\./)
  })

  test('passes on strict, insecure, reset, wait, timeout and token', async (t) => {
    const { token = '' } = await transports['over a socket'](t, 'a')
    const inputs = {
      url: await serve(t),
      profile: 'a',
      only: 'G9',
      strict: 'maybe',
      insecure: 'perhaps',
      reset: 'never',
      wait: 'long',
      timeout: '-1',
      token: `${token}!`,
    }
    const { code, summary } = await runStep(t, verify, root, inputs)
    assert.equal(code, 2)
    assert.match(summary, /--strict must be true or false, not "maybe"/)
    assert.match(summary, /--insecure must be true or false, not "perhaps"/)
    assert.match(summary, /--reset must be true or false, not "never"/)
    assert.match(summary, /--wait must be /)
    assert.match(summary, /--timeout must be /)
    assert.match(summary, /TODO_TOKEN must be a JSON Web Token/)
  })

  test('fails, with the reason in the summary, where no server listens and where the URL is no URL', async (t) => {
    const unreachable = await runStep(t, verify, root, { url: `http://127.0.0.1:${await freePort()}`, profile: 'a' })
    assert.equal(unreachable.code, 2)
    assert.match(unreachable.summary, /^todo-service: .*127\.0\.0\.1/)
    for (const url of ['', '--help', '$(touch injected) `touch injected`; touch injected']) {
      const { code, summary } = await runStep(t, verify, root, { url, profile: 'a' })
      assert.deepEqual(
        [code, summary.split(', not ')[0]],
        [2, 'todo-service: The URL must be an http or https URL without credentials, query or fragment'],
      )
    }
  })
})
