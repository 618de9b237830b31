import { nearestWord } from '../common/nearest-word.ts'
import { version } from '../version.ts'
import { type Command, commandLine, fail, type Process } from './command.ts'

const commands: Record<string, () => Promise<Command>> = {
  serve: async () => (await import('./serve.ts')).serve,
  token: async () => (await import('./token.ts')).token,
  openapi: async () => (await import('./openapi.ts')).openapi,
  items: async () => (await import('./items.ts')).items,
  reset: async () => (await import('./reset.ts')).reset,
  verify: async () => (await import('./verify.ts')).verify,
  mcp: async () => (await import('./mcp.ts')).mcp,
}

const help = `todo-service ${version}: to-do items over HTTP and JSON, in two fixed API contracts.

  Profile A   contract of the web API tutorial: numeric ids, 201 with Location, PUT by id
  Profile B   contract of the mobile client: ids set by the client, plain-text error codes, three initial items

Usage
  todo-service serve [flags]              run the service
  todo-service token [flags]              create a development token for the protected endpoints
  todo-service token verify TOKEN         check a token and explain the result
  todo-service reset [URL] [flags]        restore the starting items of a service in development mode
  todo-service items export|import        move all items between a file, PostgreSQL and the start in memory
  todo-service openapi [flags]            write the OpenAPI document of a profile
  todo-service verify URL --profile a|b   test any running server against the contract
  todo-service mcp [flags]                serve these as tools to a coding agent (Model Context Protocol)
  todo-service COMMAND --help             show the flags and environment variables of a command
  todo-service --version                  print the version
`

/** Runs the command that the arguments name. Returns the exit code. */
export async function main(process: Process): Promise<number> {
  const { argv, stdout, stderr } = process
  const [, , name = '--help', ...args] = argv
  if (['--help', '-h', 'help'].includes(name)) {
    stdout.write(help)
    return 0
  }
  if (['--version', '-v'].includes(name)) {
    stdout.write(`${version}\n`)
    return 0
  }
  const command = Object.hasOwn(commands, name) ? await commands[name]?.() : undefined
  // Arguments after -- are not flags.
  const flags = args.includes('--') ? args.slice(0, args.indexOf('--')) : args
  if (command && flags.some((arg) => arg === '--help' || arg === '-h')) {
    stdout.write(command.help)
    return 0
  }
  const outcome = command ? await command.run(args, process) : { problems: [unknown(name)] }
  if (typeof outcome === 'number') return outcome
  for (const problem of outcome.problems) fail(process, problem)
  stderr.write(`Help: ${commandLine(process, ...(command ? [name] : []), '--help')}\n`)
  return 2
}

function unknown(name: string): string {
  if (name.startsWith('-')) return `Unknown flag ${name}.`
  const nearest = nearestWord(name.toLowerCase(), Object.keys(commands))
  return `Unknown command ${name}.${nearest ? ` Did you mean ${nearest}?` : ''}`
}
