import { writeFileSync } from 'node:fs'
import { openApiDocumentOf, profiles } from '../app.ts'
import { baseUrl, readCommandLine } from '../config/config.ts'
import { anyText, choice, flagsOnly, optionsHelp, toggle } from '../config/options.ts'
import { type Command, fail } from './command.ts'

const options = {
  ...flagsOnly({ profile: choice('a|b', ['a', 'b'], 'contract to describe (a)') }),
  'base-url': baseUrl("server URL in the document (http://localhost with the profile's port)"),
  'require-auth': toggle('describe a service that requires a token for the to-do endpoints too'),
  ...flagsOnly({
    output: {
      ...anyText('FILE', 'a file name, or - for standard output', 'output file, - for standard output (openapi.json)'),
      short: 'o',
    },
  }),
}

export const openapi: Command = {
  help: `Writes the OpenAPI 3.0.1 document of a profile, without starting a server.

Usage
  todo-service openapi [flags]

Flags and environment variables; defaults in brackets. A flag wins over its variable.
${optionsHelp(options)}
Examples
  todo-service openapi                       Profile A, to openapi.json
  todo-service openapi --profile b -o -      Profile B, to standard output
`,

  async run(args, process) {
    const { env, stdout, stderr } = process
    const { values, problems } = readCommandLine(options, args, env)
    if (problems.length > 0) return { problems }
    const { profile: name = 'a', output = 'openapi.json' } = values
    const document = `${JSON.stringify(openApiDocumentOf(name, values['require-auth'], values['base-url']), null, 2)}\n`
    if (output === '-') {
      stdout.write(document)
      return 0
    }
    try {
      writeFileSync(output, document)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      return fail(process, `Cannot write ${output}: ${code}. Choose another file with -o.`)
    }
    stderr.write(`Wrote ${output}: ${profiles[name].title}, OpenAPI 3.0.1.\n`)
    return 0
  },
}
