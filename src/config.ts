import { type LogLevel, logLevels } from './log.ts'
import type { ProfileName } from './profiles/profile.ts'

export interface Config {
  readonly profiles: readonly ProfileName[]
  readonly mode: 'development' | 'production'
  /** Undefined: every interface. */
  readonly host: string | undefined
  /** Undefined: each profile's own. */
  readonly port: number | undefined
  readonly baseUrl: string | undefined
  readonly bodyLimit: number
  readonly logLevel: LogLevel
}

/** Each has a flag and an environment variable; `expects` ends the sentence that refuses a value. */
const options = {
  profile: { takes: 'a|b|both', expects: 'a, b or both', help: 'the contract to serve (both)' },
  host: {
    takes: 'HOST',
    expects: 'a host name or an address',
    help: 'where to listen (development: localhost; production: every interface)',
  },
  port: {
    takes: 'N',
    expects: 'a whole number from 0 to 65535',
    help: 'port of a single profile, 0 for any free one (A: 5080, B: 5000)',
  },
  'base-url': {
    takes: 'URL',
    expects: 'an http or https URL without credentials, query or fragment',
    help: 'public URL, for Location headers (the host that a request names)',
  },
  'body-limit': {
    takes: 'BYTES',
    expects: 'a whole number from 1 to 268435456',
    help: 'largest request body (1048576)',
  },
  'log-level': {
    takes: 'LEVEL',
    expects: 'silent, error, warn or info',
    help: 'what to log, see below (development: info; production: error)',
  },
  mode: {
    takes: 'MODE',
    expects: 'development or production',
    help: 'development or production (NODE_ENV, else development)',
  },
} as const

type OptionName = keyof typeof options

const optionNames = Object.keys(options) as OptionName[]
const flagOf = (name: OptionName) => `--${name}`
const variableOf = (name: OptionName) => `TODO_${name.toUpperCase().replaceAll('-', '_')}`

export const optionsHelp = (): string => {
  const rows = optionNames.map((name) => [
    `${flagOf(name)} ${options[name].takes}`,
    variableOf(name),
    options[name].help,
  ])
  return rows
    .map(([flag = '', variable = '', help]) => `  ${flag.padEnd(22)} ${variable.padEnd(16)} ${help}\n`)
    .join('')
}

/** Flags win over environment variables. Every mistake is listed, not just the first. */
export function readConfig(args: readonly string[], env: NodeJS.ProcessEnv): Config | { problems: string[] } {
  const problems: string[] = []
  const flags = readFlags(args, problems)

  const given = (name: OptionName): { source: string; text: string } | undefined => {
    const flag = flags.get(name)
    if (flag !== undefined) return { source: flagOf(name), text: flag }
    const variable = env[variableOf(name)]
    return variable ? { source: variableOf(name), text: variable } : undefined
  }
  const value = <T>(name: OptionName, read: (text: string) => T | undefined): T | undefined => {
    const { source, text } = given(name) ?? {}
    if (text === undefined) return undefined
    const result = read(text)
    if (result === undefined) problems.push(`${source} must be ${options[name].expects}, not ${JSON.stringify(text)}.`)
    return result
  }

  const profile = given('profile') ? value('profile', oneOf('a', 'b', 'both')) : 'both'
  const nodeEnv = /^(?:development|test)?$/.test(env.NODE_ENV ?? '') ? 'development' : 'production'
  const mode = value('mode', oneOf('development', 'production')) ?? nodeEnv
  const development = mode === 'development'
  const config: Config = {
    profiles: (['a', 'b'] as const).filter((name) => profile === name || profile === 'both'),
    mode,
    host: value('host', hostName) ?? (development ? 'localhost' : undefined),
    port: value('port', wholeNumber(0, 65535)),
    baseUrl: value('base-url', publicUrl),
    bodyLimit: value('body-limit', wholeNumber(1, 2 ** 28)) ?? 2 ** 20,
    logLevel: value('log-level', oneOf(...logLevels)) ?? (development ? 'info' : 'error'),
  }
  const port = given('port')
  if (port && profile === 'both')
    problems.push(`${port.source} needs a single profile: add --profile a or --profile b.`)
  return problems.length > 0 ? { problems } : config
}

function readFlags(args: readonly string[], problems: string[]): Map<OptionName, string> {
  const flags = new Map<OptionName, string>()
  const rest = [...args]
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (!arg.startsWith('-')) {
      problems.push(`Unexpected argument ${JSON.stringify(arg)}.`)
      continue
    }
    const equals = arg.indexOf('=')
    const flag = equals < 0 ? arg : arg.slice(0, equals)
    const name = optionNames.find((option) => flagOf(option) === flag)
    const text = equals >= 0 ? arg.slice(equals + 1) : rest[0]?.startsWith('--') ? undefined : rest.shift()
    if (!name) problems.push(`Unknown flag ${flag}.`)
    else if (text === undefined) problems.push(`${flag} needs a value: ${options[name].expects}.`)
    else flags.set(name, text)
  }
  return flags
}

const oneOf =
  <T extends string>(...choices: readonly T[]) =>
  (text: string): T | undefined =>
    choices.find((choice) => choice === text)

const wholeNumber = (least: number, most: number) => (text: string) => {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  return number >= least && number <= most ? number : undefined
}

const hostName = (text: string) => (/^[\w.:%-]+$/.test(text) ? text : undefined)

function publicUrl(text: string): string | undefined {
  if (!/^https?:\/\/[^?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).href.replace(/\/+$/, '')
}
