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

export interface Terms {
  readonly rounds: number
  /** Of the work's requests, the share that a slice sends. */
  readonly share: number
  /** Milliseconds for which each contender is warmed up before each work. */
  readonly warmUp: number
}

/** Rounds of slices, each contender in turn, so that a disturbance meets all of them. */
export async function measure(
  work: Work,
  contenders: readonly Contender[],
  holdings: Map<Contender, Held>,
  { rounds, share, warmUp }: Terms,
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
    for (let sent = 0; sent < warmUp; ) sent += 1000 * (await slice(work, contender, held, requests)).seconds
  }
  for (let round = 0; round < rounds; round++)
    for (const at of contenders.keys()) {
      const turn = (at + round) % contenders.length
      const contender = contenders[turn] as Contender
      const { cpu, seconds, p99, sent } = await slice(work, contender, holdings.get(contender) as Held, requests)
      if (cpu !== undefined) results[turn]?.cpu.push(cpu / sent)
      results[turn]?.perSecond.push(sent / seconds)
      results[turn]?.p99.push(p99)
    }
  return results
}

async function slice(work: Work, contender: Contender, held: Held, requests: number) {
  await work.prepare?.(contender, held, requests)
  const before = contender.pid && cpuOf(contender.pid)
  const { seconds, p99, statuses } = await send(work, contender, held, requests)
  const cpu = contender.pid && cpuOf(contender.pid) - (before ?? 0)
  const sent = Object.values(statuses).reduce((sum, count) => sum + count, 0)
  await work.cleanUp?.(contender, held, requests)
  return { cpu, seconds, p99, sent }
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
