import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { flood, floods, type Statuses, tally } from '../test/support/flood.ts'
import { memoryOf } from '../test/support/process.ts'
import { start, thisService } from './contender.ts'

/** Floods, crowds and slow clients: what they cost the others, and the memory. */
const megabytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MB`
const print = (...cells: (string | number)[]) => process.stdout.write(`| ${cells.join(' | ')} |\n`)
const ratio = (value: number, quiet: number) => `${(value / quiet).toFixed(2)}×`

/** Four good clients, each with a request every millisecond or so: their p99 in milliseconds, and what went wrong. */
async function goodClients(port: number, milliseconds: number): Promise<{ p99: number; failures: number }> {
  const took: number[] = []
  let failures = 0
  const endsAt = performance.now() + milliseconds
  const one = () =>
    new Promise<void>((done) => {
      const socket = connect(port, '127.0.0.1')
      let asked = 0
      const ask = () => {
        if (performance.now() > endsAt) return void socket.destroy()
        asked = performance.now()
        socket.write('GET /weatherforecast HTTP/1.1\r\nHost: x\r\n\r\n')
      }
      socket.on('connect', ask)
      socket.on('data', (data) => {
        took.push(performance.now() - asked)
        if (!data.toString().startsWith('HTTP/1.1 200')) failures++
        setTimeout(ask, 1)
      })
      socket.on('error', () => failures++)
      socket.on('close', () => done())
    })
  await Promise.all([one(), one(), one(), one()])
  took.sort((a, b) => a - b)
  return { p99: took[Math.floor(took.length * 0.99)] ?? Number.NaN, failures }
}

/** The most memory that a process has while something goes on. */
async function mostMemory<T>(pid: number, during: () => Promise<T>): Promise<{ most: number; result: T }> {
  let most = memoryOf(pid)
  const timer = setInterval(() => {
    most = Math.max(most, memoryOf(pid))
  }, 10)
  const result = await during()
  clearInterval(timer)
  return { most, result }
}

/** Load comes from a process of its own: what this one measures must not wait for it. */
function besiege(port: number, kind: string) {
  const child = fork(fileURLToPath(import.meta.url), [kind, `${port}`])
  return {
    ready: once(child, 'message'),
    async stop(): Promise<unknown> {
      child.send('stop')
      const [told] = await once(child, 'message')
      child.kill('SIGKILL')
      return told
    },
  }
}

async function siege(kind: string, name: string): Promise<void> {
  const { port, pid, stop } = await start(thisService('a'))
  await goodClients(port, 4_000)
  const idle = memoryOf(pid as number)
  const quiet = await goodClients(port, 3_000)
  const attackers = besiege(port, kind)
  await attackers.ready
  const { most, result: during } = await mostMemory(pid as number, () => goodClients(port, 5_000))
  const told = JSON.stringify(await attackers.stop())
  const after = await goodClients(port, 1_000)
  const p99 = `${quiet.p99.toFixed(1)} → ${during.p99.toFixed(1)} ms (${ratio(during.p99, quiet.p99)})`
  print(name, megabytes(most - idle), p99, during.failures + after.failures, ratio(after.p99, quiet.p99), told)
  await stop()
}

async function main(): Promise<void> {
  print('what', 'memory over idle', 'p99 of good clients', 'their failures', 'p99 afterwards', 'answers to the others')
  print('---', '---', '---', '---', '---', '---')
  await siege('slow', '1,000 slow clients')
  await siege('crowd', '10,000 connections')
  for (const name of Object.keys(floods)) await siege(name, `200 clients: ${name}`)
}

/** Two hundred of each kind: in the head, in the body, without a word, between requests, and taking nothing. */
function slowClients(port: number) {
  const statuses: Statuses = {}
  const begin = (first: string, drop: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    tally(socket, statuses)
    if (first) socket.write(first)
    if (drop) setInterval(() => socket.write(drop), 1_000)
  }
  const post =
    'POST /api/todoitems HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{'
  for (let at = 0; at < 200; at++) {
    begin('GET / HTTP/1.1\r\nHost: x\r\nX: ', 'a')
    begin(post, ' ')
    begin('', '')
    begin('GET / HTTP/1.1\r\nHost: x\r\n\r\n', '')
    connect(port, '127.0.0.1').pause().write('GET /swagger/index.html HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(100))
  }
  return { statuses, stop: () => {} }
}

/** Ten thousand, each with one request. */
function crowd(port: number) {
  const statuses: Statuses = {}
  for (let at = 0; at < 10_000; at++)
    setTimeout(() => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      tally(socket, statuses)
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    }, at / 5)
  return { statuses, stop: () => {} }
}

async function attack(kind: string, port: number): Promise<void> {
  const flooding = floods[kind]
  const { statuses, stop } =
    kind === 'slow' ? slowClients(port) : kind === 'crowd' ? crowd(port) : flood(port, flooding as never, 200)
  await pause(kind === 'crowd' ? 3_000 : 1_000)
  process.send?.('ready')
  await once(process, 'message')
  stop()
  process.send?.(statuses)
}

const [kind, port] = process.argv.slice(2)
if (kind === undefined) await main()
else await attack(kind, Number(port))
