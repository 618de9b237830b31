import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'

/** The program that runs the service. */
export interface Runtime {
  readonly name: 'Node' | 'Bun' | 'Deno'
  readonly nameAndVersion: string
  readonly heapLimitBytes: number
  /** Why a flag of `serve` with this value is not possible, as the end of a sentence; undefined where it is. */
  findProblem(flag: string, value: unknown): string | undefined
}

declare const Bun: { readonly version: string } | undefined
declare const Deno: { readonly version: { readonly deno: string } } | undefined

/** The heap limit of Node on a machine with as much memory or more. */
const maxHeapBytes = 4 * 2 ** 30
/** The longest idle timeout of Bun.serve. */
const maxIdleSeconds = 255

const flagsOfNode = ['workers', 'max-connections']

const withoutCounterpart = (flags: readonly string[], flag: string) =>
  flags.includes(flag) ? 'has no counterpart there: leave it out, or run the service with Node' : undefined

function findRuntime(): Runtime {
  const { heap_size_limit: heapLimitBytes } = getHeapStatistics()
  if (typeof Bun !== 'undefined')
    return {
      name: 'Bun',
      nameAndVersion: `Bun ${Bun.version}`,
      // JavaScriptCore has no limit but the memory of the machine; `node:v8` reports the current size.
      heapLimitBytes: Math.min(totalmem(), maxHeapBytes),
      findProblem: (flag, value) =>
        flag === 'keep-alive-timeout' && Number(value) > maxIdleSeconds
          ? `can be at most ${maxIdleSeconds}`
          : withoutCounterpart(flagsOfNode, flag),
    }
  if (typeof Deno !== 'undefined')
    return {
      name: 'Deno',
      nameAndVersion: `Deno ${Deno.version.deno}`,
      heapLimitBytes,
      findProblem: (flag) => withoutCounterpart([...flagsOfNode, 'keep-alive-timeout'], flag),
    }
  return { name: 'Node', nameAndVersion: 'Node', heapLimitBytes, findProblem: () => undefined }
}

export const runtime = findRuntime()
