import { isDate } from 'node:util/types'
import { profiles } from '../app.ts'
import { StartError } from '../common/start-error.ts'
import type { NewToken } from '../common/token-request.ts'
import { readConfig } from '../config/config.ts'
import type { Control } from '../control/control.ts'
import { readableLog } from '../log.ts'
import { createClock } from './clock.ts'
import type { RunningProfile } from './profile-server.ts'
import { startService } from './service.ts'

/**
 * Starts a service in development mode with items in memory. Uses the development key in the directory; without one, a
 * new key. Checks the options of `start`, because no compiler checks JavaScript, and throws an error with all mistakes.
 */
export async function startInProcess(options: object = {}, directory?: string) {
  const { log: write, config } = readStartOptions(options as Readonly<Record<string, unknown>>)
  const service = await startService({
    // Spaces do not expire, so that a test may pause in a debugger.
    config: { ...config, control: config.control && { ...config.control, spaceTtlMs: Number.POSITIVE_INFINITY } },
    clock: createClock(config),
    log: readableLog(write ? (text) => callSafely(write, text.trimEnd()) : () => {}, write ? 'info' : 'silent'),
    directory,
    stop: new AbortController().signal,
    devClockToleranceSeconds: config.clockToleranceSeconds,
  }).catch((error) => {
    throw error instanceof StartError ? new Error(`start: ${error.message}`) : error
  })
  const { destroy } = service
  const [{ urls, control }] = service.profiles as [RunningProfile]
  // Both are defined, because this is development mode without --no-admin.
  const newToken = service.newToken as NewToken
  return { url: urls.urls[0] as string, control: control as Control, newToken, destroy }
}

/** Reads the options as flags of `todo-service serve`, without environment variables. */
function readStartOptions(options: Readonly<Record<string, unknown>>) {
  const { profile, port = 0, seed, now, requireAuth, clockToleranceSeconds = 0, log } = options
  const isProfile = Object.hasOwn(profiles, `${profile}`)
  const time = isDate(now) && !Number.isNaN(now.getTime()) ? now.toISOString() : now
  const flags = {
    host: '127.0.0.1',
    profile: isProfile ? profile : 'a',
    port,
    seed,
    now: time,
    'jwt-clock-tolerance': clockToleranceSeconds,
  }
  const args = Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : `--${name}=${value}`))
  const config = readConfig([...args, '--no-https', ...(requireAuth ? ['--require-auth'] : [])], {}, new Date())
  const actual = profile === undefined ? '' : `, not ${JSON.stringify(profile)}`
  const mistakes = [
    ...(isProfile ? [] : [`profile must be ${Object.keys(profiles).join(' or ')}${actual}`]),
    ...('problems' in config ? config.problems.map(nameOption) : []),
    ...(requireAuth === undefined || typeof requireAuth === 'boolean' ? [] : ['requireAuth must be true or false']),
    ...(log === undefined || typeof log === 'function' ? [] : ['log must be a function']),
    ...unknownOptions(options, startOptionNames),
  ]
  if ('problems' in config || mistakes.length > 0) throw new Error(`start: ${mistakes.join('; ')}.`)
  return { config, log: log as ((line: string) => void) | undefined }
}

const startOptionNames = ['profile', 'port', 'seed', 'now', 'requireAuth', 'clockToleranceSeconds', 'log']

export const unknownOptions = (options: object, known: readonly string[]) =>
  Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => `there is no option ${name}: use ${known.join(', ')}`)

/** Replaces the name of a flag in a message by the name of the option of `start`. */
const nameOption = (problem: string) =>
  problem.replace('--jwt-clock-tolerance', 'clockToleranceSeconds').replace(/^--|\.$/g, '')

/** Calls the `log` function of the caller. If it throws, the error becomes a warning and does not affect a response. */
function callSafely(log: (line: string) => void, line: string): void {
  try {
    log(line)
  } catch (error) {
    process.emitWarning(`start: log has thrown: ${error}`)
  }
}
