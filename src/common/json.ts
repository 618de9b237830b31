import { attempt } from './attempt.ts'

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns undefined for a text that is not JSON. */
export const tryParse = (text: string): unknown => attempt(() => JSON.parse(text), undefined)
