import { userInfo } from 'node:os'
import { attempt } from '../common/attempt.ts'
import { escapeText } from '../common/escape.ts'
import { nearestWord } from '../common/nearest-word.ts'
import { readCommandLine } from '../config/config.ts'
import { anyText, choice, flagsOnly, many, option, optionsHelp, rejectArguments } from '../config/options.ts'
import { readTokenSettings, tokenOptions } from '../config/token-options.ts'
import { configDirectory } from '../config-directory.ts'
import { defaultUrls, findService } from '../service/client.ts'
import { createDevToken, createTokenVerification } from '../service/tokens.ts'
import { devTokenDefaults } from '../tokens/dev-key.ts'
import { maxValidForSeconds } from '../tokens/sign.ts'
import { checkToken, isUndecided } from '../tokens/verify.ts'
import { type Command, commandLine, fail, type Process } from './command.ts'

const [defaultAudience] = devTokenDefaults.audiences

const signOptions = flagsOnly({
  name: anyText('NAME', 'a name', 'name of the bearer (your user name)'),
  role: many(anyText('ROLE', 'a role', 'role of the bearer')),
  scope: many(anyText('SCOPE', 'a scope', 'scope of the token')),
  claim: many(option('KEY=VALUE', 'KEY=VALUE, with a key that no other flag sets', 'additional claim', parseClaim)),
  'valid-for': option(
    'TIME',
    'a whole number with s, m, h or d, at most 3650d',
    'time until it expires: 2s, 12h, 90d (90d)',
    parseDurationSeconds,
  ),
  issuer: anyText('ISSUER', 'an issuer', `issuer claim (${devTokenDefaults.issuer})`),
  audience: many(anyText('AUDIENCE', 'an audience', `audience claim (${defaultAudience})`)),
  output: { ...choice('default|token|json', ['default', 'token', 'json'], 'output format (default)'), short: 'o' },
})

export const token: Command = {
  help: `Creates a token that a service in development mode accepts, or checks a token.

Usage
  todo-service token [flags]                 create a development token
  todo-service token verify TOKEN [flags]    check a token as the service does, and print each check

Flags to create a token, defaults in brackets
${optionsHelp(signOptions)}
Flags to verify a token and their environment variables, as for "todo-service serve", defaults in brackets
${optionsHelp(tokenOptions)}
A development token is rejected as soon as it has expired: the clock tolerance is for other tokens.
Exit code of "token verify": 0 if the token is accepted, 1 if not.

Examples
  todo-service token --name ada --valid-for 1d
  curl -H "Authorization: Bearer $(todo-service token -o token)" http://localhost:5080/secret
  todo-service token verify "$TOKEN"
`,

  run: (args, process) => (args[0] === 'verify' ? verify(args.slice(1), process) : create(args, process)),
}

async function create(args: readonly string[], process: Process) {
  const { env, stdout } = process
  const { values, rest, problems } = readCommandLine(signOptions, args, env, args.length)
  const [action = ''] = rest
  if (nearestWord(action, ['verify'])) problems.push(`Unknown action ${action}. Did you mean verify?`)
  else rejectArguments(rest, problems)
  if (problems.length > 0) return { problems }
  const name = values.name ?? attempt(() => userInfo().username, 'developer')
  const created = await createDevToken(configDirectory(env), {
    name,
    roles: values.role,
    scopes: values.scope,
    claims: Object.fromEntries(values.claim),
    validForSeconds: values['valid-for'] ?? 90 * 86_400,
    ...(values.issuer && { issuer: values.issuer }),
    ...(values.audience.length > 0 && { audiences: values.audience }),
  })
  if (typeof created === 'string') return fail(process, created)
  const { token, claims } = created
  if (values.issuer || values.audience.length > 0)
    fail(
      process,
      `The service accepts development tokens only with issuer ${devTokenDefaults.issuer} and audience ${defaultAudience}.`,
    )
  const expires = new Date(claims.exp * 1000).toISOString()
  const output = {
    token: () => token,
    json: () => JSON.stringify({ token, claims }, null, 2),
    default: async () =>
      `A development token for ${name}, valid until ${expires}:\n\n${token}\n\n${sampleRequest(token, await findService(defaultUrls))}`,
  }
  stdout.write(`${await output[values.output ?? 'default']()}\n`)
  return 0
}

async function verify(args: readonly string[], process: Process) {
  const { env, stdout } = process
  const parsed = readCommandLine(tokenOptions, args, env, 1)
  const { rest, problems } = parsed
  const settings = readTokenSettings(parsed, env)
  const [text] = rest
  if (text === undefined) problems.push(`The token is missing: ${commandLine(process, 'token', 'verify', 'TOKEN')}`)
  if (text === undefined || problems.length > 0) return { problems }
  const report = (message: string) => void fail(process, message)
  const { verifyOptions, devKey, notes } = await createTokenVerification(settings, configDirectory(env), report)
  if (devKey?.storeError) for (const note of notes) report(note)
  const { token, checks } = await checkToken(text.trim().replace(/^Bearer +/i, ''), verifyOptions)
  if (token) stdout.write(`header  ${formatJson(token.header)}\nclaims  ${formatJson(token.claims, 2)}\n\n`)
  for (const { ok, message } of checks) stdout.write(`${ok ? 'ok    ' : 'FAILED'}  ${message}\n`)
  const isAccepted = checks.every(({ ok }) => ok)
  const verb = isAccepted ? 'accepts' : isUndecided(checks) ? 'returns 503 because it cannot check' : 'rejects'
  stdout.write(`\nA service in ${settings.mode} mode with these settings ${verb} this token.\n`)
  return isAccepted ? 0 : 1
}

/** Shows the request over HTTP and over HTTPS if no service was found. */
export function sampleRequest(token: string, url: string | undefined): string {
  if (url) return `Try it: ${curl(token, url)}`
  const [http = '', httpB = '', https = '', httpsB = ''] = defaultUrls
  return [
    `No service responds on the default ports. Once it runs, try it over HTTP or HTTPS (Profile B: ${httpB} and ${httpsB}):`,
    curl(token, http),
    curl(token, https),
  ].join('\n\n')
}

/** `-k` accepts the development certificate, which is self-signed. */
const curl = (token: string, url: string) =>
  `curl ${url.startsWith('https:') ? '-k ' : ''}-H "Authorization: Bearer ${token}" ${url}/secret`

const formatJson = (value: unknown, indent?: number) =>
  attempt(() => escapeText(JSON.stringify(value, null, indent), 'json'), '(nested too deeply to print)')

const reservedClaims = ['unique_name', 'sub', 'jti', 'scope', 'role', 'aud', 'nbf', 'exp', 'iat', 'iss']

function parseClaim(text: string): [string, string] | undefined {
  const [, key = '', value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  return key === '' || reservedClaims.includes(key) ? undefined : [key, value]
}

function parseDurationSeconds(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const total = Number(count) * { s: 1, m: 60, h: 3600, d: 86_400 }[(unit ?? 's') as 's' | 'm' | 'h' | 'd']
  return total > 0 && total <= maxValidForSeconds ? total : undefined
}
