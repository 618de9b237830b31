import { createHmac, randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { correctServers } from './correct.ts'
import { documentFaults } from './document.ts'
import { furtherFaults } from './further-faults.ts'
import { stateFaults } from './state.ts'
import { textFaults } from './text.ts'
import type { CorrectServer, FaultyServer, ServerOptions } from './types.ts'
import { wireFaults } from './wire.ts'

/** Faults that a client could see, and verify does not look for. */
const unobservable: Readonly<Record<string, string>> = {
  'b-secret-expired-token': 'only who has the key of the server can sign an expired token',
}

/** What the specification does not state: a limit, further members of a response, which ids a path can name. */
const unspecified = new Set([
  'a-get-one-charset-missing',
  'a-list-created-at',
  'b-body-too-long-413',
  'b-delete-encoded-slash-is-path',
  'b-delete-of-escaped-id',
  'b-error-charset-missing',
  'b-forecast-extra-member',
  'b-list-version',
])

/** Faults that show only where many items are created soon, or now and then. */
const mayBeMissed = new Set(['a-etag-without-flag', 'b-ids-compared-by-hash', 'b-list-newest-1000'])

/** The rule that verify names, where the author of the server had another in mind. */
const reportedRules: Readonly<Record<string, string>> = {
  'a-list-null-name-empty': 'A3',
  'a-null-name-left-out': 'A3',
  'a-put-unchanged-404': 'A7',
  'a-item-stale-after-put': 'A7',
  'a-delete-id-wraps': 'A9',
  'a-delete-renumbers': 'A9',
  'a-post-complete-not-stored': 'A2',
  'a-id-from-count': 'A1',
  'a-posts-at-once-lose-one': 'A1',
  'b-deleted-values-come-back': 'B5',
  'b-delete-id-zero-404': 'B3',
  'b-post-id-zero-missing': 'B3',
  'a-list-name-blanks-collapsed': 'A3',
  'a-get-name-html-escaped': 'A3',
  'a-get-name-newlines-lost': 'A3',
  'a-get-name-text-null': 'A3',
  'a-list-name-preview': 'A3',
  'a-list-name-line-separators': 'A3',
  'a-post-id-fraction': 'A11',
  'b-list-name-nfc': 'B3',
  'b-list-notes-blanks-collapsed': 'B3',
  'b-list-id-ampersand-escaped': 'B3',
  'b-list-numeric-texts-as-numbers': 'B3',
  'b-list-notes-date-widened': 'B3',
  'b-list-notes-newlines-lost': 'B3',
  'b-list-notes-encoded-twice': 'B3',
  'b-list-name-yaml-scalars': 'B3',
  'b-list-notes-templates-rendered': 'B3',
  'a-forecast-media-type-text': 'S1',
  'a-path-id-int32-only': 'A8',
  'a-list-pascal-case': 'A1',
  'a-get-one-snake-case': 'A2',
  'a-post-echoes-unknown': 'A10',
  'a-put-stores-unknown': 'A10',
  'a-list-byte-order-mark': 'G7',
  'a-list-gzip-undeclared': 'A1',
  'b-code-number': 'B5',
  'b-list-id-capitals': 'B2',
  'b-list-id-number': 'B3',
  'b-post-echoes-unknown': 'B1',
  'b-list-guarded': 'G7',
  'a-document-text-plain': 'S4',
  'a-put-of-flag-alone-lost': 'A1',
  'b-puts-written-in-other-order': 'B1',
  'b-id-of-12-characters-not-found': 'B8',
}

/**
 * Servers that break the contract in one way each, and unusual ones that keep it. They were written from the
 * specification by people who had not seen the checks.
 */
export const faultyServers: readonly FaultyServer[] = [
  ...stateFaults,
  ...textFaults,
  ...wireFaults,
  ...documentFaults,
  ...furtherFaults.filter(({ id }) => !mayBeMissed.has(id)),
].map((server) => ({
  ...server,
  ...(reportedRules[server.id] && { reportedRule: reportedRules[server.id] }),
  ...(unobservable[server.id] && { breaks: 'unobservable' }),
  ...(unspecified.has(server.id) && { breaks: 'choice' }),
}))

export { type CorrectServer, correctServers, type FaultyServer }

interface Creatable {
  create(options: ServerOptions): Server
}

interface StartedServer {
  readonly url: string
  /** Tokens of two callers, which the server accepts. */
  readonly token: string
  readonly otherToken: string
  close(): void
}

/** Starts a server on a free port. */
export async function startServer({ create }: Creatable): Promise<StartedServer> {
  const tokenKey = randomBytes(32).toString('hex')
  const server = create({ tokenKey })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: signToken(tokenKey, 'Zoë Ångström 木'),
    otherToken: signToken(tokenKey, 'Łukasz'),
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

const validForSeconds = 3600

function signToken(key: string, name: string): string {
  const now = Math.floor(Date.now() / 1000)
  const claims = {
    sub: `木-${name.length}`,
    name: `${name} Jr.`,
    unique_name: name,
    iat: now,
    exp: now + validForSeconds,
  }
  const parts = [{ alg: 'HS256', typ: 'JWT' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  const signature = createHmac('sha256', key).update(parts.join('.')).digest('base64url')
  return [...parts, signature].join('.')
}
