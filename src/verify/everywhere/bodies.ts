import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, items, spec, unique } from '../check.ts'
import { expectMedia, expectStatus, expectThat, expectType, jsonOf } from '../expect.ts'
import type { Received, Service } from '../service.ts'
import { namesListed, type Subject } from './subject.ts'

const mebibyte = 2 ** 20

export function bodyChecks(subject: Subject): Check[] {
  const { body, createdStatus, requiredMember } = subject

  async function expectCreated(service: Service, content: unknown, name: string, headers = {}): Promise<void> {
    const answer = await service.send('POST', items, content, headers)
    expectStatus(answer, createdStatus)
    expectThat((jsonOf(answer) as { name: unknown }).name === name, `an item named ${name}`, answer)
  }

  /** Nothing of what was refused is stored. */
  async function expectRefused(
    service: Service,
    expectRefusal: (answer: Received) => void,
    content: (name: string) => unknown,
    headers = {},
  ): Promise<void> {
    const name = unique()
    expectRefusal(await service.send('POST', items, content(name), headers))
    expectThat(!(await namesListed(service)).includes(name), 'nothing stored of a refused request')
  }

  const source = (name: string) => JSON.stringify(body(name))
  /** The body with further members in JSON text, behind its own. */
  const extended = (name: string, members: string) => `${source(name).slice(0, -1)},${members}}`
  const padded = (name: string, size: number) => {
    const text = extended(name, '"padding":""')
    return text.replace('"padding":"', `"padding":"${'x'.repeat(size - Buffer.byteLength(text))}`)
  }

  return [
    spec('G3', 'lists, items and the forecast are JSON', async (service) => {
      expectMedia(await service.send('GET', items), 'application/json')
      expectMedia(await service.send('POST', items, body(unique())), 'application/json')
      const forecast = await service.send('GET', '/weatherforecast')
      if (forecast.status === 200) expectMedia(forecast, 'application/json')
    }),
    choice('G3', 'JSON says that it is UTF-8', async (service) => {
      expectType(await service.send('GET', items), 'application/json; charset=utf-8')
    }),
    spec('G3', 'a created item is JSON with exactly the members of its profile', async (service) => {
      const content = body(unique())
      const answer = await service.send('POST', items, content)
      const members = Object.keys(jsonOf(answer) as object).sort()
      expectThat(
        isDeepStrictEqual(members, ['id', ...Object.keys(content).filter((m) => m !== 'id')].sort()),
        'exactly its members',
        answer,
      )
    }),
    spec('G3', 'text comes back as it was sent', async (service) => {
      const name = `${unique()} "quoted" \\ / \b\f\n\r\t \u007f é 漢字 😀 \u2028\u2029 </script>`
      await expectCreated(service, body(name), name)
      expectThat((await namesListed(service)).includes(name), `the name ${JSON.stringify(name)} in the list`)
    }),
    choice('G4', 'unknown members are ignored', async (service) => {
      const name = unique()
      await expectCreated(service, extended(name, '"colour":"red","more":{"deep":[1,2,{"x":null}]}'), name)
    }),
    choice('G4', '__proto__ and constructor are unknown members', async (service) => {
      const name = unique()
      await expectCreated(service, extended(name, '"__proto__":{"polluted":true},"constructor":{"prototype":{}}'), name)
      const { [requiredMember]: value, ...rest } = body(unique())
      const hidden = `{"__proto__":${JSON.stringify({ [requiredMember]: value })},${JSON.stringify(rest).slice(1)}`
      subject.expectRefusedBody(await service.send('POST', items, hidden))
    }),
    choice('G4', 'member names are matched exactly', async (service) => {
      await expectRefused(service, subject.expectRefusedBody, (name) => {
        const { [requiredMember]: value, ...rest } = body(name)
        return { ...rest, [requiredMember[0]?.toUpperCase() + requiredMember.slice(1)]: value }
      })
    }),
    choice('G4', 'the last of two equal names wins', async (service) => {
      const [first, last] = [unique(), unique()]
      await expectCreated(service, extended(first, `"name":${JSON.stringify(last)}`), last)
    }),
    choice('G5', 'JSON media types are accepted, in any case, in UTF-8', async (service) => {
      for (const type of [
        'application/json',
        'APPLICATION/JSON',
        'application/json; charset=utf-8',
        'application/json;charset="UTF-8"',
        'application/json; charset=Utf-8; profile=x',
        'text/json',
        'application/merge-patch+json',
        'application/vnd.todo.v1+JSON',
        "application/x'y+json",
        'application/json; profile="a;charset=latin1"',
      ]) {
        const name = unique()
        await expectCreated(service, body(name), name, { 'content-type': type })
      }
    }),
    ...[
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonx',
      'application/xml',
      'text/vnd.todo+json',
      'json',
      'application/json; charset=utf-16',
      'application/json; charset=iso-8859-1',
    ].map((type) =>
      choice('G5', `the media type ${type} is refused`, (service) =>
        expectRefused(service, subject.expectRefusedType, body, { 'content-type': type }),
      ),
    ),
    choice('G5', 'a leading byte order mark is skipped', async (service) => {
      const name = unique()
      await expectCreated(service, `\ufeff${source(name)}`, name)
    }),
    choice('G5', 'invalid UTF-8 is refused', async (service) => {
      for (const bytes of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]])
        await expectRefused(service, subject.expectRefusedBody, (name) => {
          const [before = '', after = ''] = extended(name, '"x":"|"').split('|')
          return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
        })
    }),
    choice('G5', 'what is not strict JSON is refused', async (service) => {
      for (const bend of [
        (text: string) => text.slice(0, -1),
        (text: string) => `${text} x`,
        (text: string) => `${text}${text}`,
        (text: string) => text.replace(/}$/, ',}'),
        (text: string) => text.replaceAll('"', "'"),
        (text: string) => text.replace('{', '{/* comment */'),
        (text: string) => text.replace('{', '{"n":NaN,'),
        (text: string) => text.replace('{', '{"n":01,'),
        (text: string) => text.replace('{', '{"n":"\t",'),
        (text: string) => text.replace('{', '{n:1,'),
        (text: string) => `\ufeff\ufeff${text}`,
      ])
        await expectRefused(service, subject.expectRefusedBody, (name) => bend(source(name)))
    }),
    choice('G5', 'a body that is no object is refused', async (service) => {
      for (const text of ['', ' ', 'null', 'true', '0', '"text"', '[]', `[${source(unique())}]`])
        subject.expectRefusedBody(await service.send('POST', items, text))
    }),
    choice('G5', 'a body of 1 MiB is accepted, one byte more is not', async (service) => {
      const name = unique()
      await expectCreated(service, padded(name, mebibyte), name)
      await expectRefused(service, subject.expectRefusedSize, (other) => padded(other, mebibyte + 1))
    }),
    choice('G5', 'the limit holds for a body of undeclared length', async (service) => {
      const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
      const name = unique()
      await expectCreated(service, body(name), name, chunked)
      await expectRefused(service, subject.expectRefusedSize, (other) => padded(other, mebibyte + 1), chunked)
    }),
    choice('G5', 'a lone surrogate is refused, a pair is not', async (service) => {
      for (const half of ['\\ud800', '\\udc00', '\\ude00\\ud83d'])
        await expectRefused(service, subject.expectRefusedValue, (name) => extended(name, `"name":"${name}${half}"`))
      const name = unique()
      await expectCreated(service, extended(name, `"name":"${name}\\ud83d\\ude00"`), `${name}😀`)
    }),
  ]
}
