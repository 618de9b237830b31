import type { Verification } from '../verify.ts'
import { curlOf } from './curl.ts'

/** For programs: docs/verify-report.schema.json describes it. */
export function json(verification: Verification): string {
  const { outcomes, ...rest } = verification
  const written = outcomes.map(({ failure, ...outcome }) => ({
    ...outcome,
    ...(failure && {
      failure: {
        expected: failure.expected,
        got: failure.got,
        ...(failure.sent && { request: curlOf(verification.url, failure.sent) }),
      },
    }),
  }))
  return `${JSON.stringify({ ...rest, outcomes: written }, null, 2)}\n`
}
