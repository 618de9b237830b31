/** Whoever holds memory: a connection, a delayed request, or where a runtime has no connections, a response. */
export interface MemoryHolder {
  /** Called when there is no room for more. */
  destroy(): void
}

interface Held {
  bytes: number
  readonly buffers: Set<Buffer>
}

/**
 * Memory of requests that wait or are delayed and of responses that clients have not read, of all listeners of a service.
 * Beyond the limit the oldest holder is destroyed that has at least half of what the largest has: clients that do not read
 * must not exhaust the heap, nor keep out those that do.
 */
export class HeldMemory {
  readonly #limitBytes: number
  #usedBytes = 0
  /** The oldest first. */
  readonly #holders = new Map<MemoryHolder, Held>()
  /** A list is sent to many clients from the same buffers: each buffer counts once. */
  readonly #references = new Map<Buffer, number>()

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  add(holder: MemoryHolder, bytes: number): void {
    const held = this.#heldBy(holder)
    held.bytes += bytes
    this.#usedBytes += bytes
    this.#makeRoom(held)
  }

  remove(holder: MemoryHolder, bytes: number): void {
    const held = this.#holders.get(holder)
    if (!held) return
    held.bytes -= bytes
    this.#usedBytes -= bytes
    this.#forgetIfEmpty(holder, held)
  }

  addBuffers(holder: MemoryHolder, buffers: readonly Buffer[]): void {
    const held = this.#heldBy(holder)
    for (const buffer of buffers) {
      if (held.buffers.has(buffer)) continue
      held.buffers.add(buffer)
      const count = this.#references.get(buffer) ?? 0
      this.#references.set(buffer, count + 1)
      if (count === 0) this.#usedBytes += buffer.length
    }
    this.#makeRoom(held)
  }

  removeBuffers(holder: MemoryHolder, buffers: readonly Buffer[]): void {
    const held = this.#holders.get(holder)
    if (!held) return
    for (const buffer of buffers) if (held.buffers.delete(buffer)) this.#dereference(buffer)
    this.#forgetIfEmpty(holder, held)
  }

  /** What the holder still has is released. */
  release(holder: MemoryHolder): void {
    const held = this.#holders.get(holder)
    if (!held) return
    this.#holders.delete(holder)
    this.#usedBytes -= held.bytes
    for (const buffer of held.buffers) this.#dereference(buffer)
  }

  #heldBy(holder: MemoryHolder): Held {
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

  #forgetIfEmpty(holder: MemoryHolder, { bytes, buffers }: Held): void {
    if (bytes <= 0 && buffers.size === 0) this.#holders.delete(holder)
  }

  /** Called after `newest` got more. */
  #makeRoom(newest: Held): void {
    while (this.#usedBytes > this.#limitBytes) {
      let most = 0
      for (const held of this.#holders.values()) most = Math.max(most, this.#bytesToFree(held, newest))
      // One alone is not destroyed, and readers of one list are like one: the list may be larger than the limit.
      if (most === 0 || this.#holders.size === 1) return
      for (const [holder, held] of this.#holders) {
        if (this.#bytesToFree(held, newest) < most / 2) continue
        this.release(holder)
        holder.destroy()
        break
      }
    }
  }

  /** What `newest` holds as well is not free without this holder; nor, of its own, what others hold as well. */
  #bytesToFree(held: Held, newest: Held): number {
    let { bytes } = held
    for (const buffer of held.buffers) {
      const isKept = held === newest ? this.#references.get(buffer) !== 1 : newest.buffers.has(buffer)
      if (!isKept) bytes += buffer.length
    }
    return bytes
  }
}
