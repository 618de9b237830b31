import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Validator } from '@seriousme/openapi-schema-validator'
import { run } from './support/cli.ts'
import { temporaryFolder } from './support/folder.ts'
import { transports } from './support/running.ts'

const committed = (profile: string) => fileURLToPath(new URL(`../../openapi/${profile}.json`, import.meta.url))
// biome-ignore lint/suspicious/noExplicitAny: parts of a document
type Part = any

const operationsOf = (paths: Part): Part[] => Object.values<Part>(paths).flatMap((path) => Object.values(path))
const documentOf = (profile: string) => readFileSync(committed(profile), 'utf8')

for (const profile of ['a', 'b'] as const)
  suite(`S4 OpenAPI document of profile ${profile}`, { concurrency: true }, () => {
    test('is up to date in openapi/ (npm run docs writes it)', async (t) => {
      const { code, stdout } = await run(t, ['openapi', '--profile', profile, '-o', '-'])
      assert.equal(code, 0)
      assert.equal(documentOf(profile), stdout)
    })

    test('is valid against the official schema of OpenAPI 3.0', async () => {
      assert.deepEqual(await new Validator().validate(JSON.parse(documentOf(profile))), { valid: true })
    })

    test('has no linter findings', async () => {
      // The operator decides on a license; localhost is the default server.
      const rules = { 'info-license': 'off', 'no-server-example.com': 'off' } as const
      const config = await createConfig({ extends: ['recommended-strict'], rules })
      const findings = await lintFromString({ source: documentOf(profile), config })
      assert.deepEqual(
        findings.map(({ ruleId, message }) => `${ruleId}: ${message}`),
        [],
      )
    })

    test('is served with a token, and names the URL of the request as server', async (t) => {
      const service = await transports['over a socket'](t, profile)
      const path = '/swagger/v1/swagger.json'
      assert.equal((await service.send('GET', path)).status, 401)
      const response = await service.send('GET', path, undefined, { authorization: `Bearer ${service.token}` })
      assert.equal(response.headers['content-type'], 'application/json; charset=utf-8')
      assert.deepEqual(JSON.parse(response.text), {
        ...JSON.parse(documentOf(profile)),
        servers: [{ url: service.url }],
      })
    })

    test('has no enum in texts and no default in requests, which generated clients take wrongly', () => {
      const { paths, components } = JSON.parse(documentOf(profile))
      const contents = operationsOf(paths).flatMap(({ responses }) => Object.values<Part>(responses))
      for (const { content } of contents)
        if (content?.['text/plain']) assert.deepEqual(Object.keys(content['text/plain'].schema), ['type'])
      const optional = { a: { NewTodoItem: ['name'], TodoItemUpdate: ['name'] }, b: { SentTodoItem: ['done'] } }[
        profile
      ]
      for (const [name, members] of Object.entries(optional)) {
        const { properties, required } = components.schemas[name]
        for (const property of Object.values<Part>(properties)) assert.ok(!('default' in property))
        assert.deepEqual(
          Object.keys(properties).filter((member) => !required.includes(member)),
          members,
        )
        for (const member of members) assert.match(properties[member].description, /^(?:null|false) if absent\.$/)
      }
      assert.doesNotMatch(JSON.stringify(components.schemas.TodoItem), /default|absent/)
    })

    test('B4 has patterns that also match where the whole text must, as in C# and Java', () => {
      const { schemas } = JSON.parse(documentOf(profile)).components
      const properties = Object.values<Part>(schemas).flatMap((schema) => Object.values<Part>(schema.properties))
      const patterns = properties.flatMap(({ pattern }) => pattern ?? [])
      assert.equal(patterns.length, profile === 'a' ? 0 : 6)
      for (const pattern of patterns)
        for (const [text, isValid] of [
          ['x', true],
          [' Buy\n2 litres\n', true],
          ['', false],
          [' \n', false],
        ] as const)
          for (const one of [pattern, `^(?:${pattern})$`]) assert.equal(new RegExp(one).test(text), isValid, text)
    })

    test('B9 says which code stands for which error', () => {
      const { paths } = JSON.parse(documentOf(profile))
      const { description, content } = paths['/api/todoitems'].post.responses[400]
      if (profile === 'a') assert.match(description, /^One or more members/)
      else {
        assert.match(description, /^TodoItemNameAndNotesRequired: One or more .* CouldNotCreateItem: One or more /)
        assert.equal(content['text/plain'].example, 'TodoItemNameAndNotesRequired')
      }
    })

    test('describes conditional requests, and for a GET no If-Match: importers such as Postman would send it', () => {
      const operations = JSON.parse(documentOf(profile)).paths
      const { parameters, responses } = operations['/api/todoitems'].get
      const names = (all: { name: string }[]) => all.map(({ name }) => name)
      assert.deepEqual(names(parameters), ['If-None-Match'])
      assert.deepEqual(
        ['304', '412'].filter((status) => !(status in responses)),
        [],
      )
      if (profile === 'a') {
        for (const method of ['put', 'delete'])
          assert.deepEqual(names(operations['/api/todoitems/{id}'][method].parameters), ['id', 'If-Match'])
        assert.deepEqual(Object.keys(operations['/api/todoitems/{id}'].put.responses[204].headers), ['ETag'])
      }
    })

    test('B12 describes 429 with a rate limit, and 307 where plain HTTP is redirected', async (t) => {
      const document = JSON.parse(documentOf(profile))
      assert.deepEqual(
        ['307', '429'].filter((status) => status in document.paths['/'].get.responses),
        [],
      )
      const service = await transports['over a socket'](t, profile, {
        allowRequest: () => true,
        redirectsToHttps: true,
      })
      const authorization = `Bearer ${service.token}`
      const { text } = await service.send('GET', '/swagger/v1/swagger.json', undefined, { authorization })
      for (const path of Object.values(JSON.parse(text).paths) as Record<string, { responses: object }>[])
        for (const { responses } of Object.values(path))
          assert.deepEqual(
            ['307', '429'].filter((status) => !(status in responses)),
            [],
          )
      assert.deepEqual(await new Validator().validate(JSON.parse(text)), { valid: true })
    })

    test('describes the token that --require-auth requires', async (t) => {
      const { stdout } = await run(t, ['openapi', '--profile', profile, '--require-auth', '-o', '-'])
      const { get, post } = JSON.parse(stdout).paths['/api/todoitems']
      for (const operation of [get, post]) {
        assert.deepEqual(operation.security, [{ bearer: [] }])
        assert.ok(operation.responses['401'].headers['WWW-Authenticate'])
      }
    })
  })

suite('openapi', () => {
  test('writes openapi.json, or the file that -o names', async (t) => {
    const folder = temporaryFolder(t)
    const file = join(folder, 'b.json')
    const args = ['openapi', '--profile', 'b', '-o', file, '--base-url', 'https://x.example/']
    const { code, stdout, stderr } = await run(t, args)
    assert.deepEqual([code, stdout, stderr], [0, '', `Wrote ${file}: Profile B, OpenAPI 3.0.1.\n`])
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')).servers, [{ url: 'https://x.example' }])
  })

  test('prints one message for a file that cannot be written, and one for each invalid argument', async (t) => {
    const unwritable = await run(t, ['openapi', '-o', '/nowhere/x.json'])
    assert.deepEqual([unwritable.code, unwritable.stderr.split('\n').length], [1, 2])
    const { code, stderr } = await run(t, ['openapi', '--profile', 'both', 'extra', '--nonsense'])
    assert.equal(code, 2)
    assert.equal(stderr.match(/^todo-service: /gm)?.length, 3)
  })
})
