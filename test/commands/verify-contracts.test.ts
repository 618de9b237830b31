import assert from 'node:assert/strict'
import { cpSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { cli, type Ended, run, runCommand } from '../support/cli.ts'
import { faultyServer } from '../support/faulty-server.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { transports } from '../support/running.ts'

/** The URL of a server of profile A that breaks A2: GET of an item that does not exist returns 200. */
async function serveFaulty(t: TestContext): Promise<string> {
  const client = await transports['over a socket'](t, 'a')
  const server = faultyServer(client, async (request, forward) => {
    const response = await forward(request)
    return ['GET', 'HEAD'].includes(request.method) && response.status === 404 ? { ...response, status: 200 } : response
  })
  return listen(t, server)
}

function writeFile(t: TestContext, name: string, content: string): string {
  const file = join(temporaryFolder(t), name)
  writeFileSync(file, content)
  return file
}

function assertCannotVerify({ code, stdout, stderr }: Ended, message: RegExp): void {
  assert.deepEqual([code, stdout], [2, ''], stderr)
  assert.match(stderr, message)
  assert.equal(stderr.split('\n').length, 2, stderr)
}

suite('verify with waivers', { concurrency: 2 }, () => {
  const verifyA2 = (t: TestContext, url: string, ...args: string[]) =>
    run(t, ['verify', url, '--profile', 'a', '--quick', '--only', 'A11,A2', ...args])
  const verifyWith = async (t: TestContext, waivers: unknown, ...args: string[]) =>
    verifyA2(t, await serveFaulty(t), '--waivers', writeFile(t, 'waivers.json', JSON.stringify(waivers)), ...args)

  test('--except counts failures apart, and exits with 0', async (t) => {
    const url = await serveFaulty(t)
    assert.equal((await verifyA2(t, url)).code, 1)
    for (const rules of ['A2', 'a2', 'A*', 'A11,A2']) {
      const { code, stdout } = await verifyA2(t, url, '--except', rules)
      assert.equal(code, 0, stdout)
      assert.match(stdout, /^waived {2}A2 {2}GET returns 404 .*: expected status 404, got status 200.* \(--except\)$/m)
      assert.match(stdout, /\d passed, 0 failed, 1 waived, 1 skipped/)
    }
    assert.equal((await verifyA2(t, url, '--except', 'A11')).code, 1)
    assertCannotVerify(await verifyA2(t, url, '--except', 'A99'), /: No rule of Profile A matches A99\.\n$/)
  })

  test('a waiver applies up to its last day, and its reason is part of the report', async (t) => {
    const today = new Date().toISOString().slice(0, 10)
    for (const until of [undefined, today, '2999-12-31']) {
      const { code, stdout } = await verifyWith(t, [{ rule: 'A2', reason: 'until the next release', until }])
      assert.equal(code, 0, stdout)
      assert.match(stdout, /^waived {2}A2 .* \(until the next release\)$/m)
    }
    const expired = await verifyWith(t, [{ rule: 'A2', reason: 'old', until: '2026-01-31' }])
    assert.equal(expired.code, 1)
    assert.match(expired.stdout, /^waiver {2}A2 \(old\) expired after 2026-01-31$/m)
    assert.match(expired.stdout, /^FAILED {2}A2/m)
  })

  test('a waiver that was not needed is named', async (t) => {
    const waivers = [
      { rule: 'A2', reason: 'known' },
      { rule: 'A11', reason: 'was repaired' },
    ]
    const { code, stdout } = await verifyWith(t, waivers)
    assert.equal(code, 0)
    assert.match(stdout, /^waiver {2}A11 \(was repaired\) was not needed$/m)
    assert.equal(stdout.match(/^waiver /gm)?.length, 1)
    const { waivers: uses } = JSON.parse((await verifyWith(t, waivers, '--report', 'json')).stdout)
    assert.deepEqual(
      uses.map(({ status }: { status: string }) => status),
      ['used', 'unused'],
    )
    assert.match(
      (await verifyWith(t, waivers, '--report', 'markdown')).stdout,
      /^\| A11 \| was repaired \| {2}\| unused \|$/m,
    )
    assert.match((await verifyWith(t, waivers, '--report', 'junit')).stdout, / failures="0" /)
  })

  test('a waiver of a rule that the contract does not have is an error', async (t) => {
    assertCannotVerify(
      await verifyWith(t, [{ rule: 'B3', reason: 'x' }]),
      /: No rule of Profile A matches B3, which is waived\.\n$/,
    )
  })

  test('a malformed file is explained in one line', async (t) => {
    for (const [content, message] of [
      ['{', 'it is not JSON'],
      ['{}', 'it is not a JSON array'],
      ['[1]', 'waiver 1 is not an object'],
      ['[{"rule":"A2","reason":"x"},{"reason":"x"}]', 'waiver 2 has no rule, such as "A6"'],
      ['[{"rule":"A2"}]', 'waiver 1 (A2) has no reason'],
      ['[{"rule":"A2","reason":" "}]', 'waiver 1 (A2) has no reason'],
      [
        '[{"rule":"A2","reason":"x","until":"soon"}]',
        'waiver 1 (A2) has an until that is no date, such as "2027-01-31"',
      ],
      [
        '[{"rule":"A2","reason":"x","until":"2027-13-01"}]',
        'waiver 1 (A2) has an until that is no date, such as "2027-01-31"',
      ],
      ['[{"rule":"A2","reason":"x","expires":"2027-01-31"}]', 'waiver 1 has the unknown member "expires"'],
    ] as const) {
      const file = writeFile(t, 'waivers.json', content)
      const { code, stderr } = await verifyA2(t, 'http://127.0.0.1:1', '--waivers', file)
      assert.deepEqual([code, stderr], [2, `todo-service: Cannot read the waivers in ${file}: ${message}.\n`])
    }
    const missing = await verifyA2(t, 'http://127.0.0.1:1', '--waivers', 'nowhere.json')
    assertCannotVerify(missing, /: Cannot read the waivers in nowhere\.json: ENOENT\.\n$/)
  })

  test('verify.waivers.json in the current folder is read without a flag', async (t) => {
    const cwd = temporaryFolder(t)
    writeFileSync(join(cwd, 'verify.waivers.json'), '[{"rule":"A2","reason":"from the file"}]')
    const args = [cli, 'verify', await serveFaulty(t), '--profile', 'a', '--only', 'A2']
    const { code, stdout } = await runCommand(t, process.execPath, args, { cwd })
    assert.equal(code, 0, stdout)
    assert.match(stdout, /^waived {2}A2 .* \(from the file\)$/m)
  })
})

suite('verify --quick', () => {
  test('checks only what is specified, and says so', async (t) => {
    const { url } = await transports['over a socket'](t, 'a')
    const args = ['verify', url, '--profile', 'a', '--only', 'A4,G6,G7', '--report', 'json']
    const [quick, all] = await Promise.all(
      [['--quick'], []].map(async (flags) => JSON.parse((await run(t, [...args, ...flags])).stdout)),
    )
    assert.ok(quick.outcomes.length < all.outcomes.length)
    assert.ok(quick.outcomes.every(({ basis }: { basis: string }) => basis === 'spec'))
    assert.deepEqual([quick.ok, quick.quick, all.quick], [true, true, false])
    assert.match((await run(t, [...args.slice(0, -2), '--quick'])).stdout, /\(quick, seed 1, /)
  })

  test('does not pass when it leaves nothing to check', async (t) => {
    const args = ['verify', 'http://127.0.0.1:1', '--profile', 'a', '--only', 'G9,G6', '--quick']
    assertCannotVerify(await run(t, args), /: No check of G9, G6 is left in a quick run\.\n$/)
  })
})

suite('verify --contract', { concurrency: 2 }, () => {
  const library = new URL('../../src/verify/index.js', import.meta.url).href
  const rules = `[{ id: 'N1', basis: 'spec', sentence: 'GET lists the notes.' }]`
  const items = `{ path: '/notes' }`
  const check = `spec('N1', 'GET returns 200', async (client) => expectStatus(await client.send('GET', '/notes'), 200))`
  const imports = `import { defineContract, expectStatus, spec, uniqueText } from '${library}'\n`
  const contract = (checks: string, name = 'Notes') =>
    `${imports}export default defineContract({ name: '${name}', rules: ${rules}, items: ${items}, checks: [${checks}] })`

  /** A collection at /notes that keeps what POST sends. */
  async function serveNotes(t: TestContext, status = 200) {
    const notes = new Map<string, object>()
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const [, , id = ''] = (request.url ?? '').split('/')
      const respond = (body: unknown) => response.writeHead(status).end(JSON.stringify(body))
      if (request.method === 'POST') {
        const note = { ...JSON.parse(`${Buffer.concat(chunks)}`), id: `n${notes.size + 1}` }
        notes.set(note.id, note)
        respond(note)
      } else if (request.method === 'DELETE') response.writeHead(notes.delete(id) ? 204 : 404).end()
      else respond([...notes.values()])
    })
    return { url: await listen(t, server), notes }
  }
  const verifyContract = (t: TestContext, url: string, content: string, ...args: string[]) =>
    run(t, ['verify', url, '--contract', writeFile(t, 'contract.mjs', content), ...args])

  test('checks a server against it, by default or named export', async (t) => {
    for (const content of [contract(check), contract(check).replace('export default', 'export const contract =')]) {
      const { url } = await serveNotes(t)
      const { code, stdout } = await verifyContract(t, url, content)
      assert.deepEqual([code, /^N {2}1 passed$/m.test(stdout)], [0, true], stdout)
      const { url: broken } = await serveNotes(t, 201)
      const failed = await verifyContract(t, broken, content)
      assert.equal(failed.code, 1)
      assert.match(failed.stdout, /^FAILED {2}N1 {2}GET returns 200\n +rule +GET lists the notes\. \(spec\)\n/)
    }
  })

  test('deletes the items that it creates', async (t) => {
    const { url, notes } = await serveNotes(t)
    const creating = `spec('N1', 'POST returns 200', async (client) =>
      expectStatus(await client.send('POST', '/notes', { text: uniqueText() }), 200))`
    const { code, stdout } = await verifyContract(t, url, contract(creating))
    assert.deepEqual([code, notes.size], [0, 0], stdout)
  })

  test('the same seed yields the same numbers', async (t) => {
    const drawing = `spec('N1', 'x', async (client, random) => { throw new Error(String(random())) })`
    const { url } = await serveNotes(t)
    const drawn = async (...args: string[]) =>
      /0\.\d+/.exec((await verifyContract(t, url, contract(drawing), ...args)).stdout)?.[0]
    assert.ok(await drawn())
    assert.equal(await drawn(), await drawn('--seed', '1'))
    assert.notEqual(await drawn('--seed', '2'), await drawn())
  })

  test('an error of a check is a failure with its message, however it is thrown', async (t) => {
    const { url } = await serveNotes(t)
    for (const run of [
      `async () => { throw new Error('two\\nlines') }`,
      `() => { throw new Error('two\\nlines') }`,
      `async (client) => { await client.send('GET', '/notes'); throw new Error('two\\nlines') }`,
      `async () => { throw 'two lines' }`,
    ]) {
      const { code, stdout, stderr } = await verifyContract(t, url, contract(`spec('N1', 'x', ${run})`))
      assert.deepEqual([code, stderr], [1, ''])
      assert.match(stdout, /two lines/)
    }
  })

  test('understands a contract that imports another copy of the package', async (t) => {
    const folder = temporaryFolder(t)
    for (const part of ['verify', 'common'])
      cpSync(new URL(`../../src/${part}`, import.meta.url), join(folder, part), { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    const copy = pathToFileURL(join(folder, 'verify', 'index.js')).href
    const building = `spec('N1', 'builds on it', async (client) => {
      const response = await client.send('GET', '/notes')
      setUp('list', () => expectStatus(response, 200))
    })`
    const filling = `spec('N1', 'fills it', async (client) => expectRoom({ ...(await client.send('GET', '/notes')), status: 507 }))`
    const content = contract(`providing('list', ${check}), ${building}, ${filling}`)
      .replace(library, copy)
      .replace('spec,', 'spec, prerequisites, expectRoom,')
      .replace('export', "const { providing, setUp } = prerequisites('list')\nexport")
    const { code, stdout } = await verifyContract(t, (await serveNotes(t, 201)).url, content)
    assert.equal(code, 1)
    assert.match(stdout, /^FAILED {2}N1 {2}GET returns 200\n(.*\n){2} +expected {2}status 200\n/)
    assert.match(stdout, /^skipped N1 {2}builds on it: could not be judged, because N1 failed/m)
    assert.match(stdout, /^skipped N1 {2}fills it: the server takes no more items \(status 507\)$/m)
  })

  test('explains mistakes of its author in one line', async (t) => {
    const url = 'http://127.0.0.1:1'
    for (const [content, message] of [
      ['export const x = 1', /contract\.mjs exports no contract: export default defineContract\(\{ … \}\)\n$/],
      [
        contract(`{ ...${check}, rule: 'N2' }`),
        /The check "GET returns 200" belongs to the rule N2, which Notes does not have\.\n$/,
      ],
      [contract(`${check}, ${check}`), /Notes has two checks "N1 GET returns 200"\.\n$/],
      [contract(`{ ...${check}, run: undefined }`), /The check "N1 GET returns 200" has no function run\.\n$/],
      [contract(''), /: No check of Notes is left\.\n$/],
      [contract(check, ''), /A contract needs a name\.\n$/],
      [`export default { name: 'Notes', checks: [] }`, /is not valid\. Notes needs arrays of rules and checks\.\n$/],
      [contract(check).replace(`items: ${items},`, ''), /Notes needs items with a path\.\n$/],
      [
        'export default {\n  name: ,\n}',
        /Cannot load the contract .*contract\.mjs: Unexpected token ',' \(node --check \S+ shows the line\)\.\n$/,
      ],
      [`import 'nowhere-to-be-found'`, /Cannot load the contract .*: Cannot find package 'nowhere-to-be-found'/],
    ] as const)
      assertCannotVerify(await verifyContract(t, url, content), message)
    const missing = await run(t, ['verify', url, '--contract', 'nowhere.mjs'])
    assertCannotVerify(missing, /^todo-service: Cannot load the contract nowhere\.mjs: there is no such file\.\n$/)
    const both = await run(t, ['verify', url, '--contract', 'x.mjs', '--profile', 'a'])
    assert.match(both.stderr, /--profile and --contract exclude each other/)
  })
})
