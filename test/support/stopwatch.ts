import assert from 'node:assert/strict'

/** About what an idle core of 2.4 GHz takes for the loop in slowdown(). */
const idleLoopMs = 100

/** How many times slower this machine computes now than an idle one; at least 1. */
function slowdown(): number {
  const startedAt = performance.now()
  let value = 1
  for (let i = 0; i < 60_000_000; i++) value = (Math.imul(value, 31) + i) | 0
  assert.ok(Number.isInteger(value))
  return Math.max(1, (performance.now() - startedAt) / idleLoopMs)
}

/** Checks time limits. They apply as they are on an idle machine and are multiplied by the slowdown of a busy one. */
export class Stopwatch {
  readonly #startedAt = performance.now()
  readonly #slowdownAtStart = slowdown()

  assertWithin(limitMs: number, elapsedMs = performance.now() - this.#startedAt): void {
    if (elapsedMs < limitMs) return
    const factor = Math.max(this.#slowdownAtStart, slowdown())
    assert.ok(elapsedMs < limitMs * factor, `${elapsedMs} ms, limit ${limitMs} ms × ${factor} (slowdown)`)
  }
}
