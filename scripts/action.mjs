// The GitHub action, action.yml: verifies a server; or starts the service, and stops it at the end of the job.
import { spawn } from 'node:child_process'
import { appendFileSync, copyFileSync, existsSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const { env, platform, execPath } = process
const root = fileURLToPath(new URL('..', import.meta.url))
const cli = join(root, 'dist/src/cli.js')

const input = (name) => env[`INPUT_${name.toUpperCase()}`] ?? ''
/** An input that is not set is empty, and its flag is left out. */
const flagsOf = (...names) => names.filter(input).map((name) => `--${name}=${input(name)}`)

/** Adds a line to a file of the runner: GITHUB_STATE, GITHUB_OUTPUT. */
const tell = (file, name, value) => appendFileSync(env[`GITHUB_${file}`], `${name}=${value}\n`)

/** Runs a program, and shows what it prints. */
async function run(command, args, options = {}) {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      printed += text
      process.stdout.write(text)
    })
  const code = await new Promise((ended, failed) => child.on('error', failed).on('close', ended))
  return { code, printed }
}

/** Another step may have done it. */
async function install() {
  if (existsSync(cli)) return
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund']
  const { code } = await run('npm', args, { cwd: root, shell: platform === 'win32' })
  if (code !== 0) throw new Error(`npm ci: exit code ${code}`)
}

/** A command of the runner; its text must be one line. */
const escaped = (text) => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
function annotate(title, text) {
  const property = escaped(title).replaceAll(':', '%3A').replaceAll(',', '%2C')
  process.stdout.write(`::error title=${property}::${escaped(text)}\n`)
}

async function verify(folder) {
  const json = join(folder, 'report.json')
  const names = ['profile', 'contract', 'only', 'except', 'waivers', 'wait', 'timeout', 'ca']
  const flags = flagsOf(...names, 'fresh', 'quick', 'reset', 'strict', 'insecure')
  const args = [cli, 'verify', '--report=markdown', `--out=${json}`, ...flags, '--', input('url')]
  const { code, printed } = await run(execPath, args, { env: { ...env, TODO_TOKEN: input('token') } })
  appendFileSync(env.GITHUB_STEP_SUMMARY, printed)
  process.exitCode = code
  const text = existsSync(json) ? readFileSync(json, 'utf8') : ''
  const report = input('report')
  const extension = extname(report).toLowerCase()
  if (report && !['.json', '.xml'].includes(extension)) writeFileSync(report, printed)
  if (text === '') return
  const verification = JSON.parse(text)
  if (extension === '.json') copyFileSync(json, report)
  if (extension === '.xml') {
    const { junit } = await import(new URL('../dist/src/verify/report/junit.js', import.meta.url).href)
    writeFileSync(report, junit(verification))
  }
  for (const name of ['passed', 'failed', 'deviations', 'waived', 'skipped']) tell('OUTPUT', name, verification[name])
  for (const { status, rule, name, sentence, failure } of verification.outcomes)
    if (status === 'failed')
      annotate(`${rule} ${name}`, `${sentence}\nexpected ${failure.expected}\ngot ${failure.got}`)
}

/** Starts the service, which goes on when this step has ended. */
async function start(folder) {
  const profile = input('profile') || 'both'
  const names = ['a', 'b'].filter((name) => profile === 'both' || profile === name)
  const ports = flagsOf(...names.map((name) => `port-${name}`))
  const format = ['--log-format=json', '--log-level=error', '--no-https']
  const args = [cli, 'serve', `--profile=${profile}`, ...ports, ...flagsOf('items'), ...format]
  const log = join(folder, 'service.log')
  const file = openSync(log, 'a')
  const service = spawn(execPath, args, { detached: true, stdio: ['ignore', file, file] })
  service.unref()
  tell('STATE', 'pid', service.pid)
  tell('STATE', 'log', log)
  const printed = () => readFileSync(log, 'utf8')
  // Its first line has the URLs, or says why it does not start.
  while (!printed().includes('\n') && service.exitCode === null) await sleep(50)
  const line = /^\{"time".*(?=\n)/.exec(printed())?.[0]
  if (line === undefined) throw new Error(printed())
  const { profiles } = JSON.parse(line)
  for (const { title, urls, unusablePort } of profiles) {
    if (urls.length === 0) throw new Error(`${title} is not served: ${unusablePort.join(' ')}`)
    tell('OUTPUT', `url-${title.at(-1).toLowerCase()}`, urls[0])
    process.stdout.write(`${title}  ${urls[0]}\n`)
  }
}

/** Longer than the service takes to stop. */
const stopTimeoutMs = 15_000

/** After the last step of the job. */
async function stop() {
  const send = (signal) => {
    try {
      return process.kill(Number(env.STATE_pid), signal)
    } catch {
      return false
    }
  }
  const printed = () => readFileSync(env.STATE_log, 'utf8')
  const deadline = Date.now() + stopTimeoutMs
  send('SIGTERM')
  // A process that has ended can be sent signals until its parent knows, which in a container may be never.
  while (send(0) && !printed().includes('"message":"stopped"') && Date.now() < deadline) await sleep(50)
  send('SIGKILL')
  process.stdout.write(printed())
}

try {
  if (env.STATE_isPost) {
    if (env.STATE_pid) await stop()
  } else {
    tell('STATE', 'isPost', 'true')
    await install()
    const folder = mkdtempSync(join(env.RUNNER_TEMP, 'todo-service-'))
    if (input('start') === 'true') await start(folder)
    else await verify(folder)
  }
} catch (error) {
  annotate('todo-item-service', error.message)
  process.exitCode = 1
}
