import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Message } from './watchdog.ts'

let watchdog: ChildProcess | undefined

/** The watchdog notices the end of this process, even by SIGKILL, because the kernel then closes the pipe to it. */
function notifyWatchdog(message: Message): void {
  if (!watchdog) {
    const script = fileURLToPath(new URL('watchdog.js', import.meta.url))
    // Detached: a signal to the process group of the tests must not end the watchdog first.
    watchdog = spawn(process.execPath, [script], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
      windowsHide: true,
    })
    watchdog.unref()
  }
  watchdog.stdin?.write(`${JSON.stringify(message)}\n`)
}

interface TiedOptions extends SpawnOptions {
  /** Sent when this process ends before the child. */
  readonly endSignal?: NodeJS.Signals
}

/** Like spawn, but the child does not outlive this process, however it ends. */
export function spawnTied(
  command: string,
  args: readonly string[],
  { endSignal = 'SIGKILL', ...options }: TiedOptions = {},
): ChildProcess {
  const child = spawn(command, args, options)
  const { pid } = child
  if (pid !== undefined) {
    notifyWatchdog({ started: pid, endSignal })
    child.once('exit', () => notifyWatchdog({ exited: pid }))
  }
  return child
}

/** Removes the directory after this process and its tied children have ended. */
export const removeAtExit = (directory: string) => notifyWatchdog({ directory })
