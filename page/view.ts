import type { ActiveFault, Info, JournalEntry } from '../src/control/schema.ts'

/** The parameters of a view in the address, such as `status` in `#/traffic?status=4xx`. */
type ViewParameters = Readonly<Partial<Record<string, string>>>

/** What a message offers to do. */
interface Action {
  readonly label: string
  run(): unknown
}

/** What the views share. */
export interface App {
  info: Info
  faults: readonly ActiveFault[]
  /** The requests that the service remembers, by id, oldest first. */
  readonly entries: ReadonlyMap<number, JournalEntry>
  /** How many requests clients have sent, with those that are not remembered. */
  total: number
  isOnline: boolean
  /** Replaces the parameters of the view in the address, without a new entry in the history. */
  setParameters(view: string, parameters: Readonly<Record<string, string>>): void
  /** Returns what removes the message, which goes by itself, too. */
  notify(text: string, action?: Action): () => void
}

export interface View {
  /** Its label is the name of the view. */
  readonly element: HTMLElement
  show(parameters: ViewParameters): void
  /** Called when the items have changed. */
  itemsChanged?(): void
  /** Called when the faults have changed, or the information about the service. */
  faultsChanged?(): void
  /** Called at most ten times a second, when entries came, ended or went. */
  entriesChanged?(): void
}
