import { monitorEventLoopDelay } from 'node:perf_hooks'

/** How late the process may be, in milliseconds, before there is too much to do, and how often that is asked. */
const mostLate = 1_000
const beat = 250

let isBehind: boolean | undefined

/** From now on it is known whether the process keeps up with what it has to do. */
export function lateness(): () => boolean {
  if (isBehind === undefined) watch()
  return () => isBehind ?? false
}

function watch(): void {
  isBehind = false
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  let before = 0
  // The sum of all delays is the time that has passed. `reset` would lose the one that is under way.
  setInterval(() => {
    const passed = delay.count === 0 ? 0 : (delay.mean * delay.count) / 1e6
    isBehind = passed - before - beat > mostLate
    before = passed
  }, beat).unref()
}
