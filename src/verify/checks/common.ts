import { isDeepStrictEqual } from 'node:util'
import { type Check, choice, itemsPath, onOwnServer, type Prerequisite, providing, spec, uniqueText } from '../check.ts'
import type { Client, Response } from '../client.ts'
import {
  expectAllow,
  expectArray,
  expectContentType,
  expectEmpty,
  expectItems,
  expectMediaType,
  expectMembers,
  expectMethodNotAllowed,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  observe,
  setUp,
} from '../expect.ts'
import { type Methods, send } from './samples.ts'

/** What the checks of the common rules (G) need to know about a profile. */
export interface ProfileTraits {
  /** A valid body for POST. */
  newItem(name: string): Record<string, unknown>
  /** A member without which POST fails. */
  readonly requiredMember: string
  readonly methods: Methods
  expectUnsupportedMediaType(response: Response): void
  expectInvalidBody(response: Response): void
  expectBodyTooLarge(response: Response): void
  expectUnstorableText(response: Response): void
}

/** A1, B1: what most other checks build on. */
export const listCheck = (rule: string): Check =>
  providing(
    'list',
    spec(rule, 'GET returns 200 with an array of items', async (client) => {
      const response = await client.send('GET', itemsPath)
      expectServed(response)
      expectItems(response)
    }),
  )

export const commonChecks = (traits: ProfileTraits): Check[] => [...pathChecks(traits), ...bodyChecks(traits)]

export async function listNames(client: Client): Promise<unknown[]> {
  const response = await client.send('GET', itemsPath)
  return observe('list', () => expectItems(response)).map(({ name }) => name)
}

/** Of ten concurrent requests, one must succeed and nine must fail. */
export async function expectSingleSuccess(
  prerequisite: Prerequisite,
  send: () => Promise<Response>,
  failureStatus: number,
): Promise<void> {
  const responses = await Promise.all(Array.from({ length: 10 }, send))
  const statuses = responses.map(({ status }) => status).sort()
  const [success = 0, ...others] = statuses
  const isSingle = success <= 299 && others.every((status) => status === failureStatus)
  observe(prerequisite, () => expectThat(isSingle, `one success and nine times ${failureStatus}, not ${statuses}`))
}

function pathChecks({ newItem, methods }: ProfileTraits): Check[] {
  /** Returns the path of the new item. */
  async function createItem(client: Client, path = itemsPath): Promise<string> {
    const response = await client.send('POST', path, newItem(uniqueText()))
    const mark = path === itemsPath ? setUp : observe
    return mark('create', () => {
      expectSuccess(response)
      return `${itemsPath}/${encodeURIComponent(`${expectObject(response).id}`)}`
    })
  }

  async function expectList(client: Client, path: string): Promise<void> {
    const response = await client.send('GET', path)
    observe('list', () => expectArray(response))
  }

  return [
    spec('G1', 'paths match case-insensitively', async (client) => {
      for (const path of ['/API/TODOITEMS', '/Api/TodoItems', '/api/todoItems']) await expectList(client, path)
      await createItem(client, '/API/TodoItems')
    }),
    choice('G2', 'one trailing slash is accepted', async (client) => {
      await expectList(client, `${itemsPath}/`)
      const forecast = await client.send('GET', '/weatherforecast/')
      observe('/weatherforecast', () => expectArray(forecast))
      await createItem(client, `${itemsPath}/`)
    }),
    choice('G2', 'two trailing slashes return 404', async (client) => {
      expectStatus(await client.send('GET', `${itemsPath}//`), 404)
    }),
    choice('G2', 'percent-encoded letters in a path match', async (client) => {
      for (const path of ['/api/%74odoitems', '/%61p%69/todo%49tems']) await expectList(client, path)
    }),
    choice('G2', 'an encoded slash is not a path separator', async (client) => {
      expectStatus(await client.send('GET', '/api%2Ftodoitems'), 404)
    }),
    choice('G6', 'an unsupported method on the collection returns 405 with Allow', async (client) => {
      for (const method of ['PATCH', 'PUT', 'TRACE'].filter((method) => !methods.collection.includes(method)))
        expectMethodNotAllowed(await client.send(method, itemsPath), methods.collection)
    }),
    onOwnServer(
      choice('G6', 'DELETE on the collection returns 405 with Allow', async (client) => {
        expectMethodNotAllowed(await client.send('DELETE', itemsPath), methods.collection)
      }),
    ),
    choice('G6', 'an unsupported method on an item returns 405 with Allow', async (client) => {
      const path = await createItem(client)
      for (const method of ['POST', 'PATCH']) expectMethodNotAllowed(await client.send(method, path, {}), methods.item)
    }),
    choice('G6', 'an unsupported method on a sample endpoint returns 405 with Allow', async (client) => {
      for (const path of ['/', '/weatherforecast', '/secret'] as const)
        expectMethodNotAllowed(await send(client, path, 'POST'), ['GET', 'HEAD'])
    }),
    choice('G6', 'HEAD returns the status and content-type of GET without the body', async (client) => {
      for (const path of ['/', itemsPath, '/weatherforecast']) {
        const head = await client.send('HEAD', path)
        const get = await client.send('GET', path)
        expectEmpty(head, get.status)
        expectThat(head.headers['content-type'] === get.headers['content-type'], 'the content-type of GET', head)
      }
    }),
    choice('G6', 'OPTIONS returns 204 with Allow', async (client) => {
      for (const [path, allowed] of [
        [itemsPath, methods.collection],
        [await createItem(client), methods.item],
        ['/weatherforecast', ['GET', 'HEAD']],
        ['/', ['GET', 'HEAD']],
      ] as const) {
        const response = await send(client, path, 'OPTIONS')
        expectEmpty(response, 204)
        expectAllow(response, allowed)
      }
    }),
    choice('G6', 'an unknown path returns 404', async (client) => {
      for (const path of ['/nowhere', '/api', '/api/todoitem', `${itemsPath}/1/2`, '/api//todoitems', '/%zz'])
        expectStatus(await client.send('GET', path), 404)
      for (const method of ['POST', 'PUT', 'DELETE']) expectStatus(await client.send(method, '/nowhere'), 404)
    }),
    choice('G9', 'Accept does not change the response', async (client) => {
      for (const accept of ['text/html', 'application/xml', 'application/json;q=0', '*/*', 'nonsense']) {
        const response = await client.send('GET', itemsPath, undefined, { accept })
        observe('list', () => expectArray(response))
        expectMediaType(response, 'application/json')
      }
    }),
  ]
}

