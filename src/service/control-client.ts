import { profiles } from '../app.ts'
import { escapeText } from '../common/escape.ts'
import type { Info } from '../control/schema.ts'
import { Rejection } from '../http/errors.ts'
import { parseJson } from '../http/json-body.ts'
import type { ProfileName } from '../profiles/profile.ts'
import { type ServerResponse, sendRequest } from './client.ts'

interface ControlClientOptions {
  readonly space?: string | undefined
  readonly token?: string | undefined
  /** The command that creates a token, for messages. */
  readonly tokenCommand: string
}

/** A service in development mode, used through its control API. */
export interface ControlClient extends Pick<Info, 'store' | 'isPersistent' | 'operations'> {
  readonly profile: ProfileName
  readonly spaces: Info['spaces'] | undefined
  /** Names the service and the space in messages. */
  readonly name: string
  /** Sends a request to the control API. Throws a `ControlError` for a response that is not a success. */
  send(method: string, path: string, body?: unknown): Promise<ServerResponse>
  /** Restores the items of the start, removes the faults and empties the journal. Returns a sentence that says so. */
  reset(): Promise<string>
  /**
   * Describes the items in a file or a database that are lost if all items are replaced by `restored` (default: the
   * items of the start). Returns undefined if none are.
   */
  findLoss(restored?: readonly unknown[]): Promise<{ readonly sentence: string; readonly pronoun: string } | undefined>
}

/** Thrown if the control API cannot be used, or rejects a request; the message says what to do. */
export class ControlError extends Error {
  readonly isRejection: boolean

  constructor(message: string, isRejection = false) {
    super(message)
    this.isRejection = isRejection
  }
}

/** Connects to a service. Throws a `ControlError` unless a todo-service with a control API responds. */
export async function connectControl(
  url: string,
  { space, token, tokenCommand }: ControlClientOptions,
): Promise<ControlClient> {
  const headers = { 'x-todo-space': space, authorization: token && `Bearer ${token}` }
  const send: ControlClient['send'] = async (method, path, body) => {
    const request = { method, headers, body, checksCertificate: token !== undefined }
    const response = await sendRequest(`${url}/__admin${path}`, request).catch(({ message }: Error) => {
      throw new ControlError(
        `No server responds at ${url} (${printable(message)}): check the URL, or start the service.`,
      )
    })
    if (response.status < 300) return response
    throw describeRejection(response, url, tokenCommand)
  }
  const getItems = async (): Promise<readonly unknown[]> => {
    const items = tryParse((await send('GET', '/items')).text)
    if (Array.isArray(items)) return items
    throw new ControlError(`The server at ${url} sends items that cannot be read: is it a todo-service?`)
  }
  const response = await send('GET', '/info')
  const info = readInfo(response.text)
  if (!info) throw describeRejection(response, url, tokenCommand)
  const name = `${space === undefined ? '' : `Space ${space} of `}${info.title} at ${url}`
  return {
    ...info,
    name,
    send,
    async reset() {
      await send('POST', '/reset')
      const count = await getItems().then(
        ({ length }) => `: it has ${length} items now`,
        () => '',
      )
      return `${name} is reset${count}.`
    },
    async findLoss(restored = profiles[info.profile].collection.startingDocuments.map(({ json }) => JSON.parse(json))) {
      if (!info.isPersistent) return undefined
      const items = await getItems()
      const kept = restored.map((item) => JSON.stringify(item))
      if (items.every((item) => kept.includes(JSON.stringify(item)))) return undefined
      const [count, pronoun] = items.length === 1 ? ['1 item', 'it'] : [`${items.length} items`, 'them']
      return { sentence: `${name} has ${count} in ${info.store}`, pronoun }
    },
  }
}

/** Far above what a service sends. */
const maxJsonValues = 2_000_000

/** Returns undefined for a text that is not JSON, or that would take too much memory. */
function tryParse(text: string): unknown {
  const parsed = parseJson(Buffer.from(text), (json): unknown => JSON.parse(json), undefined, maxJsonValues)
  return parsed instanceof Rejection ? undefined : parsed
}

/** Reads the response of GET /__admin/info; returns undefined if another program has sent it. */
function readInfo(text: string) {
  const info: Partial<Info> = Object(tryParse(text))
  const { profile, title, store, isPersistent, spaces, operations = [] } = info
  if (typeof profile !== 'string' || !Object.hasOwn(profiles, profile)) return undefined
  // The items of a service that does not say where they are may be in a file.
  const place = { title: printable(title), store: printable(store), isPersistent: isPersistent !== false, spaces }
  return { profile: profile as ProfileName, operations, ...place }
}

function describeRejection({ status, headers, text }: ServerResponse, url: string, tokenCommand: string): ControlError {
  if (status === 401 || status === 403)
    return new ControlError(
      `The service at ${url} requires a token from this client: add --token "$(${tokenCommand})".`,
    )
  const isProblem = headers['content-type'] === 'application/problem+json' && status !== 404
  const reason = isProblem ? reasonOf(text) : undefined
  if (reason !== undefined) return new ControlError(reason, true)
  return new ControlError(
    `The server at ${url} has no control API: it is in production mode, has --no-admin, or is another program.`,
  )
}

/** How many mistakes a message lists. */
const maxMistakes = 10

/** Returns the mistakes that a problem document lists, or else its title. */
function reasonOf(problem: string): string | undefined {
  const { title, errors } = Object(tryParse(problem))
  if (typeof title !== 'string') return undefined
  const mistakes = Object.values(Object(errors)).flat()
  const more = mistakes.length > maxMistakes ? [`${mistakes.length - maxMistakes} more mistakes.`] : []
  const shown = [...mistakes.slice(0, maxMistakes), ...more]
  return shown.length === 0 ? printable(title) : shown.map(printable).join(' ')
}

/** Shortens and escapes text that any server may have sent. */
const printable = (text: unknown) =>
  escapeText((typeof text === 'string' ? text : `${JSON.stringify(text)}`).slice(0, 200))
