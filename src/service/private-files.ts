import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { attempt } from '../common/attempt.ts'
import { quote } from '../common/escape.ts'
import type { Config } from '../config/config.ts'
import { devCertificateFile } from '../server/dev-certificate.ts'
import { devKeyFile } from '../tokens/dev-key.ts'

/** Returns a line for each file of the service that other users can read or write: it says what to do. */
export function findOpenFiles(
  { dataFile, mode, https }: Pick<Config, 'dataFile' | 'mode' | 'https'>,
  directory: string | undefined,
): string[] {
  // On Windows, the mode of a file says nothing about other users.
  if (process.platform === 'win32') return []
  return [
    // SQLite creates its other files with the mode of the data file, so the command names them, too.
    ...(dataFile === undefined ? [] : describe(resolve(dataFile), '*')),
    ...(directory === undefined || mode !== 'development' ? [] : describe(join(directory, devKeyFile))),
    ...(directory === undefined || !https || https.credentials ? [] : describe(join(directory, devCertificateFile))),
  ]
}

/** Considers the mode of the file alone, not that of its directory. */
function describe(file: string, andBeside = ''): string[] {
  const mode = attempt(() => statSync(file).mode, 0)
  const access = [...(mode & 0o044 ? ['read'] : []), ...(mode & 0o022 ? ['write'] : [])].join(' and ')
  return access ? [`Other users may ${access} ${file}. To change that: chmod 600 ${quote(file)}${andBeside}`] : []
}
