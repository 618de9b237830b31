import type { Check } from './check.ts'
import { bodyChecks } from './everywhere/bodies.ts'
import { pathChecks } from './everywhere/paths.ts'
import type { Subject } from './everywhere/subject.ts'

/** The rules that hold everywhere, tried on the items of a profile. */
export const everywhereChecks = (subject: Subject): Check[] => [...pathChecks(subject), ...bodyChecks(subject)]
