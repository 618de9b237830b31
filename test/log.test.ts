import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readableLog } from '../src/log.ts'

test('text of a client cannot control the terminal, forge a line or change the direction of text in the log', () => {
  const lines: string[] = []
  const log = readableLog((line) => lines.push(line), 'info')
  // Escape, next line, soft hyphen, right-to-left override, isolate, line and paragraph separator, byte order mark, tag; a joined emoji is as it was.
  const characters = '\x1b\x85\xad\u202e\u2066\u2028\u2029\ufeff\u{e0041}é👩‍👧'
  const shown = '\\u{1b}\\u{85}\\u{ad}\\u{202e}\\u{2066}\\u{2028}\\u{2029}\\u{feff}\\u{e0041}é👩‍👧'
  const request = { traceId: 't', method: 'GET', path: `/${characters}`, client: '', space: { name: '' } }
  log.request('a', request, { status: 404, reason: `no ${characters}` }, 1)
  log.malformedRequest('a', 400, characters, '')
  log.requestFailed('a', { ...request, space: { name: 'ada' } }, 'cause')
  assert.deepEqual(lines, [
    `GET /${shown} 404 1.0 ms (a, trace t): no ${shown}\n`,
    `Malformed request: 400 (a): ${shown}\n`,
    `GET /${shown} failed (a, space ada, trace t): cause\n`,
  ])
})

test('the start message has the address for the students of a class', () => {
  const lines: string[] = []
  const [url, networkUrls] = ['http://localhost:5080', ['http://192.168.1.20:5080']]
  const profiles = [{ title: 'Profile A', urls: [url], networkUrls, spaceUrls: ['http://192.168.1.20:5080/~NAME'] }]
  const message = {
    version: '1',
    mode: 'development',
    store: 'memory',
    profiles,
    notes: [],
    metrics: undefined,
  } as const
  readableLog((line) => lines.push(line), 'info').started(message)
  assert.match(`${lines}`, /a class {3}http:\/\/192\.168\.1\.20:5080\/~NAME {3}each NAME has its own items\n/)
})
