export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Text, or bytes in parts. */
  readonly body?: string | readonly Buffer[]
  /** Nothing that follows on the connection can be trusted. */
  readonly isLast?: true
  /** Why it is so; for the log alone. */
  readonly note?: string
}

export const empty = (status: number, headers?: Record<string, string>): Answer =>
  headers ? { status, headers } : { status }

/** The same answer, with more to say. */
export const withHeaders = (answer: Answer, headers: Record<string, string>): Answer => ({
  ...answer,
  headers: { ...answer.headers, ...headers },
})

/** For a 503 or a 429. */
export const retrySoon = { 'retry-after': '1' }

export const text = (status: number, body: string): Answer => ({
  status,
  headers: { 'content-type': 'text/plain; charset=utf-8' },
  body,
})

/** `body` is JSON text already: a profile writes its wire shape out by hand. */
export const json = (
  status: number,
  body: string | readonly Buffer[],
  headers: Record<string, string> = {},
): Answer => ({
  status,
  headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
  body,
})
