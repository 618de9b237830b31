import { createSecretKey, type KeyObject } from 'node:crypto'
import { readOrCreate } from '../config-directory.ts'
import { hmacKey } from './keys.ts'
import type { TrustedIssuer } from './verify.ts'

/** Issuer and audience of the development tokens that a service in development mode accepts. */
export const devTokenDefaults = { issuer: 'todo-service', audiences: ['todo-item-service'] }

/** A file of the configuration directory. */
export const devKeyFile = 'development-key'

export interface DevKey {
  readonly key: KeyObject
  /** Why the key could not be stored, without a full stop: no other process has it. */
  readonly storeError: string | undefined
}

/**
 * The key that signs development tokens: created on first use, then shared by all commands of this user. Without a
 * directory it is a new key.
 */
export async function readOrCreateDevKey(
  directory: string | undefined,
  random: (size: number) => Buffer,
): Promise<DevKey> {
  const create = () => random(32).toString('base64')
  const isValid = (base64: string) => Buffer.from(base64, 'base64').length === 32
  const stored = await readOrCreate(directory, devKeyFile, create, isValid).catch((error: Error) => error)
  const isStored = typeof stored === 'string'
  return {
    key: createSecretKey(Buffer.from(isStored ? stored : create(), 'base64')),
    // The message of a file system error continues with the system call and the path.
    storeError: isStored
      ? undefined
      : `Cannot store the development key in ${directory} (${stored.message.split(',', 1)})`,
  }
}

/** Without tolerance, a token can be seen to expire: it was signed on this machine. */
export function devTokenIssuer(key: KeyObject, clockToleranceSeconds = 0): TrustedIssuer {
  const { issuer, audiences } = devTokenDefaults
  const keys = [hmacKey(key)]
  return { keyName: 'development key', issuers: [issuer], audiences, clockToleranceSeconds, keys: async () => keys }
}
