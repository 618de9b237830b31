/** `import { verify } from 'todo-item-service/verify'` */
export type { Check } from './check.ts'
export { type Rule, rules } from './rules.ts'
export {
  CannotVerify,
  checks,
  type Failure,
  type Outcome,
  type ProfileName,
  type Verification,
  type VerifyOptions,
  verify,
} from './run.ts'
