import { setTimeout as setTimer } from 'node:timers/promises'
import { escapeText } from '../../common/escape.ts'
import {
  type Client,
  type ClientOptions,
  createClient,
  Interrupted,
  NoResponseError,
  type Response,
  type StopSignal,
  unlessStopped,
} from './client.ts'

/** No check could run: invalid options, no server, no HTTP, or a redirect. */
export class CannotVerify extends Error {}

const retryDelayMs = 200

export interface FirstRequestOptions {
  /** How long to wait for a server that is starting. */
  readonly waitMs?: number | undefined
  readonly signal?: StopSignal | undefined
  /** The connections lead elsewhere than the URL says. */
  readonly agent?: object | undefined
}

/** The first response of the server to GET. */
export async function fetchFirst(client: Client, path: string, options: FirstRequestOptions): Promise<Response> {
  const { waitMs = 0, signal } = options
  const deadline = Date.now() + waitMs
  for (;;) {
    const outcome = await unlessStopped(signal, client.send('GET', path)).catch((cause: Error) => cause)
    const isStarting = outcome instanceof Error || [502, 503, 504].includes(outcome.status)
    if (signal?.aborted) throw new CannotVerify(`Stopped before ${client.url} responded.`)
    if (isStarting && !(outcome instanceof Interrupted) && Date.now() < deadline) await setTimer(retryDelayMs)
    else if (outcome instanceof Error) throw new CannotVerify(await explain(client, path, outcome, options))
    else if (isPlainHttpToTls(outcome)) throw new CannotVerify(otherScheme(client.url))
    else return outcome
  }
}

/** Certificates that Node does not trust, by error code. */
const certificateProblems: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'comes from an authority that is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'comes from an authority that is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'comes from an authority that is not trusted',
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
}

/** What nginx and Go respond. */
const isPlainHttpToTls = ({ status, text }: Response) =>
  status === 400 && /plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server/i.test(text)

function otherScheme(url: string): string {
  const isTls = url.startsWith('https:')
  return `The port of ${url} speaks ${isTls ? 'HTTP without TLS' : 'HTTPS'}: use ${swapScheme(url)}`
}

/** The port stays the same. */
function swapScheme(url: string): string {
  const { protocol, hostname, port, pathname } = new URL(url)
  const [other, defaultPort] = protocol === 'https:' ? ['http', 443] : ['https', 80]
  return `${other}://${hostname}:${port || defaultPort}${pathname.replace(/\/$/, '')}`
}

/** Explains a failure in one sentence, with what to do if that is known. */
async function explain(
  client: Client,
  path: string,
  cause: Error,
  { waitMs = 0, agent }: FirstRequestOptions,
): Promise<string> {
  const { url } = client
  const code = cause instanceof NoResponseError ? (cause.code ?? '') : ''
  const problem = certificateProblems[code]
  if (problem) return `The certificate of ${url} ${problem}: trust it with --ca FILE, or accept any with --insecure.`
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `The certificate of ${url} is for another host: use a name that it has, or accept any with --insecure.`
  const isConnected = cause instanceof NoResponseError && !['ECONNREFUSED', 'ENOTFOUND'].includes(code) && !agent
  if (isConnected && (await responds(createClient(swapScheme(url), probeOptions), path))) return otherScheme(url)
  const waited = waitMs > 0 && !(cause instanceof Interrupted) ? ` (waited ${waitMs / 1000} s)` : ''
  const advice = code === 'ECONNREFUSED' ? ' Check the URL, or start the server; --wait N waits for it.' : ''
  return `${url} cannot be checked: ${escapeText(cause.message.slice(0, 200))}${waited}.${advice}`
}

const probeTimeoutMs = 2000
const probeOptions: ClientOptions = { timeout: probeTimeoutMs, insecure: true }

export const responds = (client: Client, path: string) =>
  client.send('GET', path).then(
    () => true,
    () => false,
  )
