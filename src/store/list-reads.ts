import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ListRepresentation, type Reader, setRecent, WithdrawnError } from './store.ts'

/** A longer list is read in parts, so that other requests are served meanwhile. */
export const maxWholeBytes = 2 ** 20
/** The size of a part. A part with a single item may be larger. */
export const partBytes = 256 * 1024

const [openingBracket, closingBracket] = [Buffer.from('['), Buffer.from(']')]

/** Returns a list as buffers, a short one as one buffer. In the parts, a comma precedes each item. */
export function joinParts(parts: readonly Buffer[]): readonly Buffer[] {
  const [first, ...others] = parts
  const buffers = [openingBracket, ...(first ? [first.subarray(1), ...others] : []), closingBracket]
  const length = lengthOf(buffers)
  return length > partBytes ? buffers : [Buffer.concat(buffers, length)]
}

export const lengthOf = (buffers: readonly Buffer[]) => buffers.reduce((sum, { length }) => sum + length, 0)

/** Returns the entity tag of a list, a hash of its text. Other requests are served meanwhile. */
export async function hashEtag(buffers: readonly Buffer[]): Promise<string> {
  const hash = createHash('sha256')
  for (const [index, buffer] of buffers.entries()) {
    hash.update(buffer)
    if (index > 0) await nextTurn()
  }
  return `"${hash.digest('base64url')}"`
}

type Buffers = readonly Buffer[]

/** A list as it was read last. */
interface KnownList<Version> {
  /** Two lists with the same version are the same. */
  readonly version: Version
  readonly bytes: number
  /** Clients that read slowly share them. */
  readonly buffers: WeakRef<Buffers> | undefined
}

const maxKnownLists = 10_000

/** Size, version and buffers of the lists that were read last, by space. */
export class KnownLists<Version> {
  readonly #known = new Map<string, KnownList<Version>>()
  readonly #kept = new Map<string, Buffers>()
  readonly #maxKeptBytes: number
  #keptBytes = 0

  /** Buffers stay as long as a response uses them; those of the last lists stay up to `maxKeptBytes` in all. */
  constructor(maxKeptBytes = 0) {
    this.#maxKeptBytes = maxKeptBytes
  }

  get(space: string): KnownList<Version> | undefined {
    return this.#known.get(space)
  }

  set(space: string, version: Version, bytes: number, buffers?: Buffers): void {
    setRecent(this.#known, space, { version, bytes, buffers: buffers && new WeakRef(buffers) }, maxKnownLists)
    this.#drop(space)
    if (buffers) this.#keep(space, buffers)
  }

  #keep(space: string, buffers: Buffers): void {
    this.#kept.set(space, buffers)
    this.#keptBytes += lengthOf(buffers)
    for (const first of this.#kept.keys()) {
      if (this.#keptBytes <= this.#maxKeptBytes) break
      this.#drop(first)
    }
  }

  #drop(space: string): void {
    this.#keptBytes -= lengthOf(this.#kept.get(space) ?? [])
    this.#kept.delete(space)
  }
}

interface Waiting {
  readonly reader: Reader | undefined
  resolve(list: ListRepresentation): void
  reject(error: unknown): void
}

interface ListReadsSettings {
  /** Whether reading this list probably takes long. */
  isLong(space: string): boolean
  /** May throw a WithdrawnError once the list is no longer wanted. */
  read(space: string, isWanted: () => boolean): Promise<ListRepresentation>
  readonly longReads: LongReads
}

/** Long lists of all spaces and profiles are read one after the other. */
export class LongReads {
  #last: Promise<void> = Promise.resolve()

  /** Calls `read`, which must not reject, when all earlier reads have ended. */
  inTurn(read: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(read)
    return this.#last
  }
}

/**
 * Reading a long list is expensive, requesting it is cheap. So a list is read once at a time: clients that request it
 * meanwhile share the next read. Nothing is read for clients that have left.
 */
export function listReads({ isLong, read, longReads }: ListReadsSettings) {
  /** The clients that wait for the next read, by space; there is an entry while the list of the space is being read. */
  const waitingClients = new Map<string, Waiting[]>()

  async function readAll(space: string, waiting: Waiting[]): Promise<void> {
    while (waiting.length > 0) {
      // Clients that ask in this turn of the event loop share the read, too.
      await nextTurn()
      const readNext = () => readOnce(space, waiting.splice(0))
      await (isLong(space) ? longReads.inTurn(readNext) : readNext())
    }
    waitingClients.delete(space)
  }

  async function readOnce(space: string, readers: readonly Waiting[]): Promise<void> {
    const isWanted = () => readers.some(({ reader }) => !reader?.isAborted)
    try {
      if (!isWanted()) throw new WithdrawnError()
      const list = await read(space, isWanted)
      for (const { resolve } of readers) resolve(list)
    } catch (error) {
      for (const { reject } of readers) reject(error)
    }
  }

  return (space: string, reader?: Reader): Promise<ListRepresentation> =>
    new Promise((resolve, reject) => {
      const waiting = waitingClients.get(space) ?? []
      waiting.push({ reader, resolve, reject })
      if (waitingClients.has(space)) return
      waitingClients.set(space, waiting)
      void readAll(space, waiting)
    })
}
