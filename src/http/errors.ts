interface ErrorDefinition {
  readonly status: number
  readonly title: string
  /** The connection is closed, because the bytes after this request cannot be read as another request. */
  readonly closesConnection?: true
}

/** Every error of a request. The error table of a profile decides what the client gets. */
export const errors = {
  'target-malformed': { status: 400, title: 'The request target is not a path.' },
  'host-malformed': { status: 400, title: 'The Host header is missing or malformed.', closesConnection: true },
  'header-repeated': { status: 400, title: 'A header that may occur once is repeated.', closesConnection: true },
  'framing-ambiguous': { status: 400, title: 'The end of the body cannot be determined.', closesConnection: true },
  'request-incomplete': { status: 400, title: 'The request is malformed or incomplete.', closesConnection: true },
  'request-timeout': { status: 408, title: 'The request was not received in time.', closesConnection: true },
  'headers-too-many': { status: 431, title: 'The request has more than 200 headers.', closesConnection: true },
  'path-unknown': { status: 404, title: 'There is nothing at this path.' },
  'id-malformed': { status: 400, title: 'The id in the path is not an int64.' },
  'id-too-long': { status: 400, title: 'The id has more than 1,024 characters.' },
  'media-type-unsupported': { status: 415, title: 'The body must be sent as application/json in UTF-8.' },
  'body-too-large': { status: 413, title: 'The body is too large.' },
  'body-malformed': { status: 400, title: 'The body must be one JSON object in UTF-8.' },
  /** A member is missing or has the wrong type. */
  'body-invalid': { status: 400, title: 'One or more members of the body are missing or invalid.' },
  /** All members have the right type, but a value cannot be stored. */
  'value-unstorable': { status: 400, title: 'One or more members of the body have a value that cannot be stored.' },
  /** A parameter of the query is invalid. Only the control API has this error. */
  'query-invalid': { status: 400, title: 'One or more parameters of the query are invalid.' },
  'origin-forbidden': { status: 403, title: 'Pages of another origin may not use this API.' },
  /** Only the control API has this error. */
  'code-invalid': { status: 403, title: 'The code is wrong, or was used, or has expired: get a new one.' },
  /** Only the control API has this error. */
  'too-many-wrong-codes': {
    status: 429,
    title: 'The code is not valid, and neither were many before it: try again in a second.',
  },
  /** Only the control API has this error. */
  'too-many-codes': {
    status: 409,
    title: 'This space has 20 codes that nobody has used: use one of them, or wait until they expire.',
  },
  'ids-differ': { status: 400, title: 'The id in the path differs from the id in the body.' },
  /** Only the control API has this error. */
  'fault-missing': { status: 404, title: 'No fault has this id.' },
  'space-missing': { status: 404, title: 'No space has this name.' },
  'item-missing': { status: 404, title: 'No item has this id.' },
  'precondition-failed': { status: 412, title: 'The state has changed: no entity tag in If-Match matches.' },
  'id-in-use': { status: 409, title: 'An item with this id exists.' },
  'store-unavailable': { status: 503, title: 'The items cannot be reached at the moment.' },
  'keys-unavailable': { status: 503, title: 'The token cannot be checked at the moment.' },
  'store-full': { status: 503, title: 'There is no room for more items.' },
  /** Only the control API has this error. */
  'too-many-event-streams': { status: 503, title: 'Too many clients receive events.' },
  'too-many-requests': { status: 429, title: 'This client sends too many requests.' },
  'uploads-exceeded': { status: 503, title: 'The bodies that are being received take too much memory.' },
  overloaded: { status: 503, title: 'The service is overloaded.' },
  internal: { status: 500, title: 'The service could not handle this request.' },
} as const satisfies Record<string, ErrorDefinition>

export type ErrorCode = keyof typeof errors

/** The mistakes in a body: member → messages. */
export type MemberErrors = Readonly<Record<string, readonly string[]>>

/** Why a request is rejected. It is returned, not thrown: a stack trace would cost more than handling the request. */
export class Rejection {
  readonly code: ErrorCode
  readonly members: MemberErrors | undefined
  /** A text for the log and the journal; responses of the profiles do not contain it. */
  readonly reason: string | undefined

  constructor(code: ErrorCode, members?: MemberErrors, reason?: string) {
    this.code = code
    this.members = members
    this.reason = reason
  }
}

/** A rejection of the body as a whole: its message belongs to no member. */
export const bodyError = (message: string) => new Rejection('body-malformed', { '': [message] })

export const closesConnection = (code: ErrorCode) => (errors[code] as ErrorDefinition).closesConnection === true

/** Describes the error for the log, including what the client must not learn (G8). */
export function describeError({ code, members, reason }: Rejection): string {
  const { title } = errors[code]
  if (!members) return reason ? `${title.slice(0, -1)}: ${reason}` : title
  return [...Object.values(members).flat(), ...(reason ? [reason] : [])].join(' ')
}
