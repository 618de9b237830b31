/*
 * The JSON objects of the control API. Some of these types are part of `start`, so neither this file nor its imports
 * use types of Node: other packages may not have them.
 */
import type { ProfileUrls } from '../common/profile-urls.ts'
import type { Rule } from '../common/rules.ts'
import {
  alwaysTrue,
  arrayOf,
  boolean,
  expects,
  integer,
  mapOf,
  nullable,
  number,
  type ObjectOf,
  object,
  oneOf,
  type Schema,
  spaceNamePattern,
  string,
  type ValueOf,
  wholeNumber,
} from '../common/schema.ts'

export const maxWaitSeconds = 60

export const spaceName = string(
  'A name of your own, 1 to 64 of A-Z, a-z, 0-9, _ and -: a space shares no items, faults and requests with other clients.',
  { pattern: spaceNamePattern },
)

const maxPathLength = 1_000

const waitLimits = {
  minimum: 0,
  maximum: 1000 * maxWaitSeconds,
  [expects]: `be milliseconds from 0 to ${1000 * maxWaitSeconds}`,
}

export const faultMembers = {
  method: string('Any method, where absent.', { pattern: '^[A-Z]+$', [expects]: 'be a method such as POST' }),
  path: string('A path, or one of the document such as `/api/todoitems/{id}`; any, where absent.', {
    pattern: '^/[!$-;=@-[\\]-~]*$',
    maxLength: maxPathLength,
    [expects]: `begin with /, be percent-encoded and have at most ${maxPathLength} characters`,
  }),
  times: integer('How many requests; all, where absent.', { minimum: 1 }),
  share: number('The share of these requests; all, where absent.', { minimum: 0, maximum: 1 }),
  code: integer("The status; the profile's own failure, without `code`, `connection`, `delay` and `bytesPerSecond`.", {
    [expects]: 'be a status',
  }),
  connection: oneOf(
    ['reset', 'truncate', 'lost'],
    'The connection is reset, or closed after half of the body, or closed after the request took effect.',
  ),
  delay: integer('Milliseconds.', waitLimits),
  maxDelay: integer('With `delay` as the minimum: a random time between.', waitLimits),
  bytesPerSecond: integer("The rate of the response's body.", {
    minimum: 1,
    maximum: 10_000_000,
  }),
}

/** A failure, a delay or a rate for matching requests; docs/control.md describes the members. */
export interface Fault extends Partial<ObjectOf<typeof faultMembers>> {}

/** The body of POST /__admin/faults. */
export const faultSchema: Schema<Fault> = { type: 'object', properties: faultMembers, additionalProperties: false }

/** A fault of a space, with its id and how often it was used. */
export const activeFaultSchema = object(
  {
    id: wholeNumber,
    description: string('Which requests get what.'),
    used: integer('How often the fault was applied.', { minimum: 0 }),
  },
  { ...faultMembers, flag: oneOf(['--fault', '--delay'], 'The flag of the command line that has set the fault.') },
)
export type ActiveFault = ValueOf<typeof activeFaultSchema>

/** A fault of --fault or --delay, which every space has at the start. */
export type FlagFault = Omit<ActiveFault, 'id' | 'description' | 'used'>

const message = object(
  { headers: mapOf(string()), body: nullable(string('The first 16 KiB as text; null where there is none.')) },
  { isTruncated: alwaysTrue },
)
export type Message = ValueOf<typeof message>

const itemChange = object({ change: oneOf(['created', 'updated', 'deleted']), id: string() })
export type ItemChange = ValueOf<typeof itemChange>

export const journalEntry = object(
  {
    id: wholeNumber,
    time: string(undefined, { format: 'date-time' }),
    client: string(),
    method: string(),
    path: string(),
    query: string('With its question mark.'),
    state: oneOf(
      ['pending', 'sent', 'aborted', 'closed'],
      'No outcome yet; the response was sent; the client closed the connection before; the service closed it without a response.',
    ),
    status: nullable(integer('Null unless the state is `sent`.')),
    milliseconds: number('0 while it is pending.'),
    rules: arrayOf(string('A rule of the contract that the request broke.')),
    met: arrayOf(string('A rule of the contract that the client has kept.')),
    request: message,
    response: message,
  },
  {
    reason: string('Why the request was rejected or has no response, or what simulated its response.'),
    isSimulated: alwaysTrue,
    isPreflight: { ...alwaysTrue, description: 'A browser sent this CORS preflight before the request of a page.' },
    errors: mapOf(arrayOf(string())),
    fault: string('What was applied of faults and preferences.'),
    faultIds: arrayOf(wholeNumber),
    item: itemChange,
    space: string(),
    blockedOrigin: string('CORS does not allow a page of this origin to read the response.'),
  },
)

