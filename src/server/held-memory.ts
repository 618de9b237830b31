/** Whoever holds memory: a connection, or where a runtime has none, a response. */
export interface Holder {
  /** Called where it holds most and there is no room for more. */
  destroy(): void
}

interface Held {
  /** What would be free without this holder: its own bytes, and buffers that no other holder has. */
  bytes: number
  readonly buffers: Set<Buffer>
}

/**
 * Memory of requests that wait and of responses that clients have not read, of all listeners of a service. Beyond the
 * limit the holder whose end frees most is destroyed: clients that do not read must not exhaust the heap. One alone is not
 * destroyed: its client may be reading a list that is larger than the limit.
 */
export class HeldMemory {
  readonly #limitBytes: number
  #usedBytes = 0
  readonly #holders = new Map<Holder, Held>()
  /** A list is sent to many clients from the same buffers: each buffer counts once. */
  readonly #sharers = new Map<Buffer, Set<Held>>()

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  add(holder: Holder, bytes: number): void {
    this.#heldBy(holder).bytes += bytes
    this.#usedBytes += bytes
    this.#makeRoom()
  }

  remove(holder: Holder, bytes: number): void {
    const held = this.#holders.get(holder)
    if (!held) return
    held.bytes -= bytes
    this.#usedBytes -= bytes
    this.#forgetIfEmpty(holder, held)
  }

  addBuffers(holder: Holder, buffers: readonly Buffer[]): void {
    const held = this.#heldBy(holder)
    for (const buffer of buffers) {
      if (held.buffers.has(buffer)) continue
      held.buffers.add(buffer)
      const sharers = this.#sharers.get(buffer) ?? new Set()
      this.#sharers.set(buffer, sharers)
      const [first] = sharers
      if (!first) {
        held.bytes += buffer.length
        this.#usedBytes += buffer.length
      } else if (sharers.size === 1) first.bytes -= buffer.length
      sharers.add(held)
    }
    this.#makeRoom()
  }

  removeBuffer(holder: Holder, buffer: Buffer): void {
    const held = this.#holders.get(holder)
    if (!held?.buffers.delete(buffer)) return
    const sharers = this.#sharers.get(buffer) as Set<Held>
    sharers.delete(held)
    const [first] = sharers
    if (!first) {
      this.#sharers.delete(buffer)
      held.bytes -= buffer.length
      this.#usedBytes -= buffer.length
    } else if (sharers.size === 1) first.bytes += buffer.length
    this.#forgetIfEmpty(holder, held)
  }

  /** What the holder still has is released. */
  release(holder: Holder): void {
    const held = this.#holders.get(holder)
    if (!held) return
    for (const buffer of held.buffers) this.removeBuffer(holder, buffer)
    this.#usedBytes -= held.bytes
    this.#holders.delete(holder)
  }

  #heldBy(holder: Holder): Held {
    const held = this.#holders.get(holder) ?? { bytes: 0, buffers: new Set() }
    this.#holders.set(holder, held)
    return held
  }

  #forgetIfEmpty(holder: Holder, { bytes, buffers }: Held): void {
    if (bytes <= 0 && buffers.size === 0) this.#holders.delete(holder)
  }

  #makeRoom(): void {
    while (this.#usedBytes > this.#limitBytes && this.#holders.size > 1) {
      let largest: Holder | undefined
      let most = 0
      for (const [holder, { bytes }] of this.#holders) if (bytes > most) [largest, most] = [holder, bytes]
      if (!largest) return
      this.release(largest)
      largest.destroy()
    }
  }
}
