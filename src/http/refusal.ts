/** Every way a request can fail, and what there is to say about it. */
export const refusals = {
  'host-malformed': 'The Host header is malformed.',
  'header-doubled': 'A header that may be there once is there twice.',
  'version-refused': 'The version of HTTP is neither 1.0 nor 1.1.',
  'framing-refused': 'Where the body ends cannot be told for certain.',
  'target-malformed': 'The target of the request is not a path.',
  'path-unknown': 'There is nothing at this path.',
  'id-malformed': 'The id in the path is not an int64.',
  'id-too-long': 'The id has more than 1,024 characters.',
  'media-type-refused': 'The body must be sent as application/json in UTF-8.',
  'body-too-large': 'The body is too large.',
  'body-malformed': 'The body must be one JSON object in UTF-8.',
  /** A member is missing or has the wrong type. */
  'body-invalid': 'One or more members of the body are missing or invalid.',
  /** Every member is there with its type, and one of them holds a value that cannot be stored. */
  'value-refused': 'One or more members of the body hold a value that cannot be stored.',
  'ids-differ': 'The id in the path differs from the id in the body.',
  'item-missing': 'No item has this id.',
  'item-changed': 'The item is in another state than If-Match asks for.',
  'id-in-use': 'An item with this id exists.',
  'store-unavailable': 'The items cannot be reached at the moment.',
  'store-full': 'There is no room for more items.',
  'too-many-requests': 'This client asks too often.',
  overloaded: 'There is too much to do at the moment.',
  unforeseen: 'The service could not answer this request.',
} as const

export type RefusalCode = keyof typeof refusals

/** What is wrong with a body: member → messages. */
export type MemberErrors = Readonly<Record<string, readonly string[]>>

export class Refusal {
  readonly code: RefusalCode
  readonly errors: MemberErrors | undefined
  /** Why; for the log alone. */
  readonly note: string | undefined

  constructor(code: RefusalCode, errors?: MemberErrors, note?: string) {
    this.code = code
    this.errors = errors
    this.note = note
  }
}
