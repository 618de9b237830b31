import assert from 'node:assert/strict'
import type { Ended } from '../support/cli.ts'
import { createClient } from '../support/client.ts'

export const itemsPath = '/api/todoitems'

export const listItems = async (url: string, headers = {}) =>
  JSON.parse((await createClient(url).send('GET', itemsPath, undefined, headers)).text) as Record<string, unknown>[]

export function assertPassed({ code, stdout, stderr }: Ended): void {
  assert.deepEqual([code, stderr], [0, ''], stdout)
}

export function assertCannotVerify({ code, stdout, stderr }: Ended, message: RegExp): void {
  assert.deepEqual([code, stdout], [2, ''], stderr)
  assert.match(stderr, message)
  assert.equal(stderr.split('\n').length, 2, stderr)
}
