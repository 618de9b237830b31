import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { verify } from '../../src/verify/index.ts'
import { faultyServer, type Mutation } from '../support/faulty-server.ts'
import { listen } from '../support/listen.ts'
import { transports } from '../support/running.ts'

const itemsPath = '/api/todoitems'
const noContent = { status: 204, headers: {}, text: '' }

const ignore =
  (method: string): Mutation =>
  (request, forward) =>
    request.method === method ? Promise.resolve(noContent) : forward(request)

/** Without the item that was created last. */
const staleList: Mutation = async (request, forward) => {
  const response = await forward(request)
  if (request.method !== 'GET' || request.path !== itemsPath) return response
  return { ...response, text: JSON.stringify(JSON.parse(response.text).slice(0, -1)) }
}

const respondNotFound =
  (method: string, path: RegExp): Mutation =>
  async (request, forward) =>
    request.method === method && path.test(request.path)
      ? { status: 404, headers: {}, text: 'RecordNotFound' }
      : forward(request)

interface Fault {
  readonly title: string
  readonly profile: 'a' | 'b'
  /** Whose checks fail. */
  readonly rules: readonly string[]
  readonly mutate: Mutation
  /** Whether the output of the commands shows the fault. */
  isShown(commands: string, responses: readonly string[]): boolean
}

/** The value that the last match has; empty without one. */
const lastMatch = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].at(-1)?.[1] ?? ''
const last = (responses: readonly string[]) => responses.at(-1) ?? ''
const isMissing = (value: string, text: string) => value !== '' && !text.includes(value)

const faults: readonly Fault[] = [
  {
    title: 'A7 PUT has no effect',
    profile: 'a',
    rules: ['A7'],
    mutate: ignore('PUT'),
    isShown: (commands, responses) =>
      /^200 .*"name":/s.test(last(responses)) &&
      isMissing(lastMatch(commands, /-X PUT .*"name":("[^"]+")/g), last(responses)),
  },
  {
    title: 'A9 DELETE has no effect',
    profile: 'a',
    rules: ['A9'],
    mutate: ignore('DELETE'),
    isShown: (commands, responses) =>
      last(responses).startsWith('200 ') && last(responses).includes(lastMatch(commands, /"name":("[^"]+")/g) || '?'),
  },
  {
    title: 'A1 the list lacks the last item',
    profile: 'a',
    rules: ['A1'],
    mutate: staleList,
    isShown: (commands, responses) =>
      isMissing(lastMatch(commands, /"name":("[^"]+")/g), last(responses)) && last(responses).startsWith('200 '),
  },
  {
    title: 'A2 GET of an item returns 404',
    profile: 'a',
    rules: ['A2'],
    mutate: respondNotFound('GET', /todoitems\/\d{1,9}$/),
    isShown: (commands, responses) => /^id1=.*-X POST/.test(commands) && last(responses).startsWith('404 '),
  },
  {
    title: 'B7 PUT has no effect',
    profile: 'b',
    rules: ['B7'],
    mutate: ignore('PUT'),
    isShown: (commands, responses) =>
      isMissing(lastMatch(commands, /-X PUT .*"name":("[^"]+")/g), last(responses)) &&
      last(responses).includes(lastMatch(commands, /-X PUT .*("id":"[^"]+")/g) || '?'),
  },
  {
    title: 'B8 DELETE has no effect',
    profile: 'b',
    rules: ['B8'],
    mutate: ignore('DELETE'),
    isShown: (commands, responses) => last(responses).includes(lastMatch(commands, /-X DELETE '.*\/(.+)'/g) || '?'),
  },
  {
    title: 'B1 the list lacks the last item',
    profile: 'b',
    rules: ['B1'],
    mutate: staleList,
    isShown: (commands, responses) => isMissing(lastMatch(commands, /-X POST .*("id":"[^"]+")/g), last(responses)),
  },
  {
    title: 'B7 PUT of an item returns 404',
    profile: 'b',
    rules: ['B7'],
    mutate: respondNotFound('PUT', /$/),
    isShown: (commands, responses) => /-X POST/.test(commands) && last(responses).startsWith('404 '),
  },
]

const serve = async (t: TestContext, profile: 'a' | 'b', mutate: Mutation) =>
  listen(t, faultyServer(await transports['over a socket'](t, profile), mutate))

/** The responses, from the status on. */
async function runCommands(commands: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('sh', ['-c', commands])
  return stdout.split('HTTP/1.1 ').slice(1)
}

suite('the commands of a failure show it again', { concurrency: 2 }, () => {
  for (const { title, profile, rules, mutate, isShown } of faults)
    test(title, async (t) => {
      const { outcomes } = await verify({ url: await serve(t, profile, mutate), profile, only: rules, quick: true })
      const requests = outcomes.flatMap(({ status, failure }) => (status === 'failed' ? [failure?.request ?? ''] : []))
      assert.ok(requests.length >= rules.length)
      for (const request of requests) {
        assert.ok(request.length < 3000, `${request.length} characters`)
        const responses = await runCommands(request)
        assert.ok(isShown(request, responses), `${request}\n${responses.join('\n')}`)
      }
    })

  test('an id that the server assigns is read from a response that is not compact, too', async (t) => {
    const mutate: Mutation = async (request, forward) => {
      const response = await respondNotFound('GET', /todoitems\/\d{1,9}$/)(request, forward)
      const isItem = request.method === 'POST' && response.status === 201
      return isItem ? { ...response, text: JSON.stringify(JSON.parse(response.text), null, 2) } : response
    }
    const { outcomes } = await verify({ url: await serve(t, 'a', mutate), profile: 'a', only: ['A2'] })
    const request = outcomes.find(({ status }) => status === 'failed')?.failure?.request ?? ''
    assert.match((await runCommands(`${request.split('\n')[0]}\nprintf 'HTTP/1.1 %s' "$id1"`))[0] ?? '', /^\d+$/)
  })
})
