/// <reference lib="esnext.disposable" preserve="true" />
import { createSecretKey, randomBytes, randomUUID } from 'node:crypto'
import { isDate } from 'node:util/types'
import { type AppSettings, profiles } from './app.ts'
import { developmentHandler } from './commands/develop.ts'
import { createRuntime } from './commands/runtime.ts'
import { controlBodyBytes, openMemoryStores } from './commands/stores.ts'
import { type Config, type ControlSettings, readConfig } from './config/config.ts'
import { maxRules, ruleErrors, tooManyRules } from './control/faults.ts'
import type { FaultRule, JournalEntry } from './control/schema.ts'
import { originNotices } from './http/cors.ts'
import { describeError, Rejection } from './http/errors.ts'
import { quoteNumbers } from './http/int64.ts'
import { arrayReader } from './http/schema.ts'
import { readableLog } from './log.ts'
import { outcomeErrors } from './profiles/profile.ts'
import { listen } from './server/listen.ts'
import { noOverloadMonitor } from './server/overload.ts'
import { createResources } from './server/resources.ts'
import { heapLimitBytes } from './server/runtime.ts'
import type { ListRepresentation } from './store/store.ts'
import { devTokenDefaults, devTokenIssuer } from './tokens/dev-key.ts'
import { signToken } from './tokens/sign.ts'
import { createTokenVerifier } from './tokens/verify.ts'
import { version } from './version.ts'

export type { FaultRule, JournalEntry } from './control/schema.ts'

/** By profile: an item as a test states it. */
export interface TodoItems {
  readonly a: {
    /** An int64: a number where that is exact (up to 2^53 - 1), a bigint for any. */
    readonly id: number | bigint
    /** Null, where absent. */
    readonly name?: string | null
    readonly isComplete: boolean
  }
  readonly b: {
    readonly id: string
    readonly name: string
    readonly notes: string
    /** False, where absent. */
    readonly done?: boolean
  }
}

export interface StartOptions<Name extends keyof TodoItems> {
  /** The contract to serve. */
  readonly profile: Name
  /** Any free port, where absent. */
  readonly port?: number
  /** Repeats random numbers and ids exactly: forecast, trace ids, entity tags, random failures and delays. */
  readonly seed?: number
  /** Stops the clock of forecast, journal and `Date` headers. Token times always use the real clock. */
  readonly now?: Date | string
  /** Requires a token for the to-do endpoints too. */
  readonly requireAuth?: boolean
  /** Gets a line for each request, such as `console.log`; nothing is logged, where absent. */
  readonly log?: (line: string) => void
}

export interface TokenOptions {
  /** `developer`, where absent. */
  readonly name?: string
  readonly roles?: readonly string[]
  readonly scopes?: readonly string[]
  /** Additional claims. */
  readonly claims?: Readonly<Record<string, string>>
  /** An hour, where absent; a negative number for a token that has expired. */
  readonly validForSeconds?: number
}

/** A service in this process, in development mode, with items in memory. */
export interface TodoServer<Name extends keyof TodoItems> extends AsyncDisposable {
  /** Without trailing slash: `http://127.0.0.1:PORT`. */
  readonly url: string
  /** Items as at the start, no failures, no requests. */
  reset(): Promise<void>
  /** The items; an id of Profile A is a bigint where a number would be rounded. */
  items(): Promise<Required<TodoItems[Name]>[]>
  /** Exactly these items. Rejects with every mistake, and then changes nothing. */
  putItems(items: readonly TodoItems[Name][]): Promise<void>
  /** The last 1,000 requests, newest last: those behind the one with the id `since`, at most `limit`. */
  requests(range?: { readonly since?: number; readonly limit?: number }): JournalEntry[]
  /** Adds failures behind those that there are; of those that match a request, the first that is not used up is applied. */
  fail(...rules: FaultRule[]): Promise<void>
  /** A bearer token that this server accepts, and no other. */
  token(options?: TokenOptions): Promise<string>
  /** Stops at once; requests in flight get no response. */
  close(): Promise<void>
}

const host = '127.0.0.1'

