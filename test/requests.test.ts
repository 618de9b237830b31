import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { serve } from './support/cli.ts'
import { developmentToken } from './support/control.ts'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

interface FileRequest {
  readonly title: string
  readonly method: string
  /** With variables, such as {{a}}/api/todoitems. */
  readonly url: string
  readonly headers: [name: string, value: string][]
  readonly body: string | undefined
}

/** The syntax that both editors understand: variables, ### between requests, headers, an empty line, a body. */
function parse(text: string): { variables: Map<string, string>; requests: FileRequest[] } {
  const [head = '', ...parts] = text.split(/^### (?=.)/m)
  const variables = new Map<string, string>()
  for (const line of head.split('\n').filter((one) => one && !one.startsWith('#'))) {
    const [, name = '', value = ''] = /^@(\w+) = (\S+)$/.exec(line) ?? assert.fail(`no variable: ${line}`)
    variables.set(name, value)
  }
  const requests = parts.map((part) => {
    const [requestHead = '', ...body] = part.trimEnd().split('\n\n')
    const [title = '', line = '', ...headers] = requestHead.split('\n')
    const [, method = '', url = ''] = /^([A-Z]+) (\S+)$/.exec(line) ?? assert.fail(`no request line: ${line}`)
    return {
      title,
      method,
      url,
      body: body.length > 0 ? body.join('\n\n') : undefined,
      headers: headers.map((header): [string, string] => {
        const [, name = '', value = ''] = /^([\w-]+): (.+)$/.exec(header) ?? assert.fail(`no header: ${header}`)
        return [name, value]
      }),
    }
  })
  return { variables, requests }
}

interface Operation {
  readonly name: string
  readonly success: number
  matches(request: FileRequest): boolean
}

function operationsOf(profile: 'a' | 'b'): Operation[] {
  const { paths } = JSON.parse(read(`openapi/${profile}.json`)) as {
    paths: Record<string, Record<string, { responses: object }>>
  }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses }]) => {
      const pattern = new RegExp(`^\\{\\{${profile}\\}\\}${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
      return {
        name: `${profile}: ${method.toUpperCase()} ${path}`,
        success: Number(Object.keys(responses).find((status) => status.startsWith('2'))),
        matches: (request) => request.method === method.toUpperCase() && pattern.test(request.url),
      }
    }),
  )
}

suite('requests.http', () => {
  const { variables, requests } = parse(read('requests.http'))
  const operations = [...operationsOf('a'), ...operationsOf('b')]

  test('has the default addresses, and each operation, the document, the page and the health checks of both profiles', () => {
    assert.deepEqual([variables.get('a'), variables.get('b')], ['http://localhost:5080', 'http://localhost:5000'])
    for (const { name, matches } of operations) assert.ok(requests.some(matches), name)
    for (const path of ['/swagger/v1/swagger.json', '/swagger/index.html', '/health/live', '/health/ready'])
      for (const profile of ['a', 'b'])
        assert.ok(
          requests.some(({ url }) => url === `{{${profile}}}${path}`),
          path,
        )
  })

  test('every request succeeds, from top to bottom, against a service that has just started', async (t) => {
    const start = (profile: 'a' | 'b') => serve(t, ['--no-https'], {}, profile)
    const [a, b] = await Promise.all([start('a'), start('b')])
    const tokens = { a: await developmentToken(a), b: await developmentToken(b) }
    for (const { title, method, url, headers, body } of requests) {
      const token = url.startsWith('{{a}}') ? tokens.a : tokens.b
      const values = new Map([...variables, ['a', a.url], ['b', b.url], ['token', token]])
      const fill = (text: string) =>
        text.replaceAll(/\{\{(\w+)\}\}/g, (_, name) => values.get(name) ?? assert.fail(`no variable ${name}`))
      const response = await fetch(fill(url), {
        method,
        headers: headers.map(([name, value]): [string, string] => [name, fill(value)]),
        ...(body !== undefined && { body: fill(body) }),
      })
      const operation = operations.find(({ matches }) => matches({ title, method, url, headers, body }))
      assert.equal(response.status, operation?.success ?? 200, `${title}: ${await response.text()}`)
    }
  })
})
