/** Every way a request can fail. */
export type RefusalCode =
  | 'host-malformed'
  | 'authorization-ambiguous'
  | 'path-unknown'
  | 'id-malformed'
  | 'id-too-long'
  | 'media-type-refused'
  | 'body-too-large'
  /** Empty, not UTF-8, not JSON, or not an object. */
  | 'body-malformed'
  /** A member is missing or has the wrong type. */
  | 'body-invalid'
  /** Every member is there with its type, and one of them holds a value that cannot be stored. */
  | 'value-refused'
  | 'ids-differ'
  | 'item-missing'
  | 'id-in-use'
  | 'unforeseen'

/** What is wrong with a body: member → messages. */
export type MemberErrors = Readonly<Record<string, readonly string[]>>

export class Refusal {
  readonly code: RefusalCode
  readonly errors: MemberErrors | undefined

  constructor(code: RefusalCode, errors?: MemberErrors) {
    this.code = code
    this.errors = errors
  }
}
