import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Service, serve } from './cli.ts'
import { temporaryFolder } from './folder.ts'

export const production = ['--mode', 'production', '--workers', '2', '--log-level', 'info']

/** Two workers on a data file, or on a database. */
export async function startWorkers(t: TestContext, ...args: string[]): Promise<Service> {
  const isChosen = args.includes('--data') || args.includes('--database-url')
  const store = isChosen ? [] : ['--data', join(temporaryFolder(t), 'todo.db')]
  return serve(t, [...production, ...store, ...args])
}

/** Sends a request on a connection of its own: each goes to another worker. */
export const send = async (url: string, path: string, init: RequestInit = {}) => {
  const headers = { connection: 'close', 'content-type': 'application/json' }
  const response = await fetch(`${url}${path}`, { ...init, headers })
  return { status: response.status, text: await response.text() }
}

/** The numbers of the workers that have answered requests, by the log. */
export const workersIn = ({ running }: Service) =>
  new Set([...running.stdout.matchAll(/"message":"request","worker":(\d+)/g)].map(([, worker]) => Number(worker)))

/** The process ids of the workers, which the operating system lists as children. */
export const workerPids = ({ running: { process } }: Service) =>
  (readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').match(/\d+/g) ?? []).map(Number)

/** Waits until both workers have answered requests. */
export async function untilBothServe(service: Service): Promise<void> {
  while (workersIn(service).size < 2) await send(service.url, '/health/ready')
}

/** For tests that find the workers. */
export const skipWithoutProc = process.platform !== 'linux' && 'finds workers in /proc'
