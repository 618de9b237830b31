import { setTimeout as sleep } from 'node:timers/promises'
import { openApiDocumentOf, profiles } from '../app.ts'
import { arrayOf, boolean, integer, mapOf, object, oneOf, partial, string, wholeNumber } from '../common/schema.ts'
import { readServerUrl } from '../config/config.ts'
import { bearerToken } from '../config/token-options.ts'
import {
  type ActiveFault,
  faultSchema,
  type JournalEntry,
  journalEntry,
  type SpaceUse,
  spaceName as space,
} from '../control/schema.ts'
import { rulesToMeet } from '../profiles/profile.ts'
import type { ControlClient } from '../service/control-client.ts'
import { createDevToken, maxValidForSeconds } from '../service/tokens.ts'
import { parseExact } from '../verify/engine/json.ts'
import { matchesRule } from '../verify/engine/waivers.ts'
import { rules as contractRules, profiles as contracts, type Outcome, verify as verifyServer } from '../verify/index.ts'
import { pretty } from '../verify/report/pretty.ts'
import { isLocal, type Services } from './services.ts'
import { firstOf, tool } from './tool.ts'

const profile = oneOf(
  ['a', 'b'],
  'a: int64 ids from the service, PUT by id. b: string ids from the client, text error codes.',
)
/** The arguments that select a service and a space. */
const ofService = {
  profile: { ...profile, description: 'As in read_contract. Required unless --url names one service.' },
  space,
}
const url = string('Base URL for clients of this contract, without trailing slash; with the prefix of the space.')
const ruleIds = string('Ids of rules, separated by commas, * is a wildcard: A8,S*.', {
  pattern: '^[\\w*-]{1,20}( *, *[\\w*-]{1,20}){0,99}$',
})
const listOf = (ids: string | undefined) => ids?.split(',').map((id) => id.trim())
const more = string('What is left out, and how to get it.')
const limit = (max: number, standard: number) =>
  integer(`At most so many, 1 to ${max}; ${standard}, where absent.`, { minimum: 1, maximum: max })

const contractRule = object({ id: string(), basis: oneOf(['spec', 'choice']), sentence: string() })

const outcome = object(
  {
    rule: string(),
    name: string('What was checked.'),
    sentence: string('The rule.'),
    expected: string(),
    got: string(),
  },
  { request: string('Shell commands that repeat it.') },
)
const describe = ({ rule, name, sentence, failure }: Outcome) => ({ rule, name, sentence, ...failure })

/** How many entries of the journal a tool reads at most, so that the response stays small. */
const maxJournalEntries = 200

/** Replaces flags of the command `verify` in a message by arguments of the tool, or removes them. */
const withoutFlags = (text: string) =>
  text
    .replace(/ \(--[^)]*\)/g, '')
    .replaceAll('--fresh or --reset', 'fresh')
    .replace('; --wait N waits for it', '')
    .replace('pass --token, or other credentials as --header', 'pass token')
    .replace(/^(Notes are deviations from choices): .*/m, '$1.')
    .replace(/^(Rule and requests of further failures): .*/m, '$1: in the structured content.')

const isRejected = ({ state, status, blockedOrigin }: JournalEntry) =>
  state !== 'pending' && (status === null || status >= 400 || blockedOrigin !== undefined)

/** Shortens an entry: leaves out the headers, and the body of the response. */
const summarize = ({ request, response, met, client, query, ...entry }: JournalEntry) => ({
  ...entry,
  path: entry.path + query,
  ...(request.body !== null && { requestBody: request.body }),
})

type ShownEntry = Partial<JournalEntry> & Pick<JournalEntry, 'id' | 'rules'>

export interface ToolSettings {
  readonly services: Services
  /** The configuration directory of the user, with the key of development tokens. */
  readonly directory: string | undefined
  commandLine(...args: readonly string[]): string
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { operationId: string; summary: string }>>>>
  readonly components: { readonly schemas: object }
}

const pollIntervalMs = 100
const maxFoundRules = 10

const readJournal = async (service: ControlClient, query: string) =>
  JSON.parse((await service.send('GET', `/requests?${query}`)).text) as readonly JournalEntry[]

const lastIdOf = async (service: ControlClient) => (await readJournal(service, 'limit=1')).at(-1)?.id ?? 0

