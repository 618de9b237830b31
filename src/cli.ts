#!/usr/bin/env node
import type { Command, Process } from './commands/command.ts'
import { version } from './version.ts'

const commands: Record<string, () => Promise<Command>> = {
  serve: async () => (await import('./commands/serve.ts')).serve,
  token: async () => (await import('./commands/token.ts')).token,
  openapi: async () => (await import('./commands/openapi.ts')).openapi,
  verify: async () => (await import('./commands/verify.ts')).verify,
}

const help = `todo-service ${version}: to-do items over HTTP and JSON, after two fixed contracts.

  Profile A   the web-API tutorial's contract: numbered items, 201 with Location, PUT by id
  Profile B   the mobile client's contract: ids from the client, text error codes, three items to start with

Usage
  todo-service serve [flags]              run the service
  todo-service token [flags]              make a token for its protected endpoints, in development
  todo-service token verify TOKEN         say what is right and wrong with a token
  todo-service openapi [flags]            write the OpenAPI document of a profile
  todo-service verify URL --profile a|b   check a running server of any make against the contract
  todo-service COMMAND --help             flags and environment variables of a command
  todo-service --version                  print the version
`

async function main(process: Process): Promise<number> {
  const { argv, stdout, stderr } = process
  const [, , name = '--help', ...args] = argv
  if (['--help', '-h', 'help', '--version', '-v'].includes(name)) {
    stdout.write(name.includes('v') ? `${version}\n` : help)
    return 0
  }
  const command = Object.hasOwn(commands, name) ? await commands[name]?.() : undefined
  if (command && args.some((arg) => arg === '--help' || arg === '-h')) {
    stdout.write(command.help)
    return 0
  }
  const outcome = command
    ? await command.run(args, process)
    : { problems: [`Unknown ${name.startsWith('-') ? 'flag' : 'command'} ${name}.`] }
  if (typeof outcome === 'number') return outcome
  for (const problem of outcome.problems) stderr.write(`todo-service: ${problem}\n`)
  stderr.write(`Help: todo-service ${command ? `${name} ` : ''}--help\n`)
  return 2
}

// Whoever reads the output may go away, as in `todo-service --help | head`: that is no reason to end.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.exitCode = await main(process)
