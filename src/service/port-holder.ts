import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { promisify } from 'node:util'

interface PortHolder {
  readonly program: string
  readonly pid: string
}

/** Returns the program that listens on a port of this machine; undefined if the system does not tell in time. */
export async function findPortHolder(
  port: number,
  { platform = process.platform as string, env = process.env, timeoutMs = 1_000 } = {},
): Promise<PortHolder | undefined> {
  try {
    if (platform === 'linux') return findInProc(port, performance.now() + timeoutMs)
    if (platform === 'win32') return undefined
    // `+c 0` prints the whole name of the program.
    const args = ['+c', '0', '-nP', `-iTCP:${port}`, '-sTCP:LISTEN']
    const { stdout } = await promisify(execFile)('lsof', args, { timeout: timeoutMs, env })
    const [, program, pid] = /^(?!COMMAND)(\S+)\s+(\d+)/m.exec(stdout) ?? []
    return program && pid ? { program: program.replaceAll('\\x20', ' '), pid } : undefined
  } catch {
    return undefined
  }
}

/** Finds the process that has the listening socket open. Only root can look into the processes of other users. */
function findInProc(port: number, endsAt: number): PortHolder | undefined {
  // Reading fails if a process has ended meanwhile, and /proc/net/tcp6 is missing if IPv6 is disabled.
  const attempt = <T>(read: () => T, otherwise: T) => {
    try {
      return read()
    } catch {
      return otherwise
    }
  }
  const sockets = ['tcp', 'tcp6'].flatMap((file) =>
    attempt(() => readFileSync(`/proc/net/${file}`, 'utf8'), '')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local = '', , state]) => state === '0A' && Number.parseInt(local.split(':')[1] ?? '', 16) === port)
      .map((fields) => `socket:[${fields[9]}]`),
  )
  const holds = (pid: string) =>
    attempt(() => readdirSync(`/proc/${pid}/fd`), []).some((fd) =>
      sockets.includes(attempt(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')),
    )
  const pid = readdirSync('/proc').find((name) => /^\d+$/.test(name) && performance.now() < endsAt && holds(name))
  return pid === undefined ? undefined : { program: basename(readlinkSync(`/proc/${pid}/exe`)), pid }
}
