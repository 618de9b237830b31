import { readFileSync } from 'node:fs'

/** Connection settings of a PostgreSQL database. */
export interface DatabaseSettings {
  /** If several hosts accept writes, the service uses the host with the highest timeline. */
  readonly hosts: readonly Host[]
  /** Undefined means PGUSER, or else the name of the operating system's user. */
  readonly user: string | undefined
  readonly password: string | undefined
  /** Undefined means the name of the user. */
  readonly name: string | undefined
  readonly tls: Tls
}

export interface Host {
  /** A host name, an address, or the directory of a Unix socket. */
  readonly name: string
  readonly port: number
}

const modes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const

interface Tls {
  readonly mode: (typeof modes)[number]
  /** CA certificates in PEM format; undefined means the default CAs of Node. */
  readonly ca: string | undefined
}

export const databaseUrlFormat =
  'a URL such as postgres://user:password@host:5432/database, special characters percent-encoded, hosts separated by ' +
  'commas, with no parameters but sslmode (disable, prefer, require, verify-ca, verify-full) and sslrootcert (a readable PEM file)'

/** Reads a connection URI of libpq. Returns undefined for an invalid URI or an unsupported parameter. */
export function readDatabaseUrl(url: string): DatabaseSettings | undefined {
  const [, user, password, authority, name, query] =
    /^postgres(?:ql)?:\/\/(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]*)(?:\/([^/?#]*))?(?:\?([^#]*))?$/i.exec(url) ?? []
  if (authority === undefined) return undefined
  try {
    const hosts = authority.split(',').map(readHost)
    const tls = readTls(new URLSearchParams(query))
    return { hosts, user: decode(user), password: decode(password), name: decode(name), tls }
  } catch {
    // Malformed percent-encoding or an unreadable sslrootcert leads here, too.
    return undefined
  }
}

const decode = (text: string | undefined) => (text ? decodeURIComponent(text) : undefined)

function readHost(text: string): Host {
  const [, address, name, port = '5432'] = /^(?:\[([\da-f:.]+)\]|([^:[\]]*))(?::(\d{1,5}))?$/i.exec(text) ?? []
  if ((address ?? name) === undefined || Number(port) < 1 || Number(port) > 65535) throw new Error('Not a host')
  return { name: address ?? decode(name) ?? 'localhost', port: Number(port) }
}

function readTls(parameters: URLSearchParams): Tls {
  const { sslmode = 'disable', sslrootcert, ...others } = Object.fromEntries(parameters)
  const mode = modes.find((known) => known === sslmode)
  if (!mode || Object.keys(others).length > 0) throw new Error('Not a parameter')
  const ca = sslrootcert === undefined ? undefined : readFileSync(sslrootcert, 'utf8')
  if (ca !== undefined && !ca.includes('-----BEGIN CERTIFICATE-----')) throw new Error('Not a certificate')
  // As in libpq, a CA file makes `require` verify the certificate.
  return { mode: mode === 'require' && ca ? 'verify-ca' : mode, ca }
}

/** Names the database in messages, without the password. */
export const describeDatabase = ({ hosts, name }: DatabaseSettings) =>
  `${name ? `database ${name} ` : ''}at ${hosts.map((host) => `${host.name}:${host.port}`).join(', ')}`
