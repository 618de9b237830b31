import { execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Profile, requests, sendRequests, toArazzo } from './requests.ts'

/** A tool that a team would use instead, with the document of this service and ordinary requests. */
export interface Rival {
  readonly name: string
  /** What npm installs into a temporary folder. */
  readonly packageName?: string
  readonly version: string
  /** How it was set up, for the documentation. */
  readonly setup: string
  /** What it complains about. */
  readonly run: (target: Target) => Promise<string[]>
}

interface Target {
  readonly folder: string
  readonly profile: Profile
  readonly url: string
  readonly token: string
}

const runTimeoutMs = 60_000

export const rivals: readonly Rival[] = [
  {
    name: 'smoke test',
    version: '',
    setup:
      'fifteen requests with `fetch`, which create, read, list, change and delete an item; checks status codes and what was sent',
    run: ({ profile, url, token }) => sendRequests(profile, url, token),
  },
  {
    name: 'Prism',
    packageName: '@stoplight/prism-cli',
    version: '5.16.0',
    setup: 'as a validating proxy between the smoke test and the server; counts what Prism reports',
    run: runPrism,
  },
  {
    name: 'Dredd',
    packageName: 'dredd',
    version: '14.1.0',
    setup:
      'an example id in the document, and hooks with the token, ids that exist and requests for the documented errors',
    run: runDredd,
  },
  {
    name: 'Redocly',
    packageName: '@redocly/cli',
    version: '2.77.0',
    setup: '`respect` with the smoke test as an Arazzo description, and `lint` of the document that the server serves',
    run: runRedocly,
  },
]

/** Returns what npm said if that fails. */
export async function install({ packageName, version }: Rival, folder: string): Promise<string | undefined> {
  if (!packageName) return undefined
  const flags = ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
  const { code, output } = await run('npm', [...flags, '--prefix', folder, `${packageName}@${version}`], 600_000)
  return code === 0 ? undefined : output.trim().split('\n').slice(0, 3).join(' ')
}

/** Writes what the tools read: the documents, and what is made of the requests. */
export function writeFiles(folder: string, documents: URL): void {
  const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value))
  writeFileSync(join(folder, 'hooks.cjs'), dreddHooks)
  write('package.json', { private: true })
  for (const profile of ['a', 'b'] as const) {
    const document = JSON.parse(readFileSync(new URL(`${profile}.json`, documents), 'utf8'))
    write(`${profile}.json`, document)
    write(`${profile}.arazzo.json`, toArazzo(profile))
    write(`${profile}.steps.json`, requests[profile])
    for (const operations of Object.values<Record<string, { parameters?: Record<string, unknown>[] }>>(document.paths))
      for (const { parameters = [] } of Object.values(operations))
        for (const parameter of parameters)
          if (parameter.in === 'path') parameter.example = profile === 'a' ? 1 : 'smoke-1'
    write(`${profile}.dredd.json`, document)
  }
}

/** Transactions that the smoke test has no request for are skipped. */
const dreddHooks = `
const hooks = require('hooks')
const { readFileSync } = require('node:fs')
const { PROFILE, TOKEN } = process.env
const steps = JSON.parse(readFileSync(__dirname + '/' + PROFILE + '.steps.json', 'utf8'))
let created = 'smoke-1'

hooks.beforeEach((transaction) => {
  const { method } = transaction.request
  const path = transaction.origin.resourceName
  const status = Number(transaction.expected.statusCode)
  const step = steps.find((one) => one.method === method && one.path === path && one.status === status)
  if (!step) {
    transaction.skip = true
    return
  }
  const id = PROFILE === 'a' && status === 404 ? 987654321 : created
  transaction.fullPath = path.replace('{id}', id)
  delete transaction.request.headers['If-Match']
  delete transaction.request.headers['If-None-Match']
  if (!step.isAnonymous) transaction.request.headers.Authorization = 'Bearer ' + TOKEN
  if (step.body) {
    transaction.request.headers['Content-Type'] = 'application/json'
    transaction.request.body = JSON.stringify(step.body.id === '{id}' ? { ...step.body, id } : step.body)
  }
})

hooks.beforeEachValidation(({ expected, real }) => {
  const mediaType = (headers) => (headers['content-type'] || '').split(';')[0].toLowerCase()
  const headers = Object.fromEntries(Object.entries(expected.headers).map(([name, value]) => [name.toLowerCase(), value]))
  // Parameters such as charset, headers that are optional, and texts that are not fixed are no difference.
  if (mediaType(headers) === mediaType(real.headers)) delete headers['content-type']
  delete headers.etag
  expected.headers = headers
  if (expected.statusCode === '200' && mediaType(real.headers) === 'text/plain') delete expected.body
  // Dredd takes the first of several examples.
  if (expected.statusCode === '400' && PROFILE === 'a') delete expected.body
})

hooks.afterEach((transaction) => {
  if (PROFILE === 'a' && transaction.request.method === 'POST' && transaction.real) {
    try {
      created = JSON.parse(transaction.real.body).id
    } catch {}
  }
})
`

