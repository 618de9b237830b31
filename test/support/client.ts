import { createClient as createVerifyClient } from '../../src/verify/engine/client.ts'

/** As verify uses it, but a busy machine may take its time: the limit is for services that hang. */
export const createClient: typeof createVerifyClient = (url, options) =>
  createVerifyClient(url, { timeout: 60_000, ...options })
