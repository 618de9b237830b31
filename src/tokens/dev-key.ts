import { createSecretKey, type KeyObject } from 'node:crypto'
import { readOrCreate } from '../config/config-directory.ts'
import { hmacKey } from './keys.ts'
import type { TrustedIssuer } from './verify.ts'

/** Issuer and audience of the development tokens that a service in development mode accepts. */
export const devTokenDefaults = { issuer: 'todo-service', audiences: ['todo-item-service'] }

export interface DevKey {
  readonly key: KeyObject
  /** False if the key could not be stored: no other process has it. */
  readonly isStored: boolean
}

/** The key that signs development tokens: created on first use, then shared by all commands of this user. */
export async function readOrCreateDevKey(directory: string, random: (size: number) => Buffer): Promise<DevKey> {
  const create = () => random(32).toString('base64')
  const isValid = (base64: string) => Buffer.from(base64, 'base64').length === 32
  const stored = await readOrCreate(directory, 'development-key', create, isValid).catch(() => undefined)
  return { key: createSecretKey(Buffer.from(stored ?? create(), 'base64')), isStored: stored !== undefined }
}

export function devTokenIssuer(key: KeyObject): TrustedIssuer {
  const { issuer, audiences } = devTokenDefaults
  const keys = [hmacKey(key)]
  return { keyName: 'development key', issuers: [issuer], audiences, keys: async () => keys }
}
