/*
 * Started by child-process.ts. Reads one message per line; when its input ends, because the test process exited or was
 * killed, it ends the registered processes and removes the registered directories.
 */
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

export type Message =
  | { readonly started: number; readonly endSignal: NodeJS.Signals }
  | { readonly exited: number }
  | { readonly directory: string }

const shutdownTimeoutMs = 10_000

const endSignals = new Map<number, NodeJS.Signals>()
const directories = new Set<string>()

for await (const line of createInterface(process.stdin)) {
  const message: Message = JSON.parse(line)
  if ('started' in message) endSignals.set(message.started, message.endSignal)
  else if ('exited' in message) endSignals.delete(message.exited)
  else directories.add(message.directory)
}

for (const [pid, signal] of endSignals) send(pid, signal)
const deadline = performance.now() + shutdownTimeoutMs
while ([...endSignals.keys()].some((pid) => send(pid, 0)) && performance.now() < deadline) await sleep(20)
for (const pid of endSignals.keys()) send(pid, 'SIGKILL')
for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 5 })

/** Whether the process exists; signal 0 only checks that. */
function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
