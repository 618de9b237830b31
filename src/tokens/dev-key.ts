import { createSecretKey, type KeyObject } from 'node:crypto'
import { readOrCreate } from '../config-directory.ts'
import { hmacKey } from './keys.ts'
import type { TrustedIssuer } from './verify.ts'

/** The issuer and the audience of development tokens, which a service in development mode accepts. */
export const devTokenDefaults = { issuer: 'todo-service', audiences: ['todo-item-service'] }

/** The name of the file of the development key in the configuration directory. */
export const devKeyFile = 'development-key'

/**
 * Returns the key that signs development tokens. It is created on first use and then shared by all commands of this
 * user. Without a directory, it is a new key each time.
 */
export async function readOrCreateDevKey(directory: string | undefined, random: (size: number) => Buffer) {
  const create = () => random(32).toString('base64')
  const isValid = (base64: string) => Buffer.from(base64, 'base64').length === 32
  const stored = await readOrCreate(directory, devKeyFile, create, isValid).catch((error: Error) => error)
  const isStored = typeof stored === 'string'
  return {
    key: createSecretKey(Buffer.from(isStored ? stored : create(), 'base64')),
    /**
     * Why the key could not be stored, so that no other process has it; without a full stop. After the first comma, the
     * message of a file system error has the system call and the path.
     */
    storeError: isStored
      ? undefined
      : `Cannot store the development key in ${directory} (${stored.message.split(',', 1)})`,
  }
}

/** The default is no tolerance: the token was signed by the same clock, and a test may wait until it expires. */
export function devTokenIssuer(key: KeyObject, clockToleranceSeconds = 0): TrustedIssuer {
  const { issuer, audiences } = devTokenDefaults
  const keys = [hmacKey(key)]
  return { keyName: 'development key', issuers: [issuer], audiences, clockToleranceSeconds, keys: async () => keys }
}
