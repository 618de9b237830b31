import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createServer } from 'node:http'
import { suite, test } from 'node:test'
import { escapeText } from '../../src/common/escape.ts'
import { jsonLog, readableLog } from '../../src/log.ts'
import { connectControl } from '../../src/service/control-client.ts'
import { defineContract, expectStatus, spec, type VerifyOptions, verify } from '../../src/verify/index.ts'
import { json } from '../../src/verify/report/json.ts'
import { junit } from '../../src/verify/report/junit.ts'
import { markdown } from '../../src/verify/report/markdown.ts'
import { pretty } from '../../src/verify/report/pretty.ts'
import { run } from '../support/cli.ts'
import { listen } from '../support/listen.ts'

/** What a text must not contain, wherever it goes: controls, line ends but its own, and what is not seen. */
const unseen = /[\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?![\n\t])\p{Cc}/u
/** Commands of GitHub Actions, Azure Pipelines and TeamCity. */
const command = /^\s*::|##\w*\[/m

const hostile: Record<string, string> = {
  'an escape sequence': '\u001b[2J\u009b2J\u007f',
  'the end of a line': 'a\r\nb\u0085c\u2028d\u2029e\vf',
  'text that is turned around': '\u202egnp.exe \u2066x\u2069 \u061c',
  'tag characters': `x${[...'ignore'].map((char) => String.fromCodePoint(0xe0000 + (char.codePointAt(0) ?? 0))).join('')}`,
  'variation selectors': 'x\ufe00\ufe0f\u{e0101}\u{e01ef}',
  'joiners, a soft hyphen, a byte order mark': 'a\u200db\u200cc\u00add\ufeffe\u2060\u3164',
  'a lone surrogate': 'a\ud800b\udc00',
  'a workflow command at the start': '  ::error title=x::y',
  'a workflow command in a later line': 'x\n::set-output name=x::y',
  'a workflow command anywhere': 'x ##[error]y ##vso[task.complete]z ##teamcity[x]',
}

suite('text of others', () => {
  for (const [title, text] of Object.entries(hostile)) {
    for (const to of ['line', 'lines', 'json', 'markdown', 'shell'] as const)
      test(`${title}: is escaped in ${to}`, () => {
        const escaped = escapeText(text, to)
        assert.doesNotMatch(escaped, unseen)
        assert.doesNotMatch(escaped, command)
        if (to === 'line') assert.doesNotMatch(escaped, /[\n\t]/)
      })

    test(`${title}: JSON keeps its value, a shell its bytes, and an agent sees all of it`, () => {
      const sent = JSON.stringify([text])
      const escaped = escapeText(sent, 'json')
      assert.deepEqual(JSON.parse(escaped), [text])
      const seen = escapeText(sent, 'agent')
      assert.doesNotMatch(seen, unseen)
      assert.equal(JSON.parse(seen).length, 1)
      if (text.isWellFormed())
        assert.equal(execFileSync('bash', ['-c', `printf %s '${escapeText(text, 'shell')}'`]).toString(), text)
    })
  }

  test('names the character', () => {
    assert.equal(escapeText('a\u202eb\u{e0041}\t\n##[x]'), 'a\\u{202e}b\\u{e0041}\\t\\n#\\u{23}[x]')
  })

  for (const text of [
    'walk the dog',
    'Ünïcödé 漢字 العربية हिन्दी',
    '😀 👩🏽‍💻 🏳️‍🌈 ❤️‍🔥 🏃‍♀️ 1️⃣ 🇩🇪',
    'a ## b [c] # d',
    'std::vector a::b',
    'e\u0301',
  ])
    test(`${text}: is not changed`, () => {
      for (const to of ['line', 'lines', 'json', 'shell', 'agent'] as const) assert.equal(escapeText(text, to), text)
    })

  test('Markdown is text in Markdown', () => {
    assert.equal(
      escapeText('a|b <i> [x](y) `c` *d* _e_ \\', 'markdown'),
      'a\\|b \\<i\\> \\[x\\](y) \\`c\\` \\*d\\* \\_e\\_ \\\\',
    )
  })

  test('takes time in proportion to the length', () => {
    for (const part of ['#', ':', ' ', '##a', '::', '::\n', '\n ', '\u200d', '👩\u200d', '\ufe0f']) {
      const before = process.cpuUsage()
      escapeText(part.repeat(200_000), 'lines')
      assert.ok(process.cpuUsage(before).user < 2_000_000, JSON.stringify(part))
    }
  })
})

