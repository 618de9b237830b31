/** The parts of `process` that commands use. */
export type Process = Pick<NodeJS.Process, 'argv' | 'env' | 'stdin' | 'stdout' | 'stderr' | 'on' | 'once' | 'exit'>

export interface Command {
  readonly help: string
  /** Returns the exit code, or all usage errors. */
  run(args: readonly string[], process: Process): Promise<number | { problems: readonly string[] }>
}