async function runDredd({ folder, profile, url, token }: Target): Promise<string[]> {
  const { code, output } = await runTool(
    folder,
    'dredd',
    [join(folder, `${profile}.dredd.json`), url, `--hookfiles=${join(folder, 'hooks.cjs')}`, '--loglevel=error'],
    { PROFILE: profile, TOKEN: token },
  )
  if (code === 0) return []
  const failures = output.split('\n').filter((line) => /fail.*?: (?:body|headers|statusCode)/.test(line))
  return failures.length > 0 ? failures : [output.trim().slice(-300)]
}

async function runRedocly({ folder, profile, url, token }: Target): Promise<string[]> {
  const environment = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const args = [
    'respect',
    join(folder, `${profile}.arazzo.json`),
    '--server',
    `todo=${url}`,
    '--input',
    `token=${token}`,
  ]
  const { code, output } = await runTool(folder, 'redocly', args, environment)
  const problems =
    code === 0 ? [] : [output.split('\n').find((line) => line.includes('✗')) ?? output.trim().slice(-300)]

  const response = await fetch(`${url}/swagger/v1/swagger.json`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(10_000),
  }).catch(() => undefined)
  const document = await response?.text().catch(() => undefined)
  if (response?.status !== 200 || document === undefined) return [...problems, 'no document']
  const file = join(folder, `${randomUUID()}.json`)
  writeFileSync(file, document)
  const lint = await runTool(folder, 'redocly', ['lint', file, '--extends=spec', '--format=stylish'], environment)
  rmSync(file)
  return lint.code === 0 ? problems : [...problems, `lint: ${lint.output.trim().slice(-300)}`]
}

async function runPrism({ folder, profile, url, token }: Target): Promise<string[]> {
  const args = [join(folder, 'node_modules/.bin/prism'), 'proxy', join(folder, `${profile}.json`), url, '--port', '0']
  const prism = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = new Promise<void>((resolve) => prism.once('exit', () => resolve()))
  try {
    const proxy = await new Promise<string>((resolve, reject) => {
      createInterface(prism.stdout).on('line', (line) => {
        const [, address] = /listening on (\S+)/.exec(line) ?? []
        if (address) resolve(address)
      })
      void ended.then(() => reject(new Error('Prism does not start')))
    })
    const problems: string[] = []
    await sendRequests(profile, proxy, token, ({ id }, response, body) => {
      const violations: { location: string[]; message: string }[] = JSON.parse(
        response.headers.get('sl-violations') ?? '[]',
      )
      for (const { location, message } of violations)
        if (location[0] === 'response') problems.push(`${id}: ${location.join('.')} ${message}`)
      if (body.includes('stoplight.io/prism/errors')) problems.push(`${id}: ${body}`)
    })
    return problems
  } finally {
    prism.kill()
    await ended
  }
}

const runTool = (folder: string, tool: string, args: readonly string[], environment: Record<string, string>) =>
  run(process.execPath, [join(folder, 'node_modules/.bin', tool), ...args], runTimeoutMs, { cwd: folder, environment })

function run(
  program: string,
  args: readonly string[],
  timeout: number,
  { cwd, environment = {} }: { cwd?: string; environment?: Record<string, string> } = {},
): Promise<{ code: number; output: string }> {
  const env = { ...process.env, ...environment, NO_COLOR: '1' }
  return new Promise((resolve) => {
    execFile(
      program,
      args,
      { timeout, killSignal: 'SIGKILL', maxBuffer: 2 ** 26, env, ...(cwd !== undefined && { cwd }) },
      (error, stdout, stderr) => {
        const ending = error?.killed ? `no result after ${timeout / 1000} s` : ''
        resolve({ code: error ? 1 : 0, output: `${stdout}${stderr}${ending}` })
      },
    )
  })
}
