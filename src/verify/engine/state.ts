import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'

/** What a run knows. Runs of one process may be concurrent; checks may be called outside a run. */
interface RunState {
  readonly id: string
  /** Checks that others build on and that were judged, by what they provide; undefined: passed. */
  readonly basics: Map<string, { readonly rule: string; readonly name: string } | undefined>
}

const newState = (): RunState => ({ id: randomBytes(5).toString('hex'), basics: new Map() })
const states = new AsyncLocalStorage<RunState>()
const outside = newState()
export const runState = () => states.getStore() ?? outside
export const asRun = <T>(work: () => Promise<T>): Promise<T> => states.run(newState(), work)
let texts = 0
/** Marks an item as one of this run. Needs no encoding in a path. */
export const uniqueText = () => `verify-${runState().id}-${`${++texts}`.padStart(textDigits, '0')}`
/** No text begins with another one. */
const textDigits = 6
/** Whether `uniqueText` made the text; a server may have changed its case. */
export const isFromThisRun = (text: unknown) =>
  typeof text === 'string' && text.toLowerCase().includes(`verify-${runState().id}`)
