import { readFileSync } from 'node:fs'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { attempt } from '../common/attempt.ts'
import { nearestWord } from '../common/nearest-word.ts'

/** A setting of a command: a flag, an environment variable, or both. */
interface Option<T = unknown> {
  /** The placeholder of the value in the help text; absent for a boolean flag. */
  readonly takes?: string
  readonly short?: string
  /** The flag can be repeated; commas separate the values of the variable. */
  readonly many?: true
  /** Absent: a flag and a TODO_ variable. `none`: no variable. `only`: no flag, because command lines are public. */
  readonly variable?: 'none' | 'only'
  /** Error messages do not show the value. */
  readonly secret?: true
  /** Completes the error message "--flag must be …". */
  readonly expects: string
  readonly help: string
  /** Parses a value; returns undefined if it is invalid. */
  read(text: string): T | undefined
}

export type Options = Readonly<Record<string, Option>>

type OptionValue<O extends Option> =
  O extends Option<infer T> ? (O extends { many: true } ? readonly T[] : T | undefined) : never

export interface ParsedOptions<O extends Options> {
  readonly values: { readonly [Name in keyof O]: OptionValue<O[Name]> }
  /** The flag or variable that set the option, for error messages. */
  sourceOf(name: keyof O): string | undefined
  /** The positional arguments. */
  readonly rest: readonly string[]
  readonly problems: string[]
}

interface OptionInput {
  readonly source: string
  readonly texts: readonly string[]
}

const variableOf = (name: string) => `TODO_${name.toUpperCase().replaceAll('-', '_')}`

