const maxShrinkMs = 4_000

/**
 * The outcome of the fewest steps that still fail, found by leaving out ever smaller parts of them (delta debugging).
 * `attempt` returns undefined where the steps do not fail in the same way.
 */
export async function shrink<Step, Outcome>(
  steps: readonly Step[],
  outcome: Outcome,
  attempt: (steps: readonly Step[]) => Promise<Outcome | undefined>,
): Promise<Outcome> {
  const startedAt = performance.now()
  let [fewest, last] = [steps, outcome]
  for (let size = Math.ceil(steps.length / 2); ; size = Math.ceil(size / 2)) {
    let isShorter = true
    while (isShorter) {
      isShorter = false
      for (let end = fewest.length; end > 0; end -= size) {
        if (performance.now() - startedAt > maxShrinkMs) return last
        const fewer = [...fewest.slice(0, Math.max(0, end - size)), ...fewest.slice(end)]
        const again = fewer.length < fewest.length ? await attempt(fewer) : undefined
        if (!again) continue
        ;[fewest, last, isShorter] = [fewer, again, true]
      }
    }
    if (size <= 1) return last
  }
}
