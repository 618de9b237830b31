/** What holds for every response, whichever check sent the request: an answer may be wrong only now and then. */

import { isObject } from '../../common/json.ts'
import { unescapeUnreserved } from '../engine/cleanup.ts'
import type { Client, Response } from '../engine/client.ts'
import { type Check, invariant } from '../engine/contract.ts'
import {
  expectEmpty,
  expectItems,
  expectMediaType,
  expectObject,
  expectStatus,
  expectTextType,
  expectThat,
  isSuccess,
} from '../engine/expect.ts'
import { tryParseExact } from '../engine/json.ts'
import type { ModelItem, Profile } from './model.ts'
import { itemsPath, observe } from './rules.ts'

/** An operation that a request names, in any spelling of its path. */
interface Operation {
  readonly method: string
  /** The segment behind the path of the collection, as it was sent; undefined: the collection. */
  readonly id: string | undefined
}

function operationOf({ request }: Response, path: string): Operation | undefined {
  const [, collection = '', id] = /^(\/[^/]*\/[^/]*)(?:\/([^/]+))?\/?$/.exec(unescapeUnreserved(path)) ?? []
  return collection.toLowerCase() === itemsPath ? { method: request.method, id } : undefined
}

/** The members that a request has sent; undefined where its body is no JSON object. */
function sentIn({ request: { body } }: Response): Record<string, unknown> | undefined {
  const sent = body && tryParseExact(Buffer.from(body).toString())
  return isObject(sent) ? sent : undefined
}

/** The path matches in any case (G1); this machine has several names. */
const normalizeUrl = (url: string) =>
  URL.canParse(url)
    ? new URL(url).href.toLowerCase().replace(/(?<=^https?:\/\/)(localhost|\[::1])(?=[:/])/, '127.0.0.1')
    : url

/** The statement about the responses to an operation, where they have succeeded. */
const onSuccess =
  (
    method: string,
    isOfItem: boolean | undefined,
    expectations: (response: Response, client: Client, id: string | undefined) => void,
  ): NonNullable<Check['inspect']> =>
  (response, path, client) => {
    const operation = isSuccess(response) ? operationOf(response, path) : undefined
    const isMeant =
      operation?.method === method && (isOfItem ?? operation.id !== undefined) === (operation.id !== undefined)
    if (isMeant) expectations(response, client, operation.id)
  }

export function invariants<T extends ModelItem>(profile: Profile<T>): Check[] {
  const { rules, createdStatus, members } = profile

  /** The types of the members, and an id that no other item has. */
  const expectWellFormed = (response: Response, item: Record<string, unknown>) => {
    const wrong = members.find((name) => Object.hasOwn(item, name) && !profile.isOfType(name, item[name]))
    expectThat(wrong === undefined, `the type of ${wrong} that the contract states`, response)
  }

  return [
    invariant(
      rules.create,
      `every POST that succeeds returns ${createdStatus}`,
      onSuccess('POST', false, (response) => expectStatus(response, createdStatus)),
    ),
    ...(['PUT', 'DELETE'] as const).map((method) =>
      invariant(
        method === 'PUT' ? rules.update : rules.remove,
        `every ${method} that succeeds returns 204 without a body`,
        onSuccess(method, undefined, (response) => expectEmpty(response, 204)),
      ),
    ),
    invariant(
      rules.create,
      'every POST returns an item with members of their types',
      onSuccess('POST', false, (response) =>
        observe('create', () => expectWellFormed(response, expectObject(response))),
      ),
    ),
    invariant(
      rules.list,
      'every list is an array of items with members of their types, and with different ids',
      onSuccess('GET', false, (response) => {
        const items = observe('list', () => expectItems(response))
        observe('listed', () => {
          for (const item of items) expectWellFormed(response, item)
        })
      }),
    ),
    invariant(
      rules.uniqueIds,
      'no list has an id twice',
      onSuccess('GET', false, (response) => {
        const items = observe('list', () => expectItems(response))
        const ids = items.map(({ id }) => id)
        expectThat(new Set(ids).size === ids.length, 'a list without an id twice', response)
      }),
    ),
    invariant('G3', 'every list and item is application/json', (response, path) => {
      const operation = isSuccess(response) && response.text !== '' ? operationOf(response, path) : undefined
      if (operation && ['GET', 'POST'].includes(operation.method)) expectMediaType(response, 'application/json')
    }),
    ...profile.invariants,
  ]
}