/** Kubernetes sets such variables for each Service; for one named "todo", it sets TODO_PORT to tcp://10.0.0.1:80. */
const serviceLinkName = /_SERVICE_HOST$|_SERVICE_PORT(?:_\w+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/
const isServiceLink = (name: string, value: string) =>
  serviceLinkName.test(name) || /^(?:tcp|udp|sctp):\/\//.test(value)

/** Returns a message for each TODO_ variable that belongs to none of these options. An empty one counts as absent. */
export function unknownVariables(options: Options, env: NodeJS.ProcessEnv): string[] {
  const known = Object.keys(options)
    .filter((name) => options[name]?.variable !== 'none')
    .map(variableOf)
  return Object.entries(env).flatMap(([name, value = '']) => {
    if (!/^TODO_\w{1,60}$/.test(name) || value === '' || known.includes(name) || isServiceLink(name, value)) return []
    const nearest = nearestWord(name, known)
    return `Unknown variable ${name}.${nearest ? ` Did you mean ${nearest}?` : ''}`
  })
}

/** Without `--`, npm consumes the flags of `npm start`; the script finds them in npm_config_ variables only. */
export function findFlagsTakenByNpm(options: Options, args: readonly string[], env: NodeJS.ProcessEnv): string[] {
  if (env.npm_lifecycle_event !== 'start' || env.npm_package_name !== 'todo-item-service') return []
  const takenFlags = Object.keys(options).flatMap((name) => {
    const value = env[`npm_config_${name.replace(/^no-/, '').replaceAll('-', '_')}`]
    if (value === undefined || (value === '') !== name.startsWith('no-')) return []
    // npm reads `--flag value` as a flag `true` and passes the value on as an argument.
    return `--${name}${options[name]?.takes ? ` ${value === 'true' ? (args[0] ?? '…') : value}` : ''}`
  })
  if (takenFlags.length === 0) return []
  return [`npm takes flags in front of -- for its own. Type: npm start -- ${takenFlags.join(' ')}`]
}

/** Flags win over environment variables. Reports every mistake, not just the first. */
export function readOptions<O extends Options>(
  options: O,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): ParsedOptions<O> {
  const inputs = new Map<string, OptionInput>()
  const rest: string[] = []
  const problems: string[] = []
  readFlags(options, args, { inputs, rest, problems })
  for (const [name, { variable, many }] of Object.entries(options)) {
    const source = variableOf(name)
    const text = variable === 'none' ? undefined : env[source]
    if (text && !inputs.has(name) && !isServiceLink(source, text))
      inputs.set(name, { source, texts: many ? text.split(',').map((part) => part.trim()) : [text] })
  }
  const values = Object.entries(options).map(([name, { many, variable, secret, expects, read }]) => {
    const { source, texts = [] } = inputs.get(name) ?? {}
    const results = texts.map((text) => {
      const value = read(text)
      const actual = secret || variable === 'only' ? '' : notThis(text)
      if (value === undefined) problems.push(`${source} must be ${expects}${actual}.`)
      return value
    })
    return [name, many ? results.filter((value) => value !== undefined) : results.at(-1)]
  })
  return {
    values: Object.fromEntries(values),
    sourceOf: (name) => inputs.get(name as string)?.source,
    rest,
    problems,
  }
}

/** Parses without `strict`, which would throw at the first mistake. Parsing goes on after each mistake. */
function readFlags(
  options: Options,
  args: readonly string[],
  parsed: { readonly inputs: Map<string, OptionInput>; readonly rest: string[]; readonly problems: string[] },
): void {
  const { inputs, rest, problems } = parsed
  const { flags, tokens } = tokensOf(options, args)
  for (const token of tokens) {
    if (token.kind === 'positional') rest.push(token.value)
    if (token.kind !== 'option') continue
    const { name, index, rawName: source, inlineValue } = token
    const [argument = '', next] = args.slice(index)
    // parseArgs would read -output as -o with the value "utput", and -o=x as -o with the value "=x".
    const isKnown = Object.hasOwn(flags, name) && argument.split('=', 1)[0] === source
    const option = isKnown ? options[name] : undefined
    if (!option) {
      problems.push(unknownFlag(argument, Object.keys(flags)))
      // Skips the value of an unknown flag, which would be reported as a second mistake.
      const hasValue = !argument.includes('=') && !next?.startsWith('--')
      readFlags(options, args.slice(index + (hasValue ? 2 : 1)), parsed)
      return
    }
    const value = inlineValue ? argument.slice(source.length + 1) : token.value
    // parseArgs accepts the next flag as a value.
    if (option.takes && (value === undefined || (!inlineValue && value.startsWith('--')))) {
      problems.push(`${source} needs a value: ${option.expects}.`)
      readFlags(options, args.slice(index + 1), parsed)
      return
    }
    inputs.set(name, { source, texts: [...(inputs.get(name)?.texts ?? []), value ?? 'true'] })
  }
}

function tokensOf(options: Options, args: readonly string[]) {
  const flags: NonNullable<ParseArgsConfig['options']> = {}
  for (const [name, { takes, short, variable }] of Object.entries(options))
    if (variable !== 'only') flags[name] = { type: takes ? 'string' : 'boolean', ...(short && { short }) }
  return { flags, ...parseArgs({ args, options: flags, strict: false, allowPositionals: true, tokens: true }) }
}

/** Returns valid arguments with some flags changed, to be shown to the user: a secret becomes an ellipsis. */
export function withFlags(
  options: Options,
  args: readonly string[],
  changed: Readonly<Record<string, string>>,
): string[] {
  const kept = tokensOf(options, args).tokens.flatMap((token) => {
    if (token.kind !== 'option' || Object.hasOwn(changed, token.name)) return []
    const { name, rawName, value, inlineValue } = token
    const shown = options[name]?.secret || containsSecret(value ?? '') ? '…' : value
    if (shown === undefined) return rawName
    return inlineValue ? `${rawName}=${shown}` : [rawName, shown]
  })
  return [...kept, ...Object.entries(changed).flatMap(([name, value]) => [`--${name}`, value])]
}

function unknownFlag(argument: string, known: readonly string[]): string {
  const [, flag, name] = /^(--?(\w[\w-]{0,40}))(?:=|$)/.exec(argument) ?? []
  // The argument is not shown, because it may be a secret such as a private key in PEM format.
  if (!flag || !name) return 'An argument starts with - but is not a flag.'
  const nearest = nearestWord(name, known)
  return nearest ? `Unknown flag ${flag}. Did you mean --${nearest}?` : `Unknown flag ${flag}.`
}

/** Finds a private key, or a URL with a password, that was passed to the wrong option. */
const containsSecret = (text: string) => /PRIVATE KEY|\/\/[^/]*@/.test(text)

/** Ends an error message with the value that was passed, unless it contains a secret. */
export const notThis = (text: string) => (containsSecret(text) ? '' : `, not ${quote(text)}`)

const quote = (text: string) => JSON.stringify(text.slice(0, 100))

/** Reports the positional arguments of a command that takes none. */
export function rejectArguments(rest: readonly string[], problems: string[]): void {
  for (const argument of rest)
    problems.push(containsSecret(argument) ? 'Unexpected argument.' : `Unexpected argument ${quote(argument)}.`)
}

/** Returns the lines of the help text: flag, variable and description of each option. */
export function optionsHelp(options: Options): string {
  const lines = Object.entries(options).map(([name, { takes, short, many, variable, help }]) => {
    const flag = `${short ? `-${short}, ` : ''}--${name}${takes ? ` ${takes}` : ''}${many ? ' …' : ''}`
    return { flag: variable === 'only' ? '' : flag, variable: variable === 'none' ? '' : variableOf(name), help }
  })
  const flagWidth = Math.max(...lines.map(({ flag }) => flag.length))
  const variableWidth = Math.max(...lines.map(({ variable }) => variable.length))
  return lines
    .map(({ flag, variable, help }) => {
      const column = variableWidth > 0 ? `${variable.padEnd(variableWidth)}  ` : ''
      return `  ${flag.padEnd(flagWidth)}  ${column}${help}\n`
    })
    .join('')
}

/** An option that takes a value. `expects` completes the error message "--flag must be …". */
export const option = <T>(takes: string, expects: string, help: string, read: (text: string) => T | undefined) => ({
  takes,
  expects,
  help,
  read,
})

export const toggle = (help: string) => ({
  expects: 'true or false',
  help,
  read: (text: string) => (/^(?:true|1|yes)$/i.test(text) ? true : /^(?:false|0|no)$/i.test(text) ? false : undefined),
})

export const integerFrom = (takes: string, min: number, max: number, help: string) =>
  option(takes, `a whole number from ${min} to ${max}`, help, readInteger(min, max))

export const readInteger = (min: number, max: number) => (text: string) => {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  return number >= min && number <= max ? number : undefined
}

export const choice = <const T extends string>(takes: string, choices: readonly T[], help: string) =>
  option(takes, choices.join(', ').replace(/, (?=[^,]*$)/, ' or '), help, (text) =>
    choices.find((candidate) => candidate === text),
  )

/** An option whose value is any text that is not blank. */
export const anyText = (takes: string, expects: string, help: string) =>
  option(takes, expects, help, (value) => (value.trim() === '' ? undefined : value))

export const fileName = (help: string) => anyText('FILE', 'a file name', help)

/** An option that names a file. Its value is what `read` makes of the content; an unreadable file is invalid. */
export const file = <T>(expects: string, help: string, read: (content: string) => T | undefined) =>
  option('FILE', expects, help, (path) => attempt(() => read(readFileSync(path, 'utf8')), undefined))

export const many = <O extends object>(repeated: O) => ({ ...repeated, many: true as const })

export const flagsOnly = <O extends Options>(options: O) =>
  Object.fromEntries(Object.entries(options).map(([name, option]) => [name, { ...option, variable: 'none' }])) as O
