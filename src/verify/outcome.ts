import type { Check } from './check.ts'
import { Broken, outline } from './expect.ts'
import { type Basis, rules } from './rules.ts'
import { NoAnswer, type Received, type Sent, type Service } from './service.ts'

export interface Outcome {
  readonly rule: string
  readonly sentence: string
  readonly basis: Basis
  readonly name: string
  /** A deviation is a choice that does not hold: a note, or with `strict` a failure. */
  readonly status: 'passed' | 'failed' | 'deviates' | 'skipped'
  /** Why it was skipped. */
  readonly reason?: string
  readonly failure?: Failure
  readonly milliseconds: number
}

export interface Failure {
  readonly expected: string
  readonly got: string
  readonly sent?: Sent
  readonly received?: Pick<Received, 'status' | 'headers' | 'text'>
}

const describe = ({ rule, basis, name }: Check) => {
  const sentence = rules.find(({ id }) => id === rule)?.sentence ?? ''
  return { rule, sentence, basis, name }
}

export const skip = (check: Check, reason: string): Outcome => ({
  ...describe(check),
  status: 'skipped',
  reason,
  milliseconds: 0,
})

export async function attempt(
  check: Check,
  service: Service,
  strict: boolean,
  last: () => Received | undefined,
): Promise<Outcome> {
  const startedAt = performance.now()
  const cause: unknown = await check.run(service).then(
    () => undefined,
    (thrown: unknown) => thrown ?? new Error('nothing'),
  )
  const milliseconds = Math.round(performance.now() - startedAt)
  if (!cause) return { ...describe(check), status: 'passed', milliseconds }
  const failure = discreet(failureOf(cause, last()), service.token)
  // A server that does not answer keeps no rule, chosen or specified.
  const fails = check.basis === 'spec' || strict || cause instanceof NoAnswer
  return { ...describe(check), status: fails ? 'failed' : 'deviates', failure, milliseconds }
}

/** Anything else that a check throws is an answer that it could not make sense of. */
function failureOf(cause: unknown, last: Received | undefined): Failure {
  if (cause instanceof NoAnswer) return { expected: 'an answer', got: cause.message, sent: cause.sent }
  const received = cause instanceof Broken ? (cause.received ?? last) : last
  const expected = cause instanceof Broken ? cause.expected : 'an answer of the shape that the rule states'
  const excerpt = received && { ...received, text: received.text.slice(0, 1000) }
  return {
    expected: expected.slice(0, 500),
    got: received ? outline(received) : String(cause),
    ...(excerpt && { sent: excerpt.sent, received: excerpt }),
  }
}

/** The token at hand is nobody else's business. */
function discreet(failure: Failure, token: string | undefined): Failure {
  if (!token) return failure
  const hidden = (text: string) => text.replaceAll(token, '$TOKEN')
  const { sent } = failure
  const headers = Object.entries(sent?.headers ?? {}).map(([name, value]) => [
    name,
    typeof value === 'string' ? hidden(value) : value?.map(hidden),
  ])
  return {
    ...failure,
    expected: hidden(failure.expected),
    got: hidden(failure.got),
    ...(sent && { sent: { ...sent, headers: Object.fromEntries(headers) } }),
  }
}
