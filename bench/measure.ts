import { type Contender, cpuOf } from './contender.ts'
import { fill, type Held, send, type Work } from './work.ts'

/** One contender's figures for one piece of work, round by round. */
export interface Measured {
  readonly contender: string
  /** Microseconds of the server process for a request; empty where it cannot be seen. */
  readonly cpu: readonly number[]
  readonly perSecond: readonly number[]
  /** Milliseconds. */
  readonly p99: readonly number[]
}

export interface Round {
  readonly rounds: number
  /** Of the work's requests, the share that a slice sends. */
  readonly share: number
}

const warmUp = 0.5

/** Rounds of slices, each contender in turn, so that a disturbance meets all of them. */
export async function measure(
  work: Work,
  contenders: readonly Contender[],
  holdings: Map<Contender, Held>,
  { rounds, share }: Round,
): Promise<Measured[]> {
  const requests = Math.max(4, Math.round(work.requests * share))
  const results = contenders.map(({ name }) => ({
    contender: name,
    cpu: [] as number[],
    perSecond: [] as number[],
    p99: [] as number[],
  }))
  for (const contender of contenders) {
    const held = holdings.get(contender) ?? { first: 1, last: 0 }
    holdings.set(contender, held)
    await fill(work.profile, contender, held, work.items - (held.last - held.first + 1))
  }
  for (let round = -1; round < rounds; round++)
    for (const at of contenders.keys()) {
      const turn = (at + Math.max(round, 0)) % contenders.length
      const contender = contenders[turn] as Contender
      const held = holdings.get(contender) as Held
      const count = round < 0 ? Math.ceil(requests * warmUp) : requests
      await work.prepare?.(contender, held, count)
      const before = contender.pid && cpuOf(contender.pid)
      const { seconds, p99 } = await send(work, contender, held, count)
      const used = contender.pid && cpuOf(contender.pid) - (before ?? 0)
      await work.cleanUp?.(contender, held, count)
      if (round < 0) continue
      if (used) results[turn]?.cpu.push(used / count)
      results[turn]?.perSecond.push(count / seconds)
      results[turn]?.p99.push(p99)
    }
  return results
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2
}

/** Rival ÷ ours, round by round, where more is better for us. */
export const ratios = (ours: readonly number[], rivals: readonly number[]) =>
  rivals.map((value, round) => value / (ours[round] ?? Number.NaN))
