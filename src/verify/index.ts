import type { Check } from './check.ts'
import { profileAChecks } from './profile-a.ts'
import { profileBChecks } from './profile-b.ts'

/** Every check of the contract, by profile. */
export const checks: Readonly<Record<'a' | 'b', readonly Check[]>> = { a: profileAChecks, b: profileBChecks }
