import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../test/support/port.ts'
import { type Finding, toFinding } from './report.ts'
import { cpuTimeOf, thisService } from './server-process.ts'

const clients = 16

/** The workers of a process, which the operating system lists as its children. */
const workersOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

async function startWorkers(count: number, databaseUrl: string) {
  const port = await freePort()
  const flags = ['--database-url', databaseUrl, '--workers', `${count}`]
  const args = (thisService('a', ...flags).args ?? []).map((arg) => arg.replace('PORT', `${port}`))
  // Not pinned: each worker may use a core of its own.
  const [command, ...commandArgs] = ['taskset', '-c', '0-63', process.execPath, ...args]
  const child = spawn(`${command}`, commandArgs, { stdio: ['ignore', 'ignore', 'inherit'] })
  const url = `http://127.0.0.1:${port}/api/todoitems`
  while (!(await fetch(url).catch(() => undefined))) await sleep(20)
  const pid = child.pid as number
  while (workersOf(pid).length < (count === 1 ? 0 : count)) await sleep(20)
  return {
    url,
    pid,
    cpuMicroseconds: () => [pid, ...workersOf(pid)].reduce((sum, one) => sum + cpuTimeOf(one), 0),
    stop: () => new Promise((ended) => child.once('exit', ended).kill('SIGTERM')),
  }
}

/** GETs one item from all clients; a request without response is a failure. */
async function load(
  url: string,
  durationMs: number,
  keepAlive = true,
): Promise<{ requests: number; failures: number }> {
  const agent = new Agent({ keepAlive, maxSockets: clients })
  const endsAt = performance.now() + durationMs
  let requests = 0
  let failures = 0
  const get = () =>
    new Promise<void>((done) => {
      const outgoing = httpRequest(url, { agent }, (response) => {
        if (response.statusCode !== 200) failures++
        response.resume().once('end', done)
      })
      outgoing.once('error', () => {
        failures++
        done()
      })
      outgoing.end()
    })
  const run = async () => {
    for (; performance.now() < endsAt; requests++) await get()
  }
  await Promise.all(Array.from({ length: clients }, run))
  agent.destroy()
  return { requests, failures }
}

/** Two workers compared with one process, and their failures while one of them gets SIGTERM each second. */
export async function measureWorkers(databaseUrl: string, windows: number, windowMs: number): Promise<Finding[]> {
  const one = await startWorkers(1, databaseUrl)
  const two = await startWorkers(2, databaseUrl)
  try {
    const created = await fetch(one.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"name":"walk the dog","isComplete":false}',
    })
    const { id } = (await created.json()) as { id: number }
    const rates: [number[], number[]] = [[], []]
    const costs: [number[], number[]] = [[], []]
    const connectionCosts: [number[], number[]] = [[], []]
    for (let window = -1; window < windows; window++)
      for (const [at, service] of [two, one].entries())
        for (const keepAlive of [true, false]) {
          const before = service.cpuMicroseconds()
          const { requests, failures } = await load(`${service.url}/${id}`, windowMs, keepAlive)
          if (failures > 0) throw new Error(`${failures} of ${requests} requests failed.`)
          if (window < 0) continue
          const cost = (service.cpuMicroseconds() - before) / requests
          if (keepAlive) {
            rates[at]?.push((1000 * requests) / windowMs)
            costs[at]?.push(cost)
          } else connectionCosts[at]?.push(cost)
        }
    const killing = setInterval(() => process.kill(workersOf(two.pid)[0] as number, 'SIGTERM'), 1_000)
    const { requests, failures } = await load(`${two.url}/${id}`, 10 * windowMs)
    clearInterval(killing)
    process.stderr.write(`${failures} of ${requests} requests failed while a worker was stopped each second.\n`)
    return [
      toFinding('PostgreSQL, two workers: GET item', 'one process', rates[0], rates[1], 'req/s'),
      toFinding('PostgreSQL, two workers: CPU time of a GET', 'one process', costs[0], costs[1], 'µs'),
      toFinding(
        'PostgreSQL, two workers: CPU time of a connection with one GET',
        'one process',
        connectionCosts[0],
        connectionCosts[1],
        'µs',
      ),
    ]
  } finally {
    await Promise.all([one.stop(), two.stop()])
  }
}
