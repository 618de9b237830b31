import type { IncomingMessage } from 'node:http'
import { type Answer, empty } from './answer.ts'
import { header } from './header.ts'

/** Who is asking: what the token says of its bearer. */
export type Caller = Readonly<Record<string, unknown>>

type Verdict =
  | { readonly caller: Caller }
  /** `description` is for the client, `reason` for the log. */
  | { readonly description: string; readonly reason: string }

/** Decides on a bearer token. */
export type Guard = (token: string) => Promise<Verdict>

/** S6: the caller, or the answer that asks for credentials. */
export async function authenticate(request: IncomingMessage, guard: Guard): Promise<{ caller: Caller } | Answer> {
  const credentials = header(request, 'authorization') ?? ''
  const [, token] = /^Bearer +(\S.*)$/i.exec(credentials) ?? []
  if (!token) return challenge('Bearer', 'no bearer token was sent')
  const verdict = await guard(token).catch((cause: unknown) => ({
    description: 'The token is malformed',
    reason: `${cause}`,
  }))
  if ('caller' in verdict) return verdict
  return challenge(`Bearer error="invalid_token", error_description="${verdict.description}"`, verdict.reason)
}

const challenge = (text: string, note: string): Answer => ({ ...empty(401, { 'www-authenticate': text }), note })
