import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { attempt } from '../common/attempt.ts'
import { readOrCreate } from '../config-directory.ts'

/** Both members are in PEM format. */
export interface Credentials {
  readonly cert: string
  readonly key: string
}

/** A file of the configuration directory, with the certificate and its private key. */
export const devCertificateFile = 'localhost.pem'

const dayMs = 86_400_000
const lifetimeMs = 365 * dayMs
const renewBeforeMs = 30 * dayMs

/**
 * A self-signed certificate for development, stored for this user and renewed before it expires. Subject and issuer are
 * exactly CN=localhost, which the mobile client's debug build trusts; 10.0.2.2 is this machine in the Android emulator.
 */
export async function devCertificate(directory: string | undefined, now: Date): Promise<Credentials> {
  const isValid = (pem: string) =>
    // Deno's createSecureContext() accepts any text.
    pem.includes('-----BEGIN PRIVATE KEY') &&
    readCertificate(pem) !== undefined &&
    isUsable({ cert: pem, key: pem }) &&
    isCurrent(new X509Certificate(pem), now)
  const create = () => createCertificate(now)
  const pem = await readOrCreate(directory, devCertificateFile, create, isValid).catch(create)
  return { cert: pem, key: pem }
}

const isCurrent = ({ subject, issuer, validTo }: X509Certificate, now: Date) =>
  subject === 'CN=localhost' && issuer === subject && new Date(validTo).getTime() - now.getTime() > renewBeforeMs

/** Returns the certificate and its key as one text for one file, so that they always match. */
async function createCertificate(now: Date): Promise<string> {
  const { generate } = await import('selfsigned')
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(now.getTime() - dayMs),
    notAfterDate: new Date(now.getTime() + lifetimeMs),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
          { type: 7, ip: '::1' },
          { type: 7, ip: '10.0.2.2' },
        ],
      },
    ],
  })
  return `${cert}\n${key}\n`
}

/** Returns why the service cannot use these credentials; undefined if it can. */
export function findCredentialsError({ cert, key }: Credentials, now: Date): string | undefined {
  const certificate = new X509Certificate(cert)
  if (!certificate.checkPrivateKey(createPrivateKey(key)))
    return 'The key in --tls-key does not belong to the certificate in --tls-cert.'
  const [from, to] = [new Date(certificate.validFrom), new Date(certificate.validTo)]
  const date = (time: Date) => time.toISOString().slice(0, 10)
  if (to <= now) return `The certificate in --tls-cert expired on ${date(to)}.`
  if (from > now) return `The certificate in --tls-cert is not valid before ${date(from)}.`
  if (!isUsable({ cert, key })) return 'The certificates in --tls-cert cannot be used: one of them is damaged.'
  return undefined
}

const isUsable = (credentials: Credentials) => attempt(() => createSecureContext(credentials) !== undefined, false)

export const readCertificate = (pem: string) => attempt(() => new X509Certificate(pem) && pem, undefined)
export const readPrivateKey = (pem: string) => attempt(() => createPrivateKey(pem) && pem, undefined)