/** Starts a service in this process, for tests. Any number of them run side by side and share nothing. */
export async function start<Name extends keyof TodoItems>(options: StartOptions<Name>): Promise<TodoServer<Name>> {
  const config = readStartOptions(options)
  const profile = profiles[options.profile]
  const runtime = createRuntime(config)
  const key = createSecretKey(randomBytes(32))
  const token = async (request: TokenOptions = {}) => {
    const id = randomUUID().slice(0, 8)
    const defaults = { ...devTokenDefaults, id, name: 'developer', validForSeconds: 3600 }
    return (await signToken({ ...defaults, ...request }, key, new Date())).token
  }
  const { log: write } = options
  const log = readableLog(write ? (text) => callSafely(write, text.trimEnd()) : () => {}, write ? 'info' : 'silent')
  const settings: AppSettings = {
    ...config,
    ...runtime,
    redirectPort: undefined,
    redirectsToHttps: false,
    verifyToken: createTokenVerifier({ ...config, trustedIssuers: [devTokenIssuer(key)], now: () => new Date() }),
    allowRequest: undefined,
    observe: undefined,
    noticeOrigin: originNotices(log.notice),
    newPageToken: token,
    unreadyReason: async () => undefined,
    log,
  }
  const stores = openMemoryStores(config, profiles, runtime.newId)
  const startedAt = new Date()
  let url = ''
  const service = () => ({
    version,
    startedAt,
    store: 'memory',
    profiles: [{ title: profile.title, urls: [url] }],
    certificate: undefined,
  })
  const maxBodyBytes = controlBodyBytes(config)
  const control = developmentHandler(
    profile,
    stores,
    stores.openAnother,
    settings,
    config.control,
    service,
    maxBodyBytes,
  )
  const { journal, faults, itemSchema, list, reset, putItems } = control.main
  const readItems = arrayReader(itemSchema, 'id')
  const address = { host, port: config.port ?? 0 }
  const resources = createResources(noOverloadMonitor(), maxBodyBytes, heapLimitBytes())
  const server = await listen(control, address, config.limits, resources, runtime.now).catch((cause) => {
    control.close()
    throw new Error(`start: ${describeListenError(cause, address.port)}`, { cause })
  })
  url = `http://${host}:${server.port}`
  let closed: Promise<void> | undefined
  const close = () => {
    control.close()
    closed ??= server.destroy()
    return closed
  }
  return {
    url,
    async reset() {
      await reset()
    },
    items: async () => parseItems(await list()),
    async putItems(items) {
      const checked = readItems(itemsToJson(items))
      if (checked instanceof Rejection) throw new Error(`putItems: ${describeError(checked)}`)
      const outcome = await putItems(checked)
      if (outcome !== 'replaced') throw new Error(`putItems: ${describeError(outcomeErrors[outcome])}`)
    },
    requests: (range) => journal.list(range),
    async fail(...rules) {
      const mistakes = rules.flatMap((rule) => ruleErrors(rule, faults))
      if (faults.rules.length + rules.length > maxRules) mistakes.push(tooManyRules)
      if (mistakes.length > 0) throw new Error(`fail: ${mistakes.join(' ')}`)
      for (const rule of rules) faults.add(rule)
    },
    token,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The configuration of `todo-service serve` with these options as flags, whatever the environment is. */
function readStartOptions(
  options: Partial<StartOptions<keyof TodoItems>> = {},
): Config & { readonly control: ControlSettings } {
  const { profile, port, seed, now, requireAuth, log, ...unknown } = options
  const isProfile = Object.hasOwn(profiles, `${profile}`)
  const time = isDate(now) && !Number.isNaN(now.getTime()) ? now.toISOString() : now
  const flags = { profile: isProfile ? profile : 'a', port, seed, now: time }
  const args = Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : `--${name}=${value}`))
  const config = readConfig([...args, '--no-https', ...(requireAuth ? ['--require-auth'] : [])], {}, new Date())
  const actual = profile === undefined ? '' : `, not ${JSON.stringify(profile)}`
  const mistakes = [
    ...(isProfile ? [] : [`profile must be ${Object.keys(profiles).join(' or ')}${actual}`]),
    ...('problems' in config ? config.problems.map((problem) => problem.replace(/^--|\.$/g, '')) : []),
    ...(requireAuth === undefined || typeof requireAuth === 'boolean' ? [] : ['requireAuth must be true or false']),
    ...(log === undefined || typeof log === 'function' ? [] : ['log must be a function']),
    ...Object.keys(unknown).map((name) => `there is no option ${name}: use profile, port, seed, now, requireAuth, log`),
  ]
  if ('problems' in config || mistakes.length > 0) throw new Error(`start: ${mistakes.join('; ')}.`)
  // Development mode without --no-admin.
  return config as Config & { readonly control: ControlSettings }
}

/** What the caller's function throws must not change a response: it becomes a warning. */
function callSafely(log: (line: string) => void, line: string): void {
  try {
    log(line)
  } catch (error) {
    process.emitWarning(`start: log has thrown: ${error}`)
  }
}

const describeListenError = ({ code, message }: NodeJS.ErrnoException, port: number) =>
  code === 'EADDRINUSE'
    ? `Port ${port} is in use: choose another, or leave it out for a free one.`
    : `Cannot listen on ${host} port ${port}: ${message}.`

/** JSON with every digit of a bigint. */
function itemsToJson(items: readonly object[]): string {
  if (!Array.isArray(items)) throw new Error('putItems: The items must be an array.')
  const mistakes: string[] = []
  const texts = items.map((item: unknown, index) => {
    if (typeof item !== 'object' || item === null) return JSON.stringify(item) ?? 'null'
    const members = Object.entries(item).map(([name, value]) => {
      if (Number.isInteger(value) && !Number.isSafeInteger(value))
        mistakes.push(`[${index}].${name} may be rounded as a number: write it as a bigint.`)
      const json = typeof value === 'bigint' ? value : JSON.stringify(value)
      return json === undefined ? [] : `${JSON.stringify(name)}:${json}`
    })
    return `{${members.flat().join(',')}}`
  })
  if (mistakes.length > 0) throw new Error(`putItems: ${mistakes.join(' ')}`)
  return `[${texts.join(',')}]`
}

/** JSON.parse, but a bigint where a number would be rounded. */
function parseItems({ json }: ListRepresentation) {
  const text = typeof json === 'string' ? json : Buffer.concat(json).toString()
  const items = JSON.parse(text) as { id: unknown }[]
  const isRounded = ({ id }: { id: unknown }) => typeof id === 'number' && !Number.isSafeInteger(id)
  if (!items.some(isRounded)) return items as never
  const exact = JSON.parse(quoteNumbers(text)) as { id: string }[]
  return items.map((item, index) => (isRounded(item) ? { ...item, id: BigInt(exact[index]?.id ?? 0) } : item)) as never
}
