/** `import { verify } from 'todo-item-service/verify'` */
export type { Check } from './check.ts'
export type { Failure, Outcome } from './outcome.ts'
export { type Rule, rules } from './rules.ts'
export {
  CannotVerify,
  checks,
  type ProfileName,
  type Verification,
  type VerifyOptions,
  verify,
} from './verify.ts'