export const tools = ({ services, directory, commandLine }: ToolSettings) => [
  tool({
    name: 'read_contract',
    title: 'Read the contract',
    description:
      'Returns the rules of the contract, all of them or those that match every argument. Basis spec: required by the specification. Basis choice: the specification is silent, and this is decided here; parts of a rule marked (choice) are choices too.',
    input: partial({
      rules: ruleIds,
      profile: { ...profile, description: `Only the rules of this profile. ${profile.description}` },
      search: string(`Words, such as: put missing id. The ${maxFoundRules} rules that have most of them, those first.`),
    }),
    output: object({ rules: arrayOf(contractRule) }),
    async run({ rules: ids, profile: name, search = '' }) {
      const words = new Set(search.toLowerCase().match(/[^\s,]+/g))
      const named = (name ? contracts[name].rules : contractRules).filter(
        ({ id }) => listOf(ids)?.some((pattern) => matchesRule(pattern, id)) ?? true,
      )
      const countOf = ({ id, basis, sentence }: (typeof named)[number]) => {
        const content = `${id} ${basis} ${sentence}`.toLowerCase()
        return [...words].filter((word) => content.includes(word)).length
      }
      const ranked = named.filter((rule) => countOf(rule) > 0).sort((a, b) => countOf(b) - countOf(a))
      const found = words.size === 0 ? named : ranked.slice(0, maxFoundRules)
      if (found.length > 0) return { data: { rules: found } }
      throw new Error(`No rule matches all of this. Without arguments you get all ${contractRules.length} rules.`)
    },
  }),

  tool({
    name: 'read_openapi',
    title: 'Read the OpenAPI document',
    description:
      'Returns the OpenAPI 3.0.1 document of one operation, with the schemas that it uses; without an operation, the list of them.',
    input: object({ profile }, { operation: string('Such as POST /api/todoitems, or createItem.') }),
    output: partial({
      operations: arrayOf(object({ operation: string(), request: string(), summary: string() })),
      document: { type: 'object' },
    }),
    async run({ profile: name, operation }) {
      const { paths, components, ...document } = openApiDocumentOf(name) as object as OpenApi
      const operations = Object.entries(paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, described]) => {
          return { path, method, described, request: `${method.toUpperCase()} ${path}` }
        }),
      )
      if (operation === undefined) {
        const listed = operations.map(({ described: { operationId, summary }, request }) => {
          return { operation: operationId, request, summary }
        })
        return { data: { operations: listed } }
      }
      const found = operations.find(({ described, request }) => [described.operationId, request].includes(operation))
      if (!found)
        throw new Error(
          `There is no operation ${operation}: use ${operations.map(({ request }) => request).join(', ')}.`,
        )
      const { path, method, described } = found
      const json = JSON.stringify(described)
      const isUsed = ([schema]: [string, unknown]) => json.includes(`"#/components/schemas/${schema}"`)
      const schemas = Object.fromEntries(Object.entries(components.schemas).filter(isUsed))
      const reduced = { paths: { [path]: { [method]: described } }, components: { ...components, schemas } }
      return { data: { document: { ...document, ...reduced } } }
    },
  }),

  tool({
    name: 'service',
    title: 'Find or start the service',
    description:
      'Returns the base URL for a client of the profile, and which failures each operation can have. Uses the service that runs on this machine; where none runs, or it keeps its items, starts one for this session, with items in memory. Call it before you run a client.',
    input: partial(ofService),
    output: object(
      {
        url,
        isStartedHere: boolean('It was started for this session, and stops with it.'),
        store: string('Where the items are.'),
        operations: arrayOf(
          object({ method: string(), path: string(), needsToken: boolean(), failures: arrayOf(integer()) }),
        ),
      },
      { note: string('Why it is not the service that runs, or only a space of it.') },
    ),
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    async run(input) {
      const { service, baseUrl, isStartedHere, note } = await services.connect(input.profile, input.space, 'change')
      const operations = service.operations.map(({ method, path, secured, statuses }) => {
        return { method, path, needsToken: secured, failures: statuses }
      })
      services.lastIds.set(baseUrl, await lastIdOf(service))
      return { data: { url: baseUrl, isStartedHere, store: service.store, ...(note && { note }), operations } }
    },
  }),

  tool({
    name: 'items',
    title: 'List or replace the items',
    description:
      'Returns the items; with put, the service has exactly these items afterwards. Refuses to replace what is saved in a file or database.',
    input: partial({
      ...ofService,
      put: {
        ...arrayOf<{ id?: unknown }>({ type: 'object' }),
        description: `An array of all items. ${Object.values(profiles)
          .map(({ title, itemSchema }) => `${title}: ${JSON.stringify(itemSchema.example)}`)
          .join('. ')}.`,
      },
      offset: integer('How many items to skip.', { minimum: 0 }),
      limit: limit(200, 50),
    }),
    output: object({ url, total: wholeNumber, items: arrayOf<object>({ type: 'object' }) }, { more }),
    annotations: { destructiveHint: true, idempotentHint: true, openWorldHint: false },
    async run({ profile: name, space: spaceName, put, offset = 0, limit: count = 50 }) {
      const { service, baseUrl } = await services.connect(name, spaceName, put ? 'change' : 'read')
      if (put) {
        const loss = await service.findLoss([])
        if (loss)
          throw new Error(
            `${loss.sentence}. Nothing was changed: only the user may replace ${loss.pronoun}, with PUT ${baseUrl}/__admin/items.`,
          )
        const rounded = put.findIndex(({ id }) => Number.isInteger(id) && !Number.isSafeInteger(id))
        if (rounded >= 0)
          throw new Error(
            `[${rounded}].id may have been rounded: send ids beyond 2^53 with PUT ${baseUrl}/__admin/items.`,
          )
        await service.send('PUT', '/items', put)
      }
      // The result has an id that a number would round as a string.
      const all = parseExact((await service.send('GET', '/items')).text) as { id: unknown }[]
      const items = all.map((item) => (typeof item.id === 'bigint' ? { ...item, id: `${item.id}` } : item))
      const { shown, left } = firstOf(items.slice(offset), count)
      const rest = left > 0 && { more: `${left} more items: offset ${offset + shown.length}.` }
      return { data: { url: baseUrl, total: items.length, items: shown, ...rest } }
    },
  }),

  tool({
    name: 'reset',
    title: 'Reset the service',
    description:
      'Items as at the start (Profile A none, Profile B three), no faults, an empty journal. Refuses to delete what is saved in a file or database.',
    input: partial(ofService),
    output: object({ url, message: string() }),
    annotations: { destructiveHint: true, idempotentHint: true, openWorldHint: false },
    async run(input) {
      const { service, baseUrl } = await services.connect(input.profile, input.space, 'change')
      const loss = await service.findLoss()
      if (loss)
        throw new Error(
          `${loss.sentence}. Nothing was changed: only the user may delete ${loss.pronoun}, with ${commandLine('reset')} at a terminal.`,
        )
      const message = await service.reset()
      return { data: { url: baseUrl, message }, text: message }
    },
  }),

  tool({
    name: 'requests',
    title: 'Read the journal of requests',
    description: `Returns what clients have sent lately, newest last: the response, what was wrong by member, the rules of the contract that the request broke, and what was simulated. Looks at the last ${maxJournalEntries} requests of the service or the space.`,
    input: partial({
      ...ofService,
      since: integer('Only requests after the one with this id: pass lastId of the last call.', { minimum: 0 }),
      before: integer('Only requests before the one with this id.', { minimum: 1 }),
      rejected: boolean('Only those with a status of 400 or more, without a response, or blocked by CORS.'),
      preflights: boolean('CORS preflights too.'),
      id: integer('Only this request, with all headers and bodies.', { minimum: 1 }),
      limit: limit(100, 20),
    }),
    output: object(
      {
        url,
        requests: arrayOf({
          ...journalEntry,
          required: ['id', 'method', 'path', 'state', 'status', 'rules'],
          properties: { ...journalEntry.properties, requestBody: string('Without id: the beginning.') },
        }),
        rules: mapOf(string('The sentence of a rule that was broken.')),
        lastId: integer('For since.'),
      },
      { more },
    ),
    async run({ profile: name, space: spaceName, since = 0, before = Number.POSITIVE_INFINITY, ...input }) {
      const { id, rejected = false, preflights = id !== undefined, limit: count = 20 } = input
      const { service, baseUrl } = await services.connect(name, spaceName, 'read')
      const start = id === undefined ? since : id - 1
      const query = `since=${start}&limit=${maxJournalEntries}&preflights=${preflights}`
      const entries = await readJournal(service, query)
      if (id !== undefined && entries[0]?.id !== id)
        throw new Error(`The journal has no request ${id}, or more than ${maxJournalEntries} after it.`)
      const chosen = entries.filter((entry) => entry.id < before && (!rejected || isRejected(entry)))
      const listed: ShownEntry[] = id === undefined ? chosen.map(summarize).reverse() : entries.slice(0, 1)
      const { shown, left } = firstOf(listed, count, id === undefined ? 300 : 5_000)
      const broken = new Set(shown.flatMap(({ rules }) => rules))
      const rules = contractRules.filter((rule) => broken.has(rule.id)).map((rule) => [rule.id, rule.sentence])
      const data = { rules: Object.fromEntries(rules), lastId: entries.at(-1)?.id ?? start }
      if (id === undefined) services.lastIds.set(baseUrl, data.lastId)
      const rest = left > 0 && { more: `${left} earlier ones: before ${shown.at(-1)?.id}.` }
      return { data: { url: baseUrl, requests: shown.reverse(), ...data, ...rest } }
    },
  }),

  tool({
    name: 'wait_for_request',
    title: 'Wait for a request',
    description:
      'Waits until a client has sent a request that matches, and returns it as requests does. Without since, the first one after the last call of service, requests or this tool.',
    input: partial({
      ...ofService,
      method: string('Such as POST; any, where absent.'),
      path: string('How the path begins, such as /api/todoitems; any, where absent.'),
      since: integer('Only a request after the one with this id.', { minimum: 0 }),
      seconds: integer('How long to wait, 1 to 300; 30, where absent.', { minimum: 1, maximum: 300 }),
    }),
    output: object({ url, lastId: integer('For since.') }, { request: { type: 'object' } }),
    async run({ profile: name, space: spaceName, method, path = '', since, seconds = 30 }, { signal }) {
      const { service, baseUrl } = await services.connect(name, spaceName, 'read')
      const isWanted = (entry: JournalEntry) =>
        entry.state !== 'pending' &&
        entry.path.toLowerCase().startsWith(path.toLowerCase()) &&
        (method === undefined || entry.method === method.toUpperCase())
      const lastId = since ?? services.lastIds.get(baseUrl) ?? (await lastIdOf(service))
      for (let waitedMs = 0; waitedMs < 1000 * seconds; waitedMs += pollIntervalMs) {
        const entries = await readJournal(service, `since=${lastId}&preflights=false`)
        const found = entries.find(isWanted)
        if (found) {
          services.lastIds.set(baseUrl, found.id)
          return { data: { url: baseUrl, lastId: found.id, request: firstOf([summarize(found)], 1, 300).shown[0] } }
        }
        await sleep(pollIntervalMs, undefined, { signal })
      }
      return { data: { url: baseUrl, lastId } }
    },
  }),

  tool({
    name: 'rules_met',
    title: 'Rules met and broken',
    description:
      'Returns which rules of the contract the requests of clients have met, which they have broken, and which they could meet but have not touched, since the start or the last reset.',
    input: partial(ofService),
    output: object({
      url,
      requests: wholeNumber,
      met: arrayOf(string()),
      broken: arrayOf(contractRule),
      untouched: arrayOf(string()),
    }),
    async run({ profile: name, space: spaceName }) {
      const { service, baseUrl } = await services.connect(name, spaceName, 'read')
      const used = new URL(baseUrl).pathname.replace(/^\/~?/, '')
      const spaces = JSON.parse((await service.send('GET', '/spaces')).text) as readonly SpaceUse[]
      const { requests = 0, met = [], broken = [] } = spaces.find((use) => use.name === used) ?? {}
      const { rules } = contracts[service.profile]
      const untouched = [...rulesToMeet(profiles[service.profile])].filter((id) => ![...met, ...broken].includes(id))
      return {
        data: { url: baseUrl, requests, met, broken: rules.filter(({ id }) => broken.includes(id)), untouched },
      }
    },
  }),

  tool({
    name: 'faults',
    title: 'List, add or clear faults',
    description:
      'With add, requests fail, wait or are answered slowly from now on, as the fault says; with clear, it replaces the earlier ones. Returns the faults and how often each was used. A fault without code, connection, delay and bytesPerSecond is a failure of the store. Example: {"profile":"a","add":{"method":"POST","times":1,"code":503}}.',
    input: partial({
      ...ofService,
      add: { ...faultSchema, description: 'Which requests, and what happens to them.' },
      clear: boolean('Remove all faults, but those of flags.'),
    }),
    output: object(
      {
        url,
        faults: arrayOf(
          object({ id: wholeNumber, description: string('Which requests get what.'), used: wholeNumber }),
        ),
      },
      { more },
    ),
    annotations: { destructiveHint: false, idempotentHint: false, openWorldHint: false },
    async run({ profile: name, space: spaceName, add, clear }) {
      const { service, baseUrl } = await services.connect(name, spaceName, add || clear ? 'change' : 'read')
      if (clear) await service.send('PUT', '/faults', add ? [add] : [])
      else if (add) await service.send('POST', '/faults', add)
      const all: readonly ActiveFault[] = JSON.parse((await service.send('GET', '/faults')).text) as ActiveFault[]
      const described = all.map(({ id, description, used }) => ({ id, description, used }))
      const { shown, left } = firstOf(described, 100)
      const rest = left > 0 && { more: `${left} more faults: GET ${baseUrl}/__admin/faults.` }
      return { data: { url: baseUrl, faults: shown, ...rest } }
    },
  }),

  tool({
    name: 'token',
    title: 'Create a development token',
    description:
      'Returns a bearer token for /secret and /swagger/v1/swagger.json. Services in development mode that this user runs on this machine accept it, no others do.',
    input: partial({
      name: string('Name of the caller, which /secret greets; developer, where absent.', { pattern: '\\S' }),
      scopes: { ...arrayOf(string()), description: 'Scopes of the token, an array of strings.' },
      roles: { ...arrayOf(string()), description: 'Roles of the caller, an array of strings.' },
      validForSeconds: integer(
        `At most ${maxValidForSeconds} (ten years); 3600, where absent; a negative number for a token that has expired.`,
        { minimum: -maxValidForSeconds, maximum: maxValidForSeconds },
      ),
    }),
    output: object({ token: string(), expires: string() }),
    annotations: { destructiveHint: false, openWorldHint: false },
    async run(request) {
      const created = await createDevToken(directory, request)
      if (typeof created === 'string') throw new Error(created)
      return { data: { token: created.token, expires: new Date(created.claims.exp * 1000).toISOString() } }
    },
  }),

  tool({
    name: 'verify',
    title: 'Verify a server',
    description:
      'Checks a running server on this machine, in whatever language it is written, against the contract: some six thousand requests, a few seconds. It changes only items that it creates, and deletes them. Each failure has its rule, what was expected, and shell commands that repeat it. Fix the first failure first.',
    input: object(
      { url: string('Base URL of the server, without /api/todoitems: http://localhost:8080.'), profile },
      {
        quick: boolean('Check only what is specified, in about half the time.'),
        only: { ...ruleIds, description: `Check only these rules. ${ruleIds.description}` },
        fresh: boolean(
          'The server was started for this run and may lose all its items: check what it starts with, too.',
        ),
        strict: boolean('Count deviations from choices as failures; otherwise they are notes.'),
        token: string(
          'A bearer token that the server accepts, for the rules about tokens (S3, S4, S6); that of the tool token for this service.',
        ),
      },
    ),
    output: object(
      {
        ok: boolean('Complete, and no check failed.'),
        complete: boolean('The run went to the end.'),
        passed: wholeNumber,
        failed: wholeNumber,
        deviations: wholeNumber,
        skipped: wholeNumber,
        failures: arrayOf(outcome),
        notes: arrayOf(outcome),
        leftovers: arrayOf(string('Path of an item of this run that could not be deleted.')),
      },
      { more },
    ),
    annotations: { destructiveHint: false, openWorldHint: false },
    async run({ url: sent, profile: name, only, token, ...options }, { signal, reportProgress }) {
      const problems: string[] = []
      const target = readServerUrl(sent, problems)
      if (problems.length > 0) throw new Error(problems.join())
      const { read, expects } = bearerToken('')
      if (token !== undefined && read(token) === undefined) throw new Error(`The argument token must be ${expects}.`)
      if (!services.mayVerify(target))
        throw new Error(
          `${target} is not on this machine. Ask the user to run ${commandLine('verify', target, '--profile', name)}, or to add --url ${target} to this command.`,
        )
      const verification = await verifyServer({
        ...options,
        url: target,
        profile: name,
        only: listOf(only),
        signal,
        token: token?.trim(),
        // The development certificate of a server on this machine is self-signed.
        insecure: target.startsWith('https:') && isLocal(target),
        onOutcome: ({ rule }, done, total) => reportProgress(done, total, rule),
      }).catch((cause) => {
        throw cause instanceof Error ? new Error(withoutFlags(cause.message), { cause }) : cause
      })
      const { ok, complete, passed, failed, deviations, skipped, outcomes, leftovers } = verification
      const withStatus = (status: Outcome['status']) =>
        outcomes.filter((candidate) => candidate.status === status).map(describe)
      const failures = firstOf(withStatus('failed'), 10, 1_000)
      // Notes are left out if there are failures, which may be their cause.
      const notes = firstOf(withStatus('deviates'), failed > 0 ? 0 : 10)
      const rest = failures.left + notes.left > 0 && {
        more: `${failures.left} more failures, ${notes.left} more notes: fix these first, or name rules in only.`,
      }
      const lists = { failures: failures.shown, notes: notes.shown, leftovers: firstOf(leftovers, 10).shown }
      return {
        data: { ok, complete, passed, failed, deviations, skipped, ...lists, ...rest },
        text: withoutFlags(pretty({ ...verification, unobservable: [] })),
      }
    },
  }),
]