const maxBodyBytes = 2 ** 20

function bodyChecks(traits: ProfileTraits): Check[] {
  const { newItem, requiredMember } = traits

  async function expectCreated(client: Client, content: unknown, name: string, headers = {}): Promise<void> {
    const response = await client.send('POST', itemsPath, content, headers)
    observe('create', () => {
      expectSuccess(response)
      expectMembers(response, { name })
    })
  }

  /** Expects an error response, and that nothing was stored. */
  async function expectRejected(
    client: Client,
    expectError: (response: Response) => void,
    content: (name: string) => unknown,
    headers = {},
  ): Promise<void> {
    const name = uniqueText()
    expectError(await client.send('POST', itemsPath, content(name), headers))
    expectThat(!(await listNames(client)).includes(name), 'nothing stored by a rejected request')
  }

  const itemJson = (name: string) => JSON.stringify(newItem(name))
  /** An item with further members, as JSON text, at its end. */
  const itemJsonWith = (name: string, members: string) => `${itemJson(name).slice(0, -1)},${members}}`
  const paddedItemJson = (name: string, size: number) => {
    const text = itemJsonWith(name, '"padding":""')
    return text.replace('"padding":"', `"padding":"${'x'.repeat(size - Buffer.byteLength(text))}`)
  }

  return [
    spec('G3', 'lists, items and the forecast are application/json', async (client) => {
      for (const response of [
        await client.send('GET', itemsPath),
        await client.send('POST', itemsPath, newItem(uniqueText())),
        await client.send('GET', '/weatherforecast'),
      ])
        if (response.status >= 200 && response.status <= 299) expectMediaType(response, 'application/json')
    }),
    choice('G3', 'JSON responses declare charset=utf-8', async (client) => {
      const response = await client.send('GET', itemsPath)
      observe('list', () => expectStatus(response, 200))
      expectContentType(response, 'application/json; charset=utf-8')
    }),
    spec('G3', 'POST returns exactly the members of the profile, in camelCase', async (client) => {
      const content = newItem(uniqueText())
      const response = await client.send('POST', itemsPath, content)
      const members = [...new Set(['id', ...Object.keys(content)])].sort()
      observe('create', () => expectSuccess(response))
      const returned = Object.keys(observe('create', () => expectObject(response))).sort()
      expectThat(isDeepStrictEqual(returned, members), `exactly the members ${members.join(', ')}`, response)
    }),
    spec('G3', 'text is returned unchanged', async (client) => {
      const name = `${uniqueText()} "quoted" \\ / \b\f\n\r\t \u007f é 漢字 😀 \u2028\u2029 </script>`
      await expectCreated(client, newItem(name), name)
      expectThat((await listNames(client)).includes(name), `the name ${JSON.stringify(name)} in the list`)
    }),
    choice('G4', 'unknown members are ignored', async (client) => {
      const name = uniqueText()
      await expectCreated(client, itemJsonWith(name, '"colour":"red","more":{"deep":[1,2,{"x":null}]}'), name)
    }),
    choice('G4', '__proto__ and constructor are unknown members', async (client) => {
      const name = uniqueText()
      await expectCreated(
        client,
        itemJsonWith(name, '"__proto__":{"polluted":true},"constructor":{"prototype":{}}'),
        name,
      )
      const { [requiredMember]: value, ...rest } = newItem(uniqueText())
      const hidden = `{"__proto__":${JSON.stringify({ [requiredMember]: value })},${JSON.stringify(rest).slice(1)}`
      traits.expectInvalidBody(await client.send('POST', itemsPath, hidden))
    }),
    choice('G4', 'member names are case-sensitive', async (client) => {
      await expectRejected(client, traits.expectInvalidBody, (name) => {
        const { [requiredMember]: value, ...rest } = newItem(name)
        return { ...rest, [requiredMember[0]?.toUpperCase() + requiredMember.slice(1)]: value }
      })
    }),
    choice('G4', 'the last of duplicate members wins', async (client) => {
      const [first, last] = [uniqueText(), uniqueText()]
      await expectCreated(client, itemJsonWith(first, `"name":${JSON.stringify(last)}`), last)
    }),
    choice('G5', 'JSON media types are accepted in any case, with charset utf-8 or none', async (client) => {
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
        const name = uniqueText()
        await expectCreated(client, newItem(name), name, { 'content-type': type })
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
      choice('G5', `media type ${type} is rejected`, (client) =>
        expectRejected(client, traits.expectUnsupportedMediaType, newItem, { 'content-type': type }),
      ),
    ),
    choice('G5', 'a leading byte order mark is skipped', async (client) => {
      const name = uniqueText()
      await expectCreated(client, `\ufeff${itemJson(name)}`, name)
    }),
    choice('G5', 'invalid UTF-8 is rejected', async (client) => {
      for (const bytes of [
        [0xff],
        [0xc0, 0xaf],
        [0xed, 0xa0, 0x80],
        [0xf4, 0x90, 0x80, 0x80],
        [0xe2, 0x82],
        [0xf0, 0x9f, 0x98],
      ])
        await expectRejected(client, traits.expectInvalidBody, (name) => {
          const [before = '', after = ''] = itemJsonWith(name, '"x":"|"').split('|')
          return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
        })
    }),
    choice('G5', 'malformed JSON is rejected', async (client) => {
      for (const corrupt of [
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
        await expectRejected(client, traits.expectInvalidBody, (name) => corrupt(itemJson(name)))
    }),
    choice('G5', 'a body that is not an object is rejected', async (client) => {
      for (const text of ['', ' ', 'null', 'true', '0', '"text"', '[]', `[${itemJson(uniqueText())}]`])
        traits.expectInvalidBody(await client.send('POST', itemsPath, text))
    }),
    choice('G5', 'a body of 1 MiB is accepted, one byte more is rejected', async (client) => {
      const name = uniqueText()
      await expectCreated(client, paddedItemJson(name, maxBodyBytes), name)
      await expectRejected(client, traits.expectBodyTooLarge, (other) => paddedItemJson(other, maxBodyBytes + 1))
    }),
    choice('G5', 'the size limit applies to chunked bodies', async (client) => {
      const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
      const name = uniqueText()
      await expectCreated(client, newItem(name), name, chunked)
      await expectRejected(
        client,
        traits.expectBodyTooLarge,
        (other) => paddedItemJson(other, maxBodyBytes + 1),
        chunked,
      )
    }),
    choice('G5', 'a lone surrogate is rejected, a surrogate pair is accepted', async (client) => {
      for (const half of ['\\ud800', '\\udc00', '\\ude00\\ud83d'])
        await expectRejected(client, traits.expectUnstorableText, (name) =>
          itemJsonWith(name, `"name":"${name}${half}"`),
        )
      const name = uniqueText()
      await expectCreated(client, itemJsonWith(name, `"name":"${name}\\ud83d\\ude00"`), `${name}😀`)
    }),
  ]
}
