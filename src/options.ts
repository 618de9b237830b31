import { readFileSync } from 'node:fs'

/** One thing a command can be told, as a flag or, where `variable` says so, in the environment. */
interface Option<T = unknown> {
  /** What stands behind the flag; absent for a switch. */
  readonly takes?: string
  readonly short?: string
  /** May be given more than once; in the environment, separated by commas. */
  readonly many?: true
  /** Where it can be said besides the flag: in TODO_…, nowhere, or only there because it is a secret. */
  readonly variable?: 'none' | 'only'
  /** Is not shown when it is refused. */
  readonly secret?: true
  /** Ends the sentence that refuses a value. */
  readonly expects: string
  readonly help: string
  read(text: string): T | undefined
}

export type Options = Readonly<Record<string, Option>>

type ValueOf<O extends Option> =
  O extends Option<infer T> ? (O extends { many: true } ? readonly T[] : T | undefined) : never

export interface Given<O extends Options> {
  readonly values: { readonly [Name in keyof O]: ValueOf<O[Name]> }
  /** The flag or variable that said it, for a sentence about it. */
  sourceOf(name: keyof O): string | undefined
  /** Arguments that are no flags. */
  readonly rest: readonly string[]
  readonly problems: string[]
}

const variableOf = (name: string) => `TODO_${name.toUpperCase().replaceAll('-', '_')}`

/** Flags win over environment variables. Every mistake is listed, not just the first. */
export function readOptions<O extends Options>(options: O, args: readonly string[], env: NodeJS.ProcessEnv): Given<O> {
  const problems: string[] = []
  const rest: string[] = []
  const said = readFlags(options, args, rest, problems)
  for (const [name, { variable, many }] of Object.entries(options)) {
    const text = variable === 'none' ? undefined : env[variableOf(name)]
    if (text && !said.has(name))
      said.set(name, { source: variableOf(name), texts: many ? text.split(',').map((part) => part.trim()) : [text] })
  }
  const values = Object.entries(options).map(([name, { many, variable, secret, expects, read }]) => {
    const { source, texts = [] } = said.get(name) ?? {}
    const results = texts.map((text) => {
      const value = read(text)
      const found = secret || variable === 'only' || isSecret(text) ? '' : `, not ${JSON.stringify(text.slice(0, 100))}`
      if (value === undefined) problems.push(`${source} must be ${expects}${found}.`)
      return value
    })
    return [name, many ? results.filter((value) => value !== undefined) : results.at(-1)]
  })
  return {
    values: Object.fromEntries(values),
    sourceOf: (name) => said.get(name as string)?.source,
    rest,
    problems,
  }
}

/** What a slip of the hand must not put on the screen: a key, or the password in a URL. */
const isSecret = (text: string) => /PRIVATE KEY|\/\/[^/]*@/.test(text)

type Said = Map<string, { source: string; texts: string[] }>

function readFlags(options: Options, args: readonly string[], rest: string[], problems: string[]): Said {
  const said: Said = new Map()
  const left = [...args]
  for (let arg = left.shift(); arg !== undefined; arg = left.shift()) {
    if (!arg.startsWith('-') || arg === '-') {
      rest.push(arg)
      continue
    }
    const equals = arg.indexOf('=')
    const source = equals < 0 ? arg : arg.slice(0, equals)
    const inline = equals < 0 ? undefined : arg.slice(equals + 1)
    const next = () => inline ?? (left[0]?.startsWith('--') ? undefined : left.shift())
    const [name, option] = Object.entries(options).find(([key, o]) => isFlag(source, key, o)) ?? []
    if (!name || !option) {
      problems.push(
        /^-{1,2}\w[\w-]{0,40}$/.test(source) ? `Unknown flag ${source}.` : 'An argument begins with - and is no flag.',
      )
      next()
      continue
    }
    const text = option.takes ? next() : (inline ?? 'true')
    if (text === undefined) problems.push(`${source} needs a value: ${option.expects}.`)
    else said.set(name, { source, texts: [...(said.get(name)?.texts ?? []), text] })
  }
  return said
}

const isFlag = (text: string, name: string, { short, variable }: Option) =>
  variable !== 'only' && (text === `--${name}` || (short !== undefined && text === `-${short}`))

/** One row for each option: flag, variable, help. */
export function optionsHelp(options: Options): string {
  const rows = Object.entries(options).map(([name, { takes, short, many, variable, help }]) => {
    const flag = `${short ? `-${short}, ` : ''}--${name}${takes ? ` ${takes}` : ''}${many ? ' …' : ''}`
    return [variable === 'only' ? '' : flag, variable === 'none' ? '' : variableOf(name), help]
  })
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  const [flags, variables] = [width(0), width(1)]
  return rows
    .map(([flag = '', variable = '', help]) => {
      const second = variables ? `${variable.padEnd(variables)}  ` : ''
      return `  ${flag.padEnd(flags)}  ${second}${help}\n`
    })
    .join('')
}

export const oneOf =
  <T extends string>(...choices: readonly T[]) =>
  (text: string): T | undefined =>
    choices.find((choice) => choice === text)

export const wholeNumber = (least: number, most: number) => (text: string) => {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  return number >= least && number <= most ? number : undefined
}

export const anyText = (text: string) => (text.trim() === '' ? undefined : text)

const yesOrNo = (text: string) =>
  /^(?:true|1|yes)$/i.test(text) ? true : /^(?:false|0|no)$/i.test(text) ? false : undefined
/** A flag that takes nothing. */
export const toggle = (help: string) => ({ expects: 'true or false', help, read: yesOrNo })

/** Reads what a file holds; undefined where it cannot be read or holds something else. */
export function fileWith<T>(read: (text: string) => T | undefined): (file: string) => T | undefined {
  return (file) => {
    try {
      return read(readFileSync(file, 'utf8'))
    } catch {
      return undefined
    }
  }
}

/** For a command that takes flags alone: says so of everything else. */
export function refuseArguments(rest: readonly string[], problems: string[]): void {
  for (const argument of rest) problems.push(`Unexpected argument ${JSON.stringify(argument)}.`)
}
