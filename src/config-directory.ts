import { link, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { attempt } from './common/attempt.ts'

/** The directory of this program under XDG_CONFIG_HOME, APPDATA (Windows) or ~/.config. */
export function configDirectory(env: NodeJS.ProcessEnv): string {
  const parent = [env.XDG_CONFIG_HOME, env.APPDATA].find((path) => path && isAbsolute(path))
  // homedir() throws if there is no home directory. Reads and writes in /nonexistent fail with ENOENT.
  return join(parent ?? join(attempt(homedir, '/nonexistent'), '.config'), 'todo-item-service')
}

/**
 * Returns the content of a file, and creates the file if it is missing or `isValid` rejects its content. Only the user
 * can read it. The complete file is linked into the directory, so that processes which start together agree on its
 * content. Without a directory, nothing is stored.
 */
export async function readOrCreate(
  directory: string | undefined,
  name: string,
  create: () => string | Promise<string>,
  isValid: (content: string) => boolean = () => true,
): Promise<string> {
  if (directory === undefined) return create()
  const file = join(directory, name)
  const existing = await readFile(file, 'utf8').catch(ignore('ENOENT'))
  if (existing !== undefined && isValid(existing)) return existing
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const temporaryDirectory = await mkdtemp(join(directory, '.tmp-'))
  try {
    const temporaryFile = join(temporaryDirectory, name)
    await writeFile(temporaryFile, await create(), { mode: 0o600 })
    const isUnchanged = (await readFile(file, 'utf8').catch(ignore('ENOENT'))) === existing
    if (existing !== undefined && isUnchanged) await rm(file, { force: true })
    await link(temporaryFile, file).catch(ignore('EEXIST'))
  } finally {
    await rm(temporaryDirectory, { recursive: true, force: true })
  }
  return readFile(file, 'utf8')
}

const ignore =
  (code: string) =>
  (error: NodeJS.ErrnoException): undefined => {
    if (error.code !== code) throw error
  }
