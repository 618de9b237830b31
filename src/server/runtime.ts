import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'

/** The program that runs the service. */
export interface Runtime {
  readonly name: 'Node' | 'Bun' | 'Deno'
  readonly nameAndVersion: string
  readonly heapLimitBytes: number
  /** Returns why a flag of `serve` cannot have this value, as the end of a sentence; undefined if it can. */
  findProblem(flag: string, value: unknown): string | undefined
}

declare const Bun: { readonly version: string } | undefined
declare const Deno: { readonly version: { readonly deno: string } } | undefined

/** The highest heap limit that Node chooses by itself. */
const maxHeapBytes = 4 * 2 ** 30
/** The longest idle timeout of Bun.serve. */
const maxIdleSeconds = 255

const nodeOnlyFlags = ['workers', 'max-connections']

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
          : withoutCounterpart(nodeOnlyFlags, flag),
    }
  if (typeof Deno !== 'undefined')
    return {
      name: 'Deno',
      nameAndVersion: `Deno ${Deno.version.deno}`,
      heapLimitBytes,
      findProblem: (flag) => withoutCounterpart([...nodeOnlyFlags, 'keep-alive-timeout'], flag),
    }
  return { name: 'Node', nameAndVersion: 'Node', heapLimitBytes, findProblem: () => undefined }
}

export const runtime = findRuntime()
