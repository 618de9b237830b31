import type { ActiveFault, Info, JournalEntry } from '../src/control/schema.ts'

/** The parameters of a view in the address, such as `status` in `#/traffic?status=4xx`. */
type ViewParameters = Readonly<Partial<Record<string, string>>>

/** The button of a message. */
interface Action {
  readonly label: string
  run(): unknown
}

/** The state and functions that all views share. */
export interface App {
  info: Info
  faults: readonly ActiveFault[]
  /** The journal entries of the service by id, the oldest first. */
  readonly entries: ReadonlyMap<number, JournalEntry>
  /** How many requests clients have sent, including those that the journal has removed. */
  total: number
  isOnline: boolean
  /** Replaces the parameters of the view in the address, without a new entry in the history. */
  setParameters(view: string, parameters: Readonly<Record<string, string>>): void
  /** Shows a message for a while. Returns a function that removes it earlier. */
  notify(text: string, action?: Action): () => void
}

export interface View {
  /** The element of the view, whose label is its name. */
  readonly element: HTMLElement
  show(parameters: ViewParameters): void
  /** Called when the items have changed. */
  itemsChanged?(): void
  /** Called when the faults, or the information about the service, have changed. */
  faultsChanged?(): void
  /** Called when journal entries were added, changed or removed; at most ten times a second. */
  entriesChanged?(): void
}
