import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { cleanUp } from '../support/cleanup.ts'
import { cleanEnvironment, runCommand, start } from '../support/cli.ts'
import { faultyServer } from '../support/faulty-server.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { freePort } from '../support/port.ts'
import { transports } from '../support/running.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

interface Action {
  readonly name: string
  readonly description: string
  readonly inputs: Record<string, { description: string; default?: string }>
  readonly outputs: Record<string, { description: string }>
  readonly runs: Readonly<Record<'using' | 'main' | 'post', string>>
}

const action: Action = parse(readFileSync(join(root, 'action.yml'), 'utf8'))

/** The lines `name=value` of a file of the runner. */
const valuesIn = (file: string): Record<string, string> =>
  Object.fromEntries(
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split(/=(.*)/s).slice(0, 2)),
  )

/** Runs the action as a runner does: inputs in the environment, files for outputs, state and the summary. */
async function runStep(
  t: TestContext,
  checkout: string,
  inputs: Record<string, string> = {},
  written: readonly string[] = [],
) {
  const [workspace, runner] = [temporaryFolder(t), temporaryFolder(t)]
  const files = { SUMMARY: 'GITHUB_STEP_SUMMARY', OUTPUT: 'GITHUB_OUTPUT', STATE: 'GITHUB_STATE' }
  for (const name of Object.keys(files)) writeFileSync(join(runner, name), '')
  writeFileSync(join(runner, 'SUMMARY'), 'of an earlier step\n')
  const given = Object.keys(action.inputs).map((name) => [
    `INPUT_${name.toUpperCase()}`,
    inputs[name] ?? action.inputs[name]?.default ?? '',
  ])
  const env = {
    ...cleanEnvironment(),
    PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`,
    RUNNER_TEMP: runner,
    npm_config_prefer_offline: 'true',
    ...Object.fromEntries(Object.entries(files).map(([name, variable]) => [variable, join(runner, name)])),
    ...Object.fromEntries(given),
  }
  const run = (phase: 'main' | 'post', state: Record<string, string> = {}) => {
    const saved = Object.fromEntries(Object.entries(state).map(([name, value]) => [`STATE_${name}`, value]))
    return runCommand(t, process.execPath, [join(checkout, action.runs[phase])], {
      cwd: workspace,
      env: { ...env, ...saved },
    })
  }
  const ended = await run('main')
  assert.equal(ended.stderr, '')
  assert.deepEqual(readdirSync(workspace).sort(), [...written].sort())
  const [, summary = assert.fail('the summary is overwritten')] =
    /^of an earlier step\n(.*)$/s.exec(readFileSync(join(runner, 'SUMMARY'), 'utf8')) ?? []
  return {
    ...ended,
    summary,
    outputs: valuesIn(join(runner, 'OUTPUT')),
    read: (name: string) => readFileSync(join(workspace, name), 'utf8'),
    /** Runs what comes after the last step of the job. */
    post: () => run('post', valuesIn(join(runner, 'STATE'))),
  }
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

suite('action.yml', { concurrency: true }, () => {
  test('has inputs and outputs that are described and used', () => {
    assert.ok(action.name && action.description)
    const script = readFileSync(join(root, action.runs.main), 'utf8')
    for (const [name, { description }] of Object.entries({ ...action.inputs, ...action.outputs })) {
      assert.ok(description)
      assert.ok(script.includes(name.replace(/-[ab]$/, '-')), name)
    }
  })

  test('builds in a checkout, adds the report to the job summary, and passes a correct server', async (t) => {
    const checkout = temporaryFolder(t)
    for (const name of ['package.json', 'package-lock.json', '.npmrc', 'tsconfig.json', 'tsconfig.build.json'])
      cpSync(join(root, name), join(checkout, name))
    for (const name of ['page', 'scripts', 'src']) cpSync(join(root, name), join(checkout, name), { recursive: true })
    const passed = await runStep(t, checkout, { url: await serve(t), profile: 'a' })
    assert.equal(passed.code, 0, passed.stdout)
    assert.match(passed.summary, /^# Profile A at http:\S+: the contract holds\n/)
    assert.ok(passed.stdout.endsWith(passed.summary))
    const { failed, waived, passed: count } = passed.outputs
    assert.deepEqual([failed, waived, Number(count) > 100], ['0', '0', true])
    assert.deepEqual([(await passed.post()).code, (await passed.post()).stdout], [0, ''])
  })

  test('adds the report also when it fails a faulty server', async (t) => {
    const inputs = { url: await serve(t, 410), profile: 'a', only: 'A2,A11' }
    const { code, summary, outputs, stdout } = await runStep(t, root, inputs)
    assert.equal(code, 1)
    assert.match(summary, /: the contract is broken\n/)
    assert.match(summary, /^## Failed: A2 /m)
    const annotations = stdout.match(/^::.*/gm) ?? []
    assert.equal(`${annotations.length}`, outputs.failed)
    assert.match(annotations[0] ?? '', /^::error title=A2 [^:]*::.*%0Aexpected status 404%0Agot status 410/)
  })

  test('writes the report to a file, too, in the format of its extension', async (t) => {
    const inputs = { url: await serve(t, 410), profile: 'a', only: 'A2,A11' }
    for (const [report, start] of [
      ['contract.xml', '<?xml '],
      ['my contract.json', '{'],
      ['contract.md', '# Profile A at '],
    ] as const) {
      const { code, summary, read } = await runStep(t, root, { ...inputs, report }, [report])
      assert.equal(code, 1)
      assert.ok(read(report).startsWith(start))
      assert.match(summary, /^## Failed: A2 /m)
    }
  })

  test('passes a server that breaks only rules of except, and one that is still starting', async (t) => {
    const { code, summary } = await runStep(t, root, {
      url: await serve(t, 410),
      profile: 'a',
      only: 'A2,A11',
      except: 'A2',
    })
    assert.deepEqual([code, /^## Waived: A2 /m.test(summary)], [0, true], summary)
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const running = runStep(t, root, { url, profile: 'b', only: 'B1', wait: '60', reset: 'true' })
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
    const { code, summary } = await runStep(t, root, { url, contract })
    assert.deepEqual([code, /^# Lists at http:\S+: the contract holds\n/.test(summary)], [0, true], summary)
    const without = await runStep(t, root, { url })
    assert.equal(without.code, 2)
    assert.match(without.summary, /Which contract\? Add --profile a or --profile b, or --contract with a file\./)
  })

  test('passes a server with waivers for the rules that it breaks', async (t) => {
    const waivers = join(temporaryFolder(t), 'waivers.json')
    writeFileSync(waivers, JSON.stringify([{ rule: 'A2', reason: 'soft delete' }]))
    const { code, outputs } = await runStep(t, root, {
      url: await serve(t, 410),
      profile: 'a',
      only: 'A2,A11',
      waivers,
    })
    assert.deepEqual([code, outputs.failed, Number(outputs.waived) > 0], [0, '0', true])
  })

  test('with start, serves both profiles with the items of a file until the job ends', async (t) => {
    const items = join(temporaryFolder(t), 'items.json')
    writeFileSync(items, JSON.stringify({ a: [{ id: 7, name: 'walk the dog', isComplete: false }] }))
    const port = await freePort()
    const { code, stdout, outputs, post } = await runStep(t, root, { start: 'true', 'port-a': `${port}`, items })
    cleanUp(t, post)
    assert.equal(code, 0, stdout)
    assert.equal(outputs['url-a'], `http://localhost:${port}`)
    const list = await fetch(`${outputs['url-a']}/api/todoitems`)
    assert.deepEqual(await list.json(), [{ id: 7, name: 'walk the dog', isComplete: false }])
    assert.equal((await fetch(`${outputs['url-b']}/api/todoitems`)).status, 200)
    const again = await runStep(t, root, { start: 'true', profile: 'a', 'port-a': `${port}` })
    assert.equal(again.code, 1)
    assert.match(again.stdout, new RegExp(`^::error title=todo-item-service::todo-service. Port ${port} is in use by `))
    for (const step of [again, { post }]) {
      const ended = await step.post()
      assert.equal(ended.code, 0, ended.stdout)
    }
    await assert.rejects(fetch(`${outputs['url-a']}/api/todoitems`))
  })

  test('passes on strict, insecure, reset, fresh, quick, ca, wait, timeout and token', async (t) => {
    const { token = '' } = await transports['over a socket'](t, 'a')
    const inputs = {
      url: await serve(t),
      profile: 'a',
      only: 'G9',
      strict: 'maybe',
      insecure: 'perhaps',
      reset: 'never',
      fresh: 'hardly',
      quick: 'slowly',
      ca: join(root, 'package.json'),
      wait: 'long',
      timeout: '-1',
      token: `${token}!`,
    }
    const { code, summary } = await runStep(t, root, inputs)
    assert.equal(code, 2)
    assert.match(summary, /--strict must be true or false, not "maybe"/)
    assert.match(summary, /--insecure must be true or false, not "perhaps"/)
    assert.match(summary, /--reset must be true or false, not "never"/)
    assert.match(summary, /--fresh must be true or false, not "hardly"/)
    assert.match(summary, /--quick must be true or false, not "slowly"/)
    assert.match(summary, /--ca must be a readable file in PEM format/)
    assert.match(summary, /--wait must be /)
    assert.match(summary, /--timeout must be /)
    assert.match(summary, /TODO_TOKEN must be a JSON Web Token/)
  })

  test('fails, with the reason in the summary, where no server listens and where the URL is no URL', async (t) => {
    const unreachable = await runStep(t, root, { url: `http://127.0.0.1:${await freePort()}`, profile: 'a' })
    assert.equal(unreachable.code, 2)
    assert.match(unreachable.summary, /^todo-service: .*127\.0\.0\.1/)
    for (const url of ['', '--help', '$(touch injected) `touch injected`; touch injected']) {
      const { code, summary } = await runStep(t, root, { url, profile: 'a' })
      assert.deepEqual(
        [code, summary.split(', not ')[0]],
        [2, 'todo-service: The URL must be an http or https URL without credentials, query or fragment'],
      )
    }
  })
})
