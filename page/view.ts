import type { Info, UsedRule } from '../src/control/schema.ts'

/** The parameters of a view in the address, such as `status` in `#/traffic?status=4xx`. */
type Parameters = Readonly<Partial<Record<string, string>>>

/** What the views share. */
export interface App {
  info: Info
  rules: readonly UsedRule[]
  isOnline: boolean
  /** Replaces the parameters of the view in the address, without a new entry in the history. */
  setParameters(view: string, parameters: Readonly<Record<string, string>>): void
  notify(text: string): void
}

export interface View {
  readonly title: string
  readonly element: HTMLElement
  show(parameters: Parameters): void
}
