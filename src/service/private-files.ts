import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Config } from '../config/config.ts'
import { devCertificateFile } from '../server/dev-certificate.ts'
import { devKeyFile } from '../tokens/dev-key.ts'
import { quote } from './shell.ts'

/** A line for each file of the service that other users can read or write, with what to do. */
export function findOpenFiles(
  { dataFile, mode, https }: Pick<Config, 'dataFile' | 'mode' | 'https'>,
  directory: string | undefined,
): string[] {
  // Modes say nothing about other users there.
  if (process.platform === 'win32') return []
  return [
    // SQLite gives the files beside it the same mode.
    ...(dataFile === undefined ? [] : describe(resolve(dataFile), '*')),
    ...(directory === undefined || mode !== 'development' ? [] : describe(join(directory, devKeyFile))),
    ...(directory === undefined || !https || https.credentials ? [] : describe(join(directory, devCertificateFile))),
  ]
}

/** Looks at the mode of the file alone, not at that of its folder. */
function describe(file: string, andBeside = ''): string[] {
  const mode = modeOf(file)
  const access = [...(mode & 0o044 ? ['read'] : []), ...(mode & 0o022 ? ['write'] : [])].join(' and ')
  return access ? [`Other users may ${access} ${file}. To change that: chmod 600 ${quote(file)}${andBeside}`] : []
}

/** 0 where there is no such file. */
function modeOf(file: string): number {
  try {
    return statSync(file).mode
  } catch {
    return 0
  }
}
