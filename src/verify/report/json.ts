import type { Verification } from '../engine/run.ts'

/** Described by docs/verify-report.schema.json. */
export const json = (verification: Verification): string => `${JSON.stringify(verification, null, 2)}\n`
