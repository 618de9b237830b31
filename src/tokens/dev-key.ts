import { createSecretKey, type KeyObject } from 'node:crypto'
import { readOrCreate } from '../config/config-directory.ts'
import { hmacKey } from './keys.ts'
import type { TrustedIssuer } from './verify.ts'

/** Issuer and audience of the development tokens that a service in development mode accepts. */
export const devTokenDefaults = { issuer: 'todo-service', audiences: ['todo-item-service'] }

export interface DevKey {
  readonly key: KeyObject
  /** Why the key could not be stored: no other process has it. */
  readonly storeError: Error | undefined
}

/** The key that signs development tokens: created on first use, then shared by all commands of this user. */
export async function readOrCreateDevKey(directory: string, random: (size: number) => Buffer): Promise<DevKey> {
  const create = () => random(32).toString('base64')
  const isValid = (base64: string) => Buffer.from(base64, 'base64').length === 32
  const stored = await readOrCreate(directory, 'development-key', create, isValid).catch((error: Error) => error)
  const storeError = stored instanceof Error ? stored : undefined
  return { key: createSecretKey(Buffer.from(stored instanceof Error ? create() : stored, 'base64')), storeError }
}

export function devTokenIssuer(key: KeyObject): TrustedIssuer {
  const { issuer, audiences } = devTokenDefaults
  const keys = [hmacKey(key)]
  return { keyName: 'development key', issuers: [issuer], audiences, keys: async () => keys }
}
