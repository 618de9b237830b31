import { randomBytes } from 'node:crypto'
import { userInfo } from 'node:os'
import { configFolder } from '../folder.ts'
import { anyText, type Options, oneOf, optionsHelp, readOptions, refuseArguments } from '../options.ts'
import { clockToleranceOf, modeOf, readTokenConfig, tokenOptions } from '../token-config.ts'
import { developmentAudience, developmentIssuer, developmentKey } from '../tokens/development.ts'
import { examine, isAccepted } from '../tokens/examine.ts'
import { mint } from '../tokens/mint.ts'
import type { Command, Process } from './command.ts'
import { notKept, tokenTerms } from './token-terms.ts'

const mintOptions = {
  name: { takes: 'NAME', variable: 'none', expects: 'a name', help: 'who the bearer is (you)', read: anyText },
  role: { takes: 'ROLE', variable: 'none', many: true, expects: 'a role', help: 'a role of the bearer', read: anyText },
  scope: {
    takes: 'SCOPE',
    variable: 'none',
    many: true,
    expects: 'a scope',
    help: 'what it is good for',
    read: anyText,
  },
  claim: {
    takes: 'KEY=VALUE',
    variable: 'none',
    many: true,
    expects: 'KEY=VALUE, with a key that no other flag sets',
    help: 'any other claim',
    read: claim,
  },
  'valid-for': {
    takes: 'TIME',
    variable: 'none',
    expects: 'a whole number with s, m, h or d, at most 3650d',
    help: 'how long it is valid: 30m, 12h, 90d (90d)',
    read: seconds,
  },
  issuer: {
    takes: 'ISSUER',
    variable: 'none',
    expects: 'an issuer',
    help: `who issued it (${developmentIssuer})`,
    read: anyText,
  },
  audience: {
    takes: 'AUDIENCE',
    variable: 'none',
    many: true,
    expects: 'an audience',
    help: `for whom it is (${developmentAudience})`,
    read: anyText,
  },
  output: {
    takes: 'default|token|json',
    short: 'o',
    variable: 'none',
    expects: 'default, token or json',
    help: 'what to print (default)',
    read: oneOf('default', 'token', 'json'),
  },
} as const satisfies Options

export const token: Command = {
  help: `Makes a token that a service in development mode accepts, or says what is right and wrong with one.

Usage
  todo-service token [flags]                 make a development token
  todo-service token verify TOKEN [flags]    hold a token against what a service here would accept

Flags for making one, and in brackets what holds without them
${optionsHelp(mintOptions)}
Flags for verifying one, with their environment variables: the same that "todo-service serve" takes
${optionsHelp(tokenOptions)}
Examples
  todo-service token --name ada --valid-for 1d
  curl -H "Authorization: Bearer $(todo-service token -o token)" http://localhost:5080/secret
  todo-service token verify "$TOKEN"
`,

  run: ([first, ...rest], process) =>
    first === 'verify' ? verify(rest, process) : make(first === undefined ? [] : [first, ...rest], process),
}

async function make(args: readonly string[], { env, stdout, stderr }: Process) {
  const { values, rest, problems } = readOptions(mintOptions, args, env)
  refuseArguments(rest, problems)
  if (problems.length > 0) return { problems }
  const { key, isKept } = await developmentKey(configFolder(env), randomBytes)
  const wish = {
    id: randomBytes(4).toString('hex'),
    name: values.name ?? userName(),
    roles: values.role,
    scopes: values.scope,
    claims: Object.fromEntries(values.claim),
    issuer: values.issuer ?? developmentIssuer,
    audiences: values.audience.length > 0 ? values.audience : [developmentAudience],
    validForSeconds: values['valid-for'] ?? 90 * 86_400,
  }
  const { token, claims } = await mint(wish, key, new Date())
  if (values.issuer || values.audience.length > 0)
    stderr.write('todo-service: With an issuer or audience of its own, a token is for other services than this one.\n')
  if (!isKept) stderr.write(`todo-service: ${notKept(configFolder(env))}\n`)
  const until = new Date(claims.exp * 1000).toISOString()
  const output = {
    token,
    json: JSON.stringify({ token, claims }, null, 2),
    default: `A development token for ${wish.name}, valid until ${until}:\n\n${token}\n\nTry it: curl -H "Authorization: Bearer ${token}" http://localhost:5080/secret`,
  }
  stdout.write(`${output[values.output ?? 'default']}\n`)
  return 0
}

async function verify(args: readonly string[], { env, stdout, stderr }: Process) {
  const given = readOptions(tokenOptions, args, env)
  const { values, rest, problems } = given
  const tokens = readTokenConfig(given)
  const [text, ...more] = rest
  if (text === undefined) problems.push('Which token? Put it behind "verify".')
  refuseArguments(more, problems)
  if (text === undefined || problems.length > 0) return { problems }
  const settings = { mode: modeOf(values.mode, env), tokens, clockTolerance: clockToleranceOf(given) }
  const { terms } = await tokenTerms(
    settings,
    env,
    (what, cause) => void stderr.write(`todo-service: ${what}: ${cause}\n`),
  )
  const examination = await examine(text.trim().replace(/^Bearer +/i, ''), terms)
  const { token, findings } = examination
  const accepted = isAccepted(examination)
  if (token) stdout.write(`header  ${display(token.header)}\nclaims  ${display(token.claims, 2)}\n\n`)
  for (const { ok, words } of findings) stdout.write(`${ok ? 'ok    ' : 'FAILED'}  ${words}\n`)
  stdout.write(
    `\nA service in ${settings.mode} mode with these settings ${accepted ? 'accepts' : 'refuses'} this token.\n`,
  )
  return accepted ? 0 : 1
}

/** A stranger's JSON on a terminal: whatever could steer it is written as an escape. */
function display(value: unknown, indent?: number): string {
  try {
    const escaped = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
    return JSON.stringify(value, null, indent).replace(/[^ -~\n]/g, escaped)
  } catch {
    return '(nested too deep to show)'
  }
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'developer'
  }
}

const ownClaims = ['unique_name', 'sub', 'jti', 'scope', 'role', 'aud', 'nbf', 'exp', 'iat', 'iss']

function claim(text: string): [string, string] | undefined {
  const [, key = '', value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  return key === '' || ownClaims.includes(key) ? undefined : [key, value]
}

function seconds(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const total = Number(count) * { s: 1, m: 60, h: 3600, d: 86_400 }[(unit ?? 's') as 's' | 'm' | 'h' | 'd']
  return total > 0 && total <= 3650 * 86_400 ? total : undefined
}
