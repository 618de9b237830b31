/** A development token to be created. */
export interface TokenRequest {
  /** Default: `developer`. */
  readonly name?: string
  readonly roles?: readonly string[]
  readonly scopes?: readonly string[]
  /** Claims to add to the token. */
  readonly claims?: Readonly<Record<string, string>>
  /**
   * The token expires after this time, rounded up to a whole second of the real clock; with 0 or a negative number it
   * has expired already. The server rejects an expired token, or does so `clockToleranceSeconds` later. Default: an
   * hour.
   */
  readonly validForSeconds?: number
}

/** Creates a development token. */
export type NewToken = (request?: TokenRequest) => Promise<string>
