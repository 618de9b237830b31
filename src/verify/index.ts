/** `import { verify } from 'todo-item-service/verify'` */

import { profileA } from './contracts/profile-a.ts'
import { profileB } from './contracts/profile-b.ts'
import { CannotVerify } from './engine/connect.ts'
import type { Contract } from './engine/contract.ts'
import { type RunOptions, run, type Verification } from './engine/run.ts'

export { type Basis, type Rule, rules } from '../common/rules.ts'
export {
  asSecondCaller,
  type Client,
  NoResponseError,
  PiecewiseBody,
  type Request,
  type Response,
} from './engine/client.ts'
export * from './engine/contract.ts'
export * from './engine/expect.ts'
export type { Random } from './engine/random.ts'
export type { Failure, Outcome, Verification } from './engine/run.ts'
export { uniqueText } from './engine/state.ts'
export { parseWaivers, type Waiver, type WaiverUse } from './engine/waivers.ts'
export { CannotVerify, profileA, profileB }

export type ProfileName = 'a' | 'b'

/** The two contracts of this package. */
export const profiles: Readonly<Record<ProfileName, Contract>> = { a: profileA, b: profileB }

export interface VerifyOptions extends Omit<RunOptions, 'contract'> {
  /** One of the contracts of this package. */
  readonly profile?: ProfileName | undefined
  /** Another contract, instead of `profile`. */
  readonly contract?: Contract | undefined
}

/** Checks a running server against a contract. Changes only items that it creates, and deletes them. */
export async function verify({ profile, contract, ...options }: VerifyOptions): Promise<Verification> {
  const chosen = contract ?? (profile && Object.hasOwn(profiles, profile) ? profiles[profile] : undefined)
  if (!chosen) throw new CannotVerify(`Unknown profile ${profile}: use a or b, or pass a contract.`)
  return run({ ...options, contract: chosen })
}
