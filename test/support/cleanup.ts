import type { TestContext } from 'node:test'

/** What registers cleanup: a test's context, or `sharedService` for a suite. */
export type Cleanup = Pick<TestContext, 'after'>

const cleanups = new WeakMap<Cleanup, (() => unknown)[]>()

/** Calls back after the test, the last one first, whichever fail: clients disconnect before their server stops. */
export function cleanUp(t: Cleanup, callback: () => unknown): void {
  const existing = cleanups.get(t)
  if (existing) {
    existing.push(callback)
    return
  }
  const callbacks = [callback]
  cleanups.set(t, callbacks)
  t.after(async () => {
    const errors: unknown[] = []
    for (let next = callbacks.pop(); next; next = callbacks.pop())
      try {
        await next()
      } catch (error) {
        errors.push(error)
      }
    if (errors.length > 0) throw errors[0]
  })
}
