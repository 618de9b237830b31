import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import type { HttpHandler } from '../http/dispatch.ts'
import type { Address, Listening } from './listen.ts'
import type { ServerLimits } from './node-server.ts'
import type { Resources } from './resources.ts'

/** A runtime other than Node, with a server of its own. */
export interface NativeRuntime {
  /** With its version. */
  readonly name: string
  /** What the server cannot do: why a flag of `serve` with this value is not possible, as the end of a sentence. */
  findProblem(flag: string, value: unknown): string | undefined
  /** Undefined: as `node:v8` says. */
  readonly heapLimitBytes: number | undefined
  load(): Promise<{ readonly bind: Bind }>
}

export type Bind = (
  handler: HttpHandler,
  address: Address,
  limits: ServerLimits,
  resources: Resources,
  now: () => Date,
) => Listening

declare const Bun: { readonly version: string } | undefined
declare const Deno: { readonly version: { readonly deno: string } } | undefined

/** As Node has on a machine with as much memory or more. */
const maxHeapBytes = 4 * 2 ** 30
/** Of the idle timeout of Bun.serve. */
const maxIdleSeconds = 255

const flagsOfNode = ['workers', 'max-connections']

const withoutCounterpart = (flags: readonly string[], flag: string) =>
  flags.includes(flag) ? 'has no counterpart there: leave it out, or run the service with Node' : undefined

function findRuntime(): NativeRuntime | undefined {
  if (typeof Bun !== 'undefined')
    return {
      name: `Bun ${Bun.version}`,
      findProblem: (flag, value) =>
        flag === 'keep-alive-timeout' && Number(value) > maxIdleSeconds
          ? `can be at most ${maxIdleSeconds}`
          : withoutCounterpart(flagsOfNode, flag),
      // JavaScriptCore has no limit but the memory of the machine; `node:v8` reports the current size.
      heapLimitBytes: Math.min(totalmem(), maxHeapBytes),
      load: () => import('./bun-server.ts'),
    }
  if (typeof Deno !== 'undefined')
    return {
      name: `Deno ${Deno.version.deno}`,
      findProblem: (flag) => withoutCounterpart([...flagsOfNode, 'keep-alive-timeout'], flag),
      heapLimitBytes: undefined,
      load: () => import('./deno-server.ts'),
    }
  return undefined
}

/** Undefined: Node. */
export const nativeRuntime = findRuntime()

export const heapLimitBytes = () => nativeRuntime?.heapLimitBytes ?? getHeapStatistics().heap_size_limit
