import type { HeldMemory } from '../common/held-memory.ts'
import { Rejection } from '../http/errors.ts'
import { headLengthOf, type Request } from '../http/request.ts'
import { buffersOf, byteLengthOf, type Response, type Stream, withHeaders } from '../http/response.ts'

/** The delay, the rate and the failure that faults and `Prefer` demand for a request. */
export interface AppliedFault {
  readonly delayMs: number
  /** The rate at which the body of the response is sent. */
  readonly bytesPerSecond: number | undefined
  /** What happens to the request. `lost`: the handler runs, but its response is not sent. */
  readonly outcome: Rejection | Response | 'reset' | 'truncate' | 'lost' | 'none'
  /** The value of the header Preference-Applied; empty if no preference was applied. */
  readonly applied: string
  /** Describes all faults and preferences that were applied, for the journal. */
  readonly description: string
  /** The ids of the faults that were applied. */
  readonly faultIds: readonly number[]
  /** Describes the fault or preference that the outcome comes from; undefined if the outcome is `none`. */
  readonly simulatedBy: string | undefined
}

/** The memory of a delayed request besides its head and body, with its connection. */
const delayedOverheadBytes = 16_000

/** Calls `done` with the fault as it is after the delay, or earlier if the request ends or takes too much memory. */
export function delay(
  request: Request,
  fault: AppliedFault,
  { bodyBytes, isRead }: { readonly bodyBytes: number; readonly isRead: boolean },
  held: HeldMemory,
  done: (fault: AppliedFault) => void,
): void {
  let isDone = false
  const end = (outcome: AppliedFault['outcome'], simulatedBy?: string) => {
    if (isDone) return
    isDone = true
    clearTimeout(timer)
    held.release(holder)
    done({ ...fault, delayMs: 0, outcome, simulatedBy })
  }
  const reason = 'the requests that are delayed take too much memory'
  const holder = { destroy: () => end(new Rejection('overloaded', undefined, reason)) }
  // A timer must not keep a process from ending.
  const timer = setTimeout(() => end(fault.outcome, fault.simulatedBy), fault.delayMs).unref()
  // A request that changes something takes effect even if its client leaves, as it would without a delay.
  if (isRead || typeof fault.outcome === 'object' || fault.outcome === 'reset') request.onEnd(() => end('reset'))
  held.add(holder, delayedOverheadBytes + headLengthOf(request) + bodyBytes)
}

/** Sends the response with the effects of a fault. Returns what the journal shows: the fault and the response. */
export function sendWithFault(
  request: Request,
  response: Response,
  fault: AppliedFault,
  held: HeldMemory,
): { fault: AppliedFault; response: Response } {
  const { bytesPerSecond, applied } = fault
  const { body } = response
  const hasBody = body && typeof body !== 'function' && request.method !== 'HEAD'
  // Without a body to truncate, the response is lost.
  const outcome = fault.outcome === 'truncate' && !hasBody ? 'lost' : fault.outcome
  const marked = applied ? withHeaders(response, { 'preference-applied': applied }) : response
  if (outcome === 'lost') request.abort(false)
  else if (hasBody && (outcome === 'truncate' || bytesPerSecond !== undefined)) {
    const stream = atRate(body, outcome === 'truncate', bytesPerSecond ?? Number.POSITIVE_INFINITY, held)
    request.respond({ ...marked, body: stream, contentLength: byteLengthOf(body) })
  } else request.respond(marked)
  return { fault: { ...fault, outcome }, response: marked }
}

/** Bodies at a rate are sent in pieces of this duration. */
const pieceSeconds = 0.1
/** A truncated body has this time to reach the client before its connection is closed. */
const truncateAfterMs = 50

/** Sends the body, or its first half, at a rate; a client that reads more slowly determines it. */
const atRate =
  (body: string | readonly Buffer[], isTruncated: boolean, bytesPerSecond: number, held: HeldMemory): Stream =>
  (send, end, destroy) => {
    const buffers = buffersOf(body)
    const holder = { destroy }
    let unsentBytes = byteLengthOf(buffers) >> (isTruncated ? 1 : 0)
    let index = 0
    let start = 0
    let timer: NodeJS.Timeout
    const pieceLength = () => Math.min(Math.ceil(pieceSeconds * bytesPerSecond), unsentBytes)
    function sendPiece(): void {
      let isDrained = true
      for (let length = pieceLength(); length > 0; ) {
        const buffer = buffers[index] as Buffer
        const part = buffer.subarray(start, start + length)
        isDrained = send(part)
        length -= part.length
        unsentBytes -= part.length
        start += part.length
        if (start < buffer.length) continue
        start = 0
        index++
      }
      if (unsentBytes === 0 && !isTruncated) end()
      else if (isDrained) wait()
    }
    function wait(): void {
      const [next, waitMs] =
        unsentBytes === 0 ? [destroy, truncateAfterMs] : [sendPiece, (1000 * pieceLength()) / bytesPerSecond]
      timer = setTimeout(next, waitMs).unref()
    }
    held.addBuffers(holder, buffers)
    wait()
    return {
      onDrain() {
        if (unsentBytes > 0 || isTruncated) wait()
      },
      onClose() {
        clearTimeout(timer)
        held.release(holder)
      },
    }
  }
