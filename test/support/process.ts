import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** Resident memory of a process, in bytes. */
export function memoryOf(pid: number): number {
  const kilobytes =
    process.platform === 'linux'
      ? /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      : execFileSync('ps', ['-o', 'rss=', '-p', `${pid}`], { encoding: 'utf8' })
  return Number(kilobytes) * 1024
}

/** Open file descriptors of a process; 0 on platforms without /proc. */
export const descriptorsOf = (pid: number) => (process.platform === 'linux' ? readdirSync(`/proc/${pid}/fd`).length : 0)
