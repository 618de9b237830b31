import { writeFileSync } from 'node:fs'
import { faceOf, profiles } from '../app.ts'
import { openApiDocument } from '../http/openapi.ts'
import { anyText, type Options, oneOf, optionsHelp, readOptions, refuseArguments, toggle } from '../options.ts'
import { publicUrl } from '../serve-options.ts'
import { memoryStores } from '../store/memory.ts'
import type { Command } from './command.ts'

const options = {
  profile: {
    takes: 'a|b',
    variable: 'none',
    expects: 'a or b',
    help: 'the contract to describe (a)',
    read: oneOf('a', 'b'),
  },
  'base-url': {
    takes: 'URL',
    expects: 'an http or https URL without credentials, query or fragment',
    help: "the server's URL in the document (http://localhost with the profile's port)",
    read: publicUrl,
  },
  'require-auth': toggle('describe a service that asks for a token on the to-do endpoints too'),
  output: {
    takes: 'FILE',
    short: 'o',
    variable: 'none',
    expects: 'a file name, or - for standard output',
    help: 'where to write it, - for standard output (openapi.json)',
    read: anyText,
  },
} as const satisfies Options

export const openapi: Command = {
  help: `Writes the OpenAPI 3.0.1 document of a profile, without starting a server.

Usage
  todo-service openapi [flags]

Flags, their environment variables, and in brackets what holds without them. Flags win.
${optionsHelp(options)}
Examples
  todo-service openapi                       Profile A, into openapi.json
  todo-service openapi --profile b -o -      Profile B, to standard output
`,

  async run(args, { env, stdout, stderr }) {
    const { values, rest, problems } = readOptions(options, args, env)
    refuseArguments(rest, problems)
    if (problems.length > 0) return { problems }
    const { profile: name = 'a', output = 'openapi.json', 'base-url': baseUrl } = values
    const text = documentText(name, values['require-auth'] ?? false, baseUrl)
    if (output === '-') {
      stdout.write(text)
      return 0
    }
    try {
      writeFileSync(output, text)
    } catch (cause) {
      stderr.write(
        `todo-service: Cannot write ${output}: ${(cause as NodeJS.ErrnoException).code}. Name another file with -o.\n`,
      )
      return 1
    }
    stderr.write(`Wrote ${output}: ${profiles[name].title}, OpenAPI 3.0.1.\n`)
    return 0
  },
}

function documentText(name: keyof typeof profiles, requireAuth: boolean, baseUrl: string | undefined): string {
  const stores = memoryStores(profiles, '')
  const settings = { requireAuth, now: () => new Date(), random: Math.random }
  const face = faceOf(profiles[name], stores, settings)
  const document = openApiDocument(face, baseUrl ?? `http://localhost:${profiles[name].defaultPort}`)
  return `${JSON.stringify(document, null, 2)}\n`
}
