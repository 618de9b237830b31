import { readFileSync } from 'node:fs'

/** Where a PostgreSQL database is, and as whom to come. */
export interface Database {
  /** Any of them may be the primary. */
  readonly hosts: readonly Host[]
  /** Undefined: as PGUSER says, else whoever this runs as. */
  readonly user: string | undefined
  readonly password: string | undefined
  /** Undefined: named like the user. */
  readonly name: string | undefined
  readonly tls: Tls
}

export interface Host {
  /** A name, an address, or the folder of a socket. */
  readonly name: string
  readonly port: number
}

interface Tls {
  readonly mode: 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  /** Certificates to trust, PEM; undefined: those that Node trusts. */
  readonly ca: string | undefined
}

const modes: readonly Tls['mode'][] = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full']

export const databaseUrlForm =
  'a URL such as postgres://user:password@host:5432/database, special characters percent-encoded, hosts separated by ' +
  'commas, with no parameters but sslmode (disable, prefer, require, verify-ca, verify-full) and sslrootcert (a readable PEM file)'

/** The forms of libpq, as far as they are of use here; undefined for anything else. */
export function readDatabaseUrl(url: string): Database | undefined {
  const [, user, password, authority, name, query] =
    /^postgres(?:ql)?:\/\/(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]*)(?:\/([^/?#]*))?(?:\?([^#]*))?$/i.exec(url) ?? []
  if (authority === undefined) return undefined
  try {
    const parameters = new URLSearchParams(query)
    const hosts = authority.split(',').map(readHost)
    const tls = readTls(parameters)
    if (!tls || hosts.includes(undefined)) return undefined
    return {
      hosts: hosts as Host[],
      user: decoded(user),
      password: decoded(password),
      name: decoded(name),
      tls,
    }
  } catch {
    return undefined
  }
}

const decoded = (text: string | undefined) => (text ? decodeURIComponent(text) : undefined)

function readHost(text: string): Host | undefined {
  const [, address, name, port = '5432'] = /^(?:\[([\da-f:.]+)\]|([^:[\]]*))(?::(\d{1,5}))?$/i.exec(text) ?? []
  if ((address ?? name) === undefined || Number(port) < 1 || Number(port) > 65535) return undefined
  return { name: address ?? (decodeURIComponent(name ?? '') || 'localhost'), port: Number(port) }
}

/** As in libpq, a CA file makes `require` check the certificate. */
function readTls(parameters: URLSearchParams): Tls | undefined {
  const { sslmode = 'disable', sslrootcert, ...others } = Object.fromEntries(parameters)
  const mode = modes.find((one) => one === sslmode)
  if (!mode || Object.keys(others).length > 0) return undefined
  const ca = sslrootcert === undefined ? undefined : readFileSync(sslrootcert, 'utf8')
  if (ca !== undefined && !ca.includes('-----BEGIN CERTIFICATE-----')) return undefined
  return { mode: mode === 'require' && ca ? 'verify-ca' : mode, ca }
}

/** For a person; the password is not in it. */
export const whereabouts = ({ hosts, name }: Database) =>
  `${name ? `database ${name} ` : ''}at ${hosts.map((host) => `${host.name}:${host.port}`).join(', ')}`
