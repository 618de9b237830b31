/** What a command sees of the process it runs in. */
export type Process = Pick<NodeJS.Process, 'argv' | 'env' | 'stdout' | 'stderr' | 'on' | 'once' | 'exit'>

export interface Command {
  readonly help: string
  /** Gives back the exit code, or everything that is wrong with how it was called. */
  run(args: readonly string[], process: Process): Promise<number | { problems: readonly string[] }>
}
