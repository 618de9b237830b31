import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { spawnTied } from './child-process.ts'

/** Starts a child that never exits and prints its PID. */
const parentScript = (directory: string) => `
  const { spawnTied, removeAtExit } = await import(${JSON.stringify(new URL('child-process.js', import.meta.url))})
  removeAtExit(${JSON.stringify(directory)})
  const child = spawnTied(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  console.log(child.pid)`

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('a tied child process and its directory are gone after the parent is killed with SIGKILL', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'todo-service-'))
  const args = ['--input-type=module', '-e', parentScript(directory)]
  const parent = spawnTied(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const pid = await new Promise<number>((resolve) => parent.stdout?.once('data', (data) => resolve(Number(data))))
  assert.ok(isRunning(pid))
  parent.kill('SIGKILL')
  while (isRunning(pid) || existsSync(directory)) await sleep(20)
})
