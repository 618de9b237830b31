/** A rule that the server may break, for a time and a reason. */
export interface Waiver {
  /** The id of a rule, with `*` as a wildcard. */
  readonly rule: string
  readonly reason: string
  /** The last day on which it applies: 2027-01-31. Default: for ever. */
  readonly until?: string
}

/** What became of a waiver in a run. */
export interface WaiverUse extends Waiver {
  readonly status: 'used' | 'unused' | 'expired'
}

const datePattern = /^\d{4}-\d\d-\d\d$/

/** Reads a file of waivers: a JSON array. Throws an Error whose message says what is wrong. */
export function parseWaivers(text: string): Waiver[] {
  let list: unknown
  try {
    list = JSON.parse(text)
  } catch {
    throw new Error('it is not JSON')
  }
  if (!Array.isArray(list)) throw new Error('it is not a JSON array')
  return list.map((entry: unknown, index) => {
    const place = `waiver ${index + 1}`
    if (typeof entry !== 'object' || entry === null) throw new Error(`${place} is not an object`)
    const { rule, reason, until, ...others } = entry as Record<string, unknown>
    const [other] = Object.keys(others)
    if (other !== undefined) throw new Error(`${place} has the unknown member ${JSON.stringify(other)}`)
    if (typeof rule !== 'string' || !/^[\w*-]+$/.test(rule)) throw new Error(`${place} has no rule, such as "A6"`)
    if (typeof reason !== 'string' || !reason.trim()) throw new Error(`${place} (${rule}) has no reason`)
    if (until === undefined) return { rule, reason }
    if (typeof until !== 'string' || !datePattern.test(until) || Number.isNaN(Date.parse(until)))
      throw new Error(`${place} (${rule}) has an until that is no date, such as "2027-01-31"`)
    return { rule, reason, until }
  })
}

/** Whether a pattern, such as `S*`, names the rule. */
export function matchesRule(pattern: string, rule: string): boolean {
  const escaped = pattern
    .trim()
    .replace(/[^\w*]/g, '\\$&')
    .replace(/\*+/g, '.*')
  return new RegExp(`^${escaped}$`, 'i').test(rule)
}