/** A3: the absolute URI of the item that POST has created. */
export const locationInvariant = invariant(
  'A3',
  'every POST returns the Location of its item',
  onSuccess('POST', false, (response, client) => {
    const { id } = observe('create', () => expectObject(response))
    const expected = `${client.publicUrl}${itemsPath}/${id}`
    const { location = '' } = response.headers
    const isSame = /^https?:/i.test(location) && normalizeUrl(location) === normalizeUrl(expected)
    expectThat(isSame, `Location: ${expected} (--public-url sets another base)`, response)
  }),
)

/** A2: GET returns the item that the path names. */
export const readInvariant = invariant(
  'A2',
  'every GET of an item returns it, and no other',
  onSuccess('GET', true, (response, _, segment) => {
    // Whether another spelling of a number is an id is a choice (A12).
    if (!/^-?(?:0|[1-9]\d*)$/.test(`${segment}`)) return
    const { id } = observe('read', () => expectObject(response))
    observe('read', () => expectThat(`${id}` === segment, `the item ${segment}`, response))
  }),
)

/** A10: neither a member `secret`, nor what a request has sent as one. */
export const secretInvariant = invariant(
  'A10',
  'no response has a member secret, or one that was sent',
  (response, path, client) => {
    const sent = secretsSent.get(client) ?? new Set()
    secretsSent.set(client, sent)
    const { secret } = sentIn(response) ?? {}
    if (['string', 'number'].includes(typeof secret) && `${secret}`.length >= minSecretLength) sent.add(`${secret}`)
    if (!operationOf(response, path)) return
    const values = `${response.text} ${Object.values(response.headers)}`
    expectThat(![...sent].some((one) => values.includes(one)), 'no secret that was sent', response)
    if (/"secret"/i.test(response.text))
      expectThat(!hasSecret(tryParseExact(response.text)), 'no member secret', response)
  },
)

/** The errors of a problem may name a member that was refused. */
const hasSecret = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(value).some(([name, inner]) => /^secret$/i.test(name) || (name !== 'errors' && hasSecret(inner)))

/** A shorter one may occur by chance. */
const minSecretLength = 12
/** By the client of the run. */
const secretsSent = new WeakMap<Client, Set<string>>()

/** B4 to B8: the status of each code, and the methods that return it. */
const codes = {
  TodoItemNameAndNotesRequired: [400, 'POST PUT'],
  TodoItemIDInUse: [409, 'POST'],
  RecordNotFound: [404, 'PUT DELETE'],
  CouldNotCreateItem: [400, 'POST'],
  CouldNotUpdateItem: [400, 'PUT'],
  CouldNotDeleteItem: [400, 'DELETE'],
} as const
export type ErrorCode = keyof typeof codes
export const errorCodes = Object.keys(codes) as ErrorCode[]
export const statusOf = (code: ErrorCode): number => codes[code][0]

/** B4 to B9: each error has its code, and each code its status and methods. */
export const codeInvariants: readonly Check[] = [
  invariant('B9', 'every error code is alone in its body, as plain text', (response) => {
    const { text } = response
    const code =
      response.status >= 400 && text.length < 5_000 ? errorCodes.find((one) => text.includes(one)) : undefined
    if (code === undefined || response.request.method === 'HEAD') return
    observe('error codes', () => {
      expectThat(text === code, `the body ${code}, and nothing else`, response)
      expectTextType(response)
    })
  }),
  invariant('B6', 'every error code has its status and its operations', (response, path) => {
    const code = errorCodes.find((one) => one === response.text)
    if (code === undefined || !isOffered(response, path)) return
    const { method } = response.request
    observe('error codes', () => {
      expectThat(codes[code][1].split(' ').includes(method), `no ${code} in response to ${method}`, response)
      expectStatus(response, statusOf(code))
    })
  }),
  invariant('B6', 'a failure is no 500', (response, path) => {
    if (isOffered(response, path)) expectThat(response.status !== 500, 'status 400 with a code', response)
  }),
]

/** Whether the request is one that profile B offers, and that may change an item. */
function isOffered(response: Response, path: string): boolean {
  const operation = operationOf(response, path)
  return (
    operation !== undefined && (operation.id === undefined ? ['POST', 'PUT'] : ['DELETE']).includes(operation.method)
  )
}
