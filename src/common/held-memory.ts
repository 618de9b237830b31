/** A connection, a delayed request, or on Bun and Deno, which do not expose connections, a response. */
export interface MemoryHolder {
  /** Called when the limit is exceeded. */
  destroy(): void
}

interface Held {
  bytes: number
  readonly buffers: Set<Buffer>
}

/**
 * Counts the memory of waiting and delayed requests and of unread responses, over all listeners of a service. Above the
 * limit, the oldest holder that has at least half as much as the largest one is destroyed: clients that do not read
 * must neither exhaust the heap nor keep other clients out.
 */
export class HeldMemory {
  readonly #limitBytes: number
  #usedBytes = 0
  /** The oldest first. */
  readonly #holders = new Map<MemoryHolder, Held>()
  /** How many holders have a buffer: a list is sent to many clients from the same buffers, and each counts once. */
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

  /** Removes all memory that the holder still has. */
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

  /** Destroys holders while the limit is exceeded. `newest` is the holder that has just got more memory. */
  #makeRoom(newest: Held): void {
    while (this.#usedBytes > this.#limitBytes) {
      let most = 0
      for (const held of this.#holders.values()) most = Math.max(most, this.#bytesToFree(held, newest))
      // A list may be larger than the limit: its only reader is not destroyed, nor are several that share its buffers.
      if (most === 0 || this.#holders.size === 1) return
      for (const [holder, held] of this.#holders) {
        if (this.#bytesToFree(held, newest) < most / 2) continue
        this.release(holder)
        holder.destroy()
        break
      }
    }
  }

  /** Returns what destroying a holder frees: no buffer shared with `newest`; for `newest`, no shared buffer at all. */
  #bytesToFree(held: Held, newest: Held): number {
    let { bytes } = held
    for (const buffer of held.buffers) {
      const isKept = held === newest ? this.#references.get(buffer) !== 1 : newest.buffers.has(buffer)
      if (!isKept) bytes += buffer.length
    }
    return bytes
  }
}
