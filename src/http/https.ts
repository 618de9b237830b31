import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { kept } from '../folder.ts'

/** What a TLS server shows: both in PEM form. */
export interface Credentials {
  readonly cert: string
  readonly key: string
}

const day = 86_400_000
const validFor = 365 * day
const renewBefore = 30 * day

/**
 * A self-signed certificate for development, kept for this user and renewed before it ends. Subject and issuer are
 * exactly CN=localhost, which is what the mobile client's debug build trusts; 10.0.2.2 is this machine as the Android
 * emulator sees it.
 */
export async function developmentCertificate(folder: string, now: Date): Promise<Credentials> {
  const isGood = (pem: string) => {
    try {
      createSecureContext({ cert: pem, key: pem })
      const { subject, issuer, validTo } = new X509Certificate(pem)
      const isOurs = subject === 'CN=localhost' && issuer === subject
      return isOurs && new Date(validTo).getTime() - now.getTime() > renewBefore
    } catch {
      return false
    }
  }
  const pem = await kept(folder, 'localhost.pem', () => newCertificate(now), isGood).catch(() => newCertificate(now))
  return { cert: pem, key: pem }
}

/** Certificate and key in one file, so that they can never disagree. */
async function newCertificate(now: Date): Promise<string> {
  const { generate } = await import('selfsigned')
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(now.getTime() - day),
    notAfterDate: new Date(now.getTime() + validFor),
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

/** What is wrong with a certificate and its key, in words; undefined where nothing is. */
export function faultOf({ cert, key }: Credentials, now: Date): string | undefined {
  const certificate = new X509Certificate(cert)
  if (!certificate.checkPrivateKey(createPrivateKey(key)))
    return 'The key in --tls-key does not belong to the certificate in --tls-cert.'
  const [from, to] = [new Date(certificate.validFrom), new Date(certificate.validTo)]
  if (to <= now) return `The certificate in --tls-cert expired on ${date(to)}.`
  if (from > now) return `The certificate in --tls-cert is valid only from ${date(from)} on.`
  if (!attempt(() => createSecureContext({ cert, key })))
    return 'The certificates in --tls-cert cannot be used: one of them is damaged.'
  return undefined
}

const date = (time: Date) => time.toISOString().slice(0, 10)

export function readCertificate(pem: string): string | undefined {
  return attempt(() => new X509Certificate(pem)) && pem
}

export function readPrivateKey(pem: string): string | undefined {
  return attempt(() => createPrivateKey(pem)) && pem
}

function attempt<T>(action: () => T): T | undefined {
  try {
    return action()
  } catch {
    return undefined
  }
}
