import { createSecretKey, type KeyObject } from 'node:crypto'
import { kept } from '../folder.ts'
import type { Trust } from './trust.ts'

export const developmentIssuer = 'todo-service'
export const developmentAudience = 'todo-item-service'

/** What every service in development accepts. */
export const developmentWish = { issuer: developmentIssuer, audiences: [developmentAudience] }

export interface DevelopmentKey {
  readonly key: KeyObject
  /** Whether another run, or another command, will find the same key. */
  readonly isKept: boolean
}

/** The key that development tokens are signed with: made on first use, then shared by every command of this user. */
export async function developmentKey(folder: string, random: (size: number) => Buffer): Promise<DevelopmentKey> {
  const make = () => random(32).toString('base64')
  const isKey = (text: string) => Buffer.from(text, 'base64').length === 32
  try {
    return { key: secretKey(await kept(folder, 'development-key', make, isKey)), isKept: true }
  } catch {
    return { key: secretKey(make()), isKept: false }
  }
}

export const secretKey = (base64: string) => createSecretKey(Buffer.from(base64, 'base64'))

export function sharedKeyTrust(
  name: string,
  key: KeyObject,
  issuers: readonly string[],
  audiences: readonly string[],
): Trust {
  const keys = [{ kid: undefined, algorithms: ['HS256'], key }]
  return { name, keys: async () => keys, issuers, audiences }
}

export const developmentTrust = ({ key }: DevelopmentKey): Trust =>
  sharedKeyTrust('development key', key, [developmentIssuer], [developmentAudience])
