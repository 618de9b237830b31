import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import type { Loaded } from './load.ts'

/** Whether `wrk` is installed. */
export const hasWrk = (() => {
  try {
    execFileSync('wrk', ['-v'], { stdio: 'ignore' })
    return true
  } catch (cause) {
    // `wrk -v` prints its version and ends with 1.
    return (cause as { status?: number | null }).status === 1
  }
})()

const milliseconds = { us: 0.001, ms: 1, s: 1_000 }

/** One request, over and over for a second, by `wrk`; how many it were is in the result. */
export async function loadWithWrk(url: string, connections: number, headers: readonly string[]): Promise<Loaded> {
  const flags = ['-t1', `-c${connections}`, '-d1s', '--latency', ...headers.flatMap((header) => ['-H', header]), url]
  const { stdout } = await promisify(execFile)('wrk', flags)
  const [, requests, seconds] = /(\d+) requests in ([\d.]+)s/.exec(stdout) ?? []
  const [, p99, unit = 'ms'] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  const wrong = Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0)
  return {
    seconds: Number(seconds),
    statuses: { 200: Number(requests) - wrong, ...(wrong > 0 && { 500: wrong }) },
    p99: Number(p99) * milliseconds[unit as keyof typeof milliseconds],
  }
}