const everything = Object.values(hostile).join(' ')
const shown = (text: string) => {
  assert.doesNotMatch(text, unseen)
  assert.doesNotMatch(text, command)
}

suite('what a server sends is escaped', () => {
  const contract = defineContract({
    name: 'Texts',
    rules: [{ id: 'T1', basis: 'spec', sentence: 'GET returns a text.' }],
    items: { path: '/texts', pathOf: ({ url }) => `${url}` },
    checks: [
      spec('T1', 'a text', async (client) => {
        const { text } = await client.send('POST', '/texts', { name: everything })
        expectStatus(await client.send('PUT', JSON.parse(text).url, { name: everything }), 204)
      }),
      spec('T1', 'a path', async (client) => expectStatus(await client.send('GET', '/texts'), 418)),
      spec('T1', 'an error', async () => {
        throw new TypeError(everything)
      }),
    ],
  })
  /** Items cannot be deleted. */
  const server = () =>
    createServer(({ method }, response) => {
      const item = { url: `/texts/${encodeURI(everything.toWellFormed())}`, name: everything }
      response.writeHead(method === 'DELETE' ? 500 : 200, { 'x-other': '\u009b2J', location: '/\u009b##[error]' })
      response.end(method === 'GET' ? everything : JSON.stringify(item))
    })

  test('in every report', async (t) => {
    const options: VerifyOptions = { url: await listen(t, server()), contract }
    const verification = await verify(options)
    assert.equal(verification.failed, 3)
    assert.notDeepEqual(verification.leftovers, [])
    for (const report of [pretty, markdown, junit, json]) shown(report(verification))
  })

  test('in the commands of a failure, beside a token', async (t) => {
    const value = 'W/"secret$(echo evil)`echo evil`\'"'
    const quoting = defineContract({
      ...contract,
      checks: [
        spec('T1', 'a tag', async (client) =>
          expectStatus(await client.send('GET', '/texts', undefined, { 'if-match': value }), 418),
        ),
      ],
    })
    const { outcomes } = await verify({ url: await listen(t, server()), contract: quoting, token: 'secret' })
    const request = outcomes[0]?.failure?.request ?? ''
    assert.doesNotMatch(request, /secret/)
    const script = `curl() { printf '%s\\n' "$@"; }; TOKEN=secret; ${request}`
    assert.ok(execFileSync('bash', ['-c', script]).toString().includes(`if-match: ${value}\n`), request)
  })

  test('where it cannot be checked', async (t) => {
    const url = await listen(
      t,
      createServer((_, response) => response.writeHead(301, { location: 'http://x/\u009b##[error]y' }).end()),
    )
    const { code, stderr } = await run(t, ['verify', url, '--profile', 'a'])
    assert.equal(code, 2)
    assert.match(stderr, /redirects to http:\/\/x\/\\u\{9b\}#\\u\{23\}\[error\]y/)
  })

  test('in the messages of a control API', async (t) => {
    const url = await listen(
      t,
      createServer((request, response) => {
        const isInfo = request.url?.endsWith('/info')
        response.writeHead(isInfo ? 200 : 400, { 'content-type': 'application/problem+json' })
        response.end(JSON.stringify(isInfo ? { profile: 'a', title: everything } : { title: everything, errors: {} }))
      }),
    )
    const service = await connectControl(url, { tokenCommand: '' })
    assert.ok(service.name.startsWith('\\u{1b}[2J'))
    shown(service.name)
    await assert.rejects(service.send('POST', '/reset'), ({ message }: Error) => {
      shown(message)
      return true
    })
  })
})

test('what a client sends is escaped in the log', () => {
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const request = { traceId: 'x', method: 'GET', path: `/${everything}`, client: '::1', space: { name: everything } }
  for (const log of [readableLog(write, 'info'), jsonLog(write, 'info', () => new Date())]) {
    log.request('a', request, { status: 400, reason: everything }, 1)
    log.malformedRequest('a', 400, everything, '::1')
    log.requestFailed('a', request, new Error(everything))
    log.error('failed', everything)
  }
  assert.equal(lines.length, 8)
  for (const line of lines) shown(line)
  const logged = JSON.parse(lines[4] ?? '')
  assert.deepEqual([logged.path, logged.reason], [request.path, everything])
})
