import type { Verification } from '../run.ts'
import { toCurl } from './curl.ts'

/** Described by docs/verify-report.schema.json. */
export function json(verification: Verification): string {
  const { outcomes, ...rest } = verification
  const reported = outcomes.map(({ failure, ...outcome }) => {
    if (!failure) return outcome
    const { expected, got, sent } = failure
    return { ...outcome, failure: { expected, got, ...(sent && { request: toCurl(verification.url, sent) }) } }
  })
  return `${JSON.stringify({ ...rest, outcomes: reported }, null, 2)}\n`
}
