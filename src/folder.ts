import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** The user's configuration folder for this program: XDG's, or APPDATA's on Windows. */
export function configFolder(env: NodeJS.ProcessEnv): string {
  const base = env.XDG_CONFIG_HOME || env.APPDATA || join(homedir(), '.config')
  return join(base, 'todo-item-service')
}

/**
 * What the file holds; `make` is asked only where there is none, or `isGood` refuses what is there.
 * The file is private to its user, and appears whole or not at all: processes that start at once agree on it.
 */
export async function kept(
  folder: string,
  name: string,
  make: () => string | Promise<string>,
  isGood: (content: string) => boolean = () => true,
): Promise<string> {
  const file = join(folder, name)
  const present = await readFile(file, 'utf8').catch(unlessMissing)
  if (present !== undefined && isGood(present)) return present
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const draft = `${file}.${process.pid}`
  await writeFile(draft, await make(), { mode: 0o600 })
  if (present === undefined) await link(draft, file).catch(unlessThere)
  else await rename(draft, file)
  await rm(draft, { force: true })
  return readFile(file, 'utf8')
}

function unlessMissing(cause: NodeJS.ErrnoException): undefined {
  if (cause.code !== 'ENOENT') throw cause
}

function unlessThere(cause: NodeJS.ErrnoException): void {
  if (cause.code !== 'EEXIST') throw cause
}
