import { link, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/** The user's configuration folder for this program: XDG's, or APPDATA's on Windows. */
export function configFolder(env: NodeJS.ProcessEnv): string {
  const given = [env.XDG_CONFIG_HOME, env.APPDATA].find((path) => path && isAbsolute(path))
  return join(given ?? join(homeFolder(), '.config'), 'todo-item-service')
}

/** A user may have none; then there is nothing to keep files in. */
function homeFolder(): string {
  try {
    return homedir()
  } catch {
    return '/nonexistent'
  }
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
  const drafts = await mkdtemp(join(folder, '.draft-'))
  try {
    const draft = join(drafts, name)
    await writeFile(draft, await make(), { mode: 0o600 })
    const unchanged = (await readFile(file, 'utf8').catch(unlessMissing)) === present
    if (present !== undefined && unchanged) await rm(file, { force: true })
    await link(draft, file).catch(unlessThere)
  } finally {
    await rm(drafts, { recursive: true, force: true })
  }
  return readFile(file, 'utf8')
}

function unlessMissing(cause: NodeJS.ErrnoException): undefined {
  if (cause.code !== 'ENOENT') throw cause
}

function unlessThere(cause: NodeJS.ErrnoException): void {
  if (cause.code !== 'EEXIST') throw cause
}
