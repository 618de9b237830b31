import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Validator } from '@seriousme/openapi-schema-validator'
import { generateApi } from 'swagger-typescript-api'
import { run } from './support/cli.ts'
import { temporaryFolder } from './support/folder.ts'
import { transports } from './support/running.ts'

const committed = (profile: string) => fileURLToPath(new URL(`../../openapi/${profile}.json`, import.meta.url))
const documentOf = (profile: string) => readFileSync(committed(profile), 'utf8')

for (const profile of ['a', 'b'] as const)
  suite(`S4 the document of profile ${profile}`, () => {
    test('is what the program says (npm run docs writes it)', async (t) => {
      const { code, stdout } = await run(t, ['openapi', '--profile', profile, '-o', '-'])
      assert.equal(code, 0)
      assert.equal(documentOf(profile), stdout)
    })

    test('is valid by the official schema of OpenAPI 3.0', async () => {
      assert.deepEqual(await new Validator().validate(JSON.parse(documentOf(profile))), { valid: true })
    })

    test('is clean in a linter', async () => {
      // Who runs the service decides on a licence; and localhost is where it runs until they say otherwise.
      const rules = { 'info-license': 'off', 'no-server-example.com': 'off' } as const
      const config = await createConfig({ extends: ['recommended-strict'], rules })
      const problems = await lintFromString({ source: documentOf(profile), config })
      assert.deepEqual(
        problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
        [],
      )
    })

    test('is served to whoever has a token, with the URL that they use', async (t) => {
      const service = await transports['over a socket'](t, profile)
      const path = '/swagger/v1/swagger.json'
      assert.equal((await service.send('GET', path)).status, 401)
      const answer = await service.send('GET', path, undefined, { authorization: `Bearer ${service.token}` })
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
      assert.deepEqual(JSON.parse(answer.text), { ...JSON.parse(documentOf(profile)), servers: [{ url: service.url }] })
    })

    test('shows the token that --require-auth asks for', async (t) => {
      const { stdout } = await run(t, ['openapi', '--profile', profile, '--require-auth', '-o', '-'])
      const { get, post } = JSON.parse(stdout).paths['/api/todoitems']
      for (const operation of [get, post]) {
        assert.deepEqual(operation.security, [{ bearer: [] }])
        assert.ok(operation.responses['401'].headers['WWW-Authenticate'])
      }
    })

    test('gives a client that type-checks and does a full round', async (t) => {
      const folder = temporaryFolder(t)
      await generateApi({ input: committed(profile), output: folder, fileName: 'client.ts', silent: true })
      const tsc = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url))
      const options = ['--strict', '--target', 'es2023', '--module', 'nodenext', '--lib', 'es2024,dom', '--types', '']
      await promisify(execFile)(process.execPath, [tsc, ...options, join(folder, 'client.ts')], { cwd: folder }).catch(
        ({ stdout }) => assert.fail(stdout),
      )
      const { Api } = await import(pathToFileURL(join(folder, 'client.js')).href)
      const { url } = await transports['over a socket'](t, profile)
      await rounds[profile](new Api({ baseUrl: url, baseApiParams: { format: 'json' } }).api)
    })
  })

/** Create, read, update, delete, by a client that knows only the document. */
// biome-ignore lint/suspicious/noExplicitAny: the client is generated while the test runs
const rounds: Record<'a' | 'b', (api: any) => Promise<void>> = {
  async a(api) {
    const { status, data } = await api.createItem({ name: 'x', isComplete: false })
    assert.deepEqual([status, data], [201, { id: 1, name: 'x', isComplete: false }])
    await api.updateItem(1, { id: 1, name: 'y', isComplete: true }, { format: undefined })
    assert.deepEqual((await api.getItem(1)).data, { id: 1, name: 'y', isComplete: true })
    await api.deleteItem(1, { format: undefined })
    assert.deepEqual((await api.listItems()).data, [])
  },
  async b(api) {
    const item = { id: 'a/b 😀', name: 'x', notes: 'y', done: false }
    assert.deepEqual((await api.createItem(item)).data, item)
    await api.updateItem({ ...item, done: true }, { format: undefined })
    assert.deepEqual((await api.listItems()).data.at(-1), { ...item, done: true })
    await api.deleteItem(encodeURIComponent(item.id), { format: undefined })
    assert.equal((await api.listItems()).data.length, 3)
  },
}

suite('openapi', () => {
  test('writes openapi.json, or the file that -o names', async (t) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'b.json')
    const { code, stdout, stderr } = await run(t, [
      'openapi',
      '--profile',
      'b',
      '-o',
      file,
      '--base-url',
      'https://x.example/',
    ])
    assert.deepEqual([code, stdout, stderr], [0, '', `Wrote ${file}: Profile B, OpenAPI 3.0.1.\n`])
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')).servers, [{ url: 'https://x.example' }])
  })

  test('a file that cannot be written, and mistakes: one sentence each', async (t) => {
    const unwritable = await run(t, ['openapi', '-o', '/nowhere/x.json'])
    assert.deepEqual([unwritable.code, unwritable.stderr.split('\n').length], [1, 2])
    const { code, stderr } = await run(t, ['openapi', '--profile', 'both', 'extra', '--nonsense'])
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 3)
  })
})