/** A request and its response, in GET /__admin/requests and in events. */
export interface JournalEntry extends ValueOf<typeof journalEntry> {}

export const journalQueryMembers = {
  since: { ...wholeNumber, description: 'Only entries with a higher id.' },
  limit: { ...wholeNumber, description: 'At most so many, the newest.' },
  preflights: boolean('false leaves out CORS preflights.'),
}

/** The parameters of GET /__admin/requests. */
export interface JournalQuery extends Partial<ObjectOf<typeof journalQueryMembers>> {}

/** The parameters of POST /__admin/codes. */
export const codeQueryMembers = {
  validForSeconds: integer('How long it is valid: 300, where absent.', {
    minimum: 1,
    maximum: 43_200,
  }),
}

/** The items were replaced, the journal was emptied, or the faults have changed. */
export type ControlEvent = 'reset' | 'clear' | 'faults'

/** An event of GET /__admin/events. */
export type ServiceEvent = { readonly id: number } & (
  | { readonly event: 'request'; readonly data: JournalEntry }
  | { readonly event: 'item'; readonly data: ItemChange }
  | { readonly event: ControlEvent; readonly data: object }
)

/** What selects the space of a request: its path or a header, its token, or nothing. */
export type SpaceMode = 'path' | 'caller' | 'none'

/** The part of GET /__admin/info that is the same for all profiles and spaces. */
export interface ServiceInfo {
  readonly version: string
  readonly startedAt: string
  readonly store: string
  /** Whether the items are in a file or a database. */
  readonly isPersistent: boolean
  readonly profiles: readonly ProfileUrls[]
}

/** The part of GET /__admin/info that is the same for all spaces. */
export interface ProfileInfo extends ServiceInfo {
  readonly certificate?:
    | { readonly pem: string; readonly subject: string; readonly validTo: string; readonly fingerprint256: string }
    | undefined
  readonly flags: { readonly requireAuth: boolean }
  /** `canBeMet`: whether a request can meet the rule. Others are about responses to mistakes, or what is stored. */
  readonly rules: readonly (Rule & { readonly canBeMet: boolean })[]
}

/** The response of GET /__admin/info. */
export interface Info extends ProfileInfo {
  readonly profile: string
  readonly title: string
  readonly spaces: SpaceMode
  readonly instance: string
  /** The name of the space; undefined for the default space. */
  readonly space?: string | undefined
  /** Whether an item was written since the start or the last reset. */
  readonly hasChanged: boolean
  readonly operations: readonly {
    readonly operation: string
    readonly method: string
    readonly path: string
    readonly secured: boolean
    /** The statuses that a fault or `Prefer: code` can simulate. */
    readonly statuses: readonly number[]
  }[]
  /** A development token, for local clients alone. */
  readonly token?: string | undefined
}

const mistake = object(
  {
    time: string(undefined, { format: 'date-time' }),
    method: string(),
    path: string('At most 200 characters.'),
    status: integer(),
    rules: arrayOf(string('A rule of the contract that the request broke.')),
  },
  { reason: string('Why the request was rejected.') },
)

export const spaceUse = object(
  {
    name: string('Empty for the default space.'),
    items: integer('Number of items of this profile.', { minimum: 0 }),
    requests: integer('Requests since the start or the last reset.', { minimum: 0 }),
    rejected: integer('Those whose response was 400 or higher, without simulated ones.', { minimum: 0 }),
    met: arrayOf(string('A rule of the contract that a client has kept.')),
    broken: arrayOf(string('A rule of the contract that a request broke.')),
  },
  {
    lastUsed: string('The time of the last request; absent where there was none.', { format: 'date-time' }),
    mistake: { ...mistake, description: 'The last request that was rejected.' },
  },
)
export type Mistake = ValueOf<typeof mistake>
/** A space with statistics of its requests. */
export interface SpaceUse extends ValueOf<typeof spaceUse> {}
