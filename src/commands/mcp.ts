import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import { readCommandLine, readServerUrl } from '../config/config.ts'
import { anyText, flagsOnly, many, optionsHelp } from '../config/options.ts'
import { bearerToken } from '../config/token-options.ts'
import { configDirectory } from '../config-directory.ts'
import { mcpServer } from '../mcp/server.ts'
import { findServices, type ServiceSettings } from '../mcp/services.ts'
import { tools } from '../mcp/tools.ts'
import { defaultUrlsByProfile } from '../service/client.ts'
import { type Command, commandLine, fail, type Process } from './command.ts'

const options = {
  ...flagsOnly({
    url: many(
      anyText('URL', 'a URL', 'the service to use (one on the default ports; where none runs, one is started)'),
    ),
  }),
  token: bearerToken('a development token for the services of --url; those on this machine require none'),
}

export const mcp: Command = {
  help: `Serves coding agents over the Model Context Protocol, on standard input and output. An agent starts it.
Tools: read_contract, read_openapi, service, items, reset, requests, wait_for_request, rules_met, faults, token, verify.
Resources: the OpenAPI documents, the contract.

Usage
  todo-service mcp [flags]

Flags, defaults in brackets
${optionsHelp(options)}
It uses the service that runs on the default ports, as todo-service reset does. For a profile that none serves it
starts one in this process, on a free port, with items in memory, until the agent disconnects. Items that a service
keeps in a file or a database are only read: to change something it starts one too, or uses a space of its own. Servers elsewhere are verified only if --url names them.

Examples, in a checkout or in a project with this package
  claude mcp add todo-service -- npx --no todo-service mcp
  claude mcp add todo-service -- npx --no todo-service mcp --url http://localhost:8080
  .vscode/mcp.json     {"servers":{"todo-service":{"command":"npx","args":["--no","todo-service","mcp"]}}}
  .cursor/mcp.json     {"mcpServers":{"todo-service":{"command":"npx","args":["--no","todo-service","mcp"]}}}
`,

  async run(args, process) {
    const { values, problems } = readCommandLine(options, args, process.env)
    const urls = values.url.map((url) => readServerUrl(url, problems))
    if (problems.length > 0) return { problems }
    return serveAgent({ urls, token: values.token, searchedUrls: defaultUrlsByProfile }, process)
  },
}

/** When the client disconnects, a running verification deletes its items; the process waits this long at most. */
const maxEndMs = 3_000

/** Serves the client on standard input and output until it disconnects or a signal arrives. Returns the exit code. */
export async function serveAgent(
  serviceSettings: Omit<ServiceSettings, 'directory' | 'tokenCommand' | 'ownSpace'>,
  process: Omit<Process, 'on'>,
): Promise<number> {
  const { env, stdin, stdout } = process
  const report = (message: string) => void fail(process, message)
  if (stdin.isTTY)
    report(`An agent starts this command and speaks to it. How: ${commandLine(process, 'mcp', '--help')}`)
  const directory = configDirectory(env)
  const services = findServices({
    ...serviceSettings,
    directory,
    tokenCommand: commandLine(process, 'token', '--scope', 'control', '-o', 'token'),
    ownSpace: `agent-${randomUUID().slice(0, 8)}`,
  })
  const running = new Set<Promise<unknown>>()
  const ended = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => resolve())
    for (const event of ['end', 'close']) stdin.once(event, resolve)
    stdout.once('error', () => resolve())
  })
  const settings = { services, directory, commandLine: commandLine.bind(undefined, process) }
  const connection = serveStdio(() => mcpServer(tools(settings), running), {
    transport: new StdioServerTransport(stdin, stdout),
    onerror: ({ message }) => report(message),
  })
  await ended
  await connection.close()
  const timer = new AbortController()
  const outcome = await Promise.race([Promise.allSettled(running), setTimeout(maxEndMs, 'late', timer)])
  timer.abort()
  await services.close()
  // A tool call still waits for a server that does not respond, and would keep this process alive.
  if (outcome === 'late') process.exit(0)
  return 0
}
