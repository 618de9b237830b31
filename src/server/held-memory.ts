/** Whoever holds memory: a connection, or where a runtime has none, a response. */
export interface Holder {
  /** Called where it holds most and there is no room for more. */
  destroy(): void
}

interface Held {
  bytes: number
  readonly buffers: Set<Buffer>
}

/**
 * Memory of requests that wait and of responses that clients have not read, of all listeners of a service. Beyond the
 * limit the holder with most is destroyed: clients that do not read must not exhaust the heap. One alone is not: its client
 * may be reading a list that is larger than the limit.
 */
export class HeldMemory {
  readonly #limitBytes: number
  #usedBytes = 0
  /** The oldest first. */
  readonly #holders = new Map<Holder, Held>()
  /** A list is sent to many clients from the same buffers: each counts once. */
  readonly #references = new Map<Buffer, number>()

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
    this.#forget(holder, held)
  }

  addBuffers(holder: Holder, buffers: readonly Buffer[]): void {
    const held = this.#heldBy(holder)
    for (const buffer of buffers) {
      if (held.buffers.has(buffer)) continue
      held.buffers.add(buffer)
      held.bytes += buffer.length
      const count = this.#references.get(buffer) ?? 0
      this.#references.set(buffer, count + 1)
      if (count === 0) this.#usedBytes += buffer.length
    }
    this.#makeRoom()
  }

  removeBuffer(holder: Holder, buffer: Buffer): void {
    const held = this.#holders.get(holder)
    if (!held?.buffers.delete(buffer)) return
    held.bytes -= buffer.length
    this.#dereference(buffer)
    this.#forget(holder, held)
  }

  /** What the holder still has is released. */
  release(holder: Holder): void {
    const held = this.#holders.get(holder)
    if (!held) return
    this.#holders.delete(holder)
    this.#usedBytes -= held.bytes
    for (const buffer of held.buffers) {
      this.#usedBytes += buffer.length
      this.#dereference(buffer)
    }
  }

  #heldBy(holder: Holder): Held {
    const held = this.#holders.get(holder) ?? { bytes: 0, buffers: new Set() }
    this.#holders.set(holder, held)
    return held
  }

  #dereference(buffer: Buffer): void {
    const count = (this.#references.get(buffer) ?? 1) - 1
    if (count > 0) {
      this.#references.set(buffer, count)
      return
    }
    this.#references.delete(buffer)
    this.#usedBytes -= buffer.length
  }

  #forget(holder: Holder, { bytes, buffers }: Held): void {
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
