import { profiles } from '../app.ts'
import { StartError } from '../common/start-error.ts'
import { findUnknownVariables, serveOptions } from '../config/config.ts'
import { nearestWord, optionsHelp, type ParsedOptions, readOptions, rejectArguments } from '../config/options.ts'
import type { Log } from '../log.ts'
import { createClock } from '../service/clock.ts'
import { formatItems, readItemsFile } from '../service/items-file.ts'
import { openDatabaseStores, openFileStores } from '../service/stores.ts'
import { OutcomeUnknownError, type PersistentStores, UnavailableError } from '../store/store.ts'
import { type Command, commandLine } from './command.ts'

const { data, 'database-url': databaseUrl, 'database-schema': databaseSchema } = serveOptions
const options = { data, 'database-url': databaseUrl, 'database-schema': databaseSchema }

export const items: Command = {
  help: `Moves all items between a data file and a PostgreSQL database, by way of a JSON file.

Usage
  todo-service items export [flags] > items.json    from a data file or a database, while it is in use or not
  todo-service items import [FILE] [flags]          replaces all items in a data file or a database (FILE: standard input)

Flags and environment variables; defaults in brackets. A flag wins over its variable.
${optionsHelp(options)}
The JSON file has the items of both profiles, with every digit of their ids, and the last id that Profile A has
assigned, so that none is assigned twice. An import replaces everything or nothing; a profile that the file lacks
stays as it is. To start with these items in memory: todo-service serve --items items.json

Examples
  todo-service items export --data todo.db > items.json
  todo-service items import items.json --database-url postgres://todo:…@localhost:5432/todo
`,

  async run(args, process) {
    const { values, rest, problems, sourceOf } = readOptions(options, args, process.env)
    problems.push(...findUnknownVariables(process.env))
    const [action, file = '-', ...more] = rest
    if (action !== 'export' && action !== 'import') {
      const meant = nearestWord(action ?? '', ['export', 'import'])
      problems.push(
        meant ? `Unknown action ${action}. Did you mean ${meant}?` : 'Say what to do: items export or items import.',
      )
    }
    rejectArguments(action === 'export' ? rest.slice(1) : more, problems)
    if (sourceOf('data') && sourceOf('database-url'))
      problems.push(`${sourceOf('data')} and ${sourceOf('database-url')} contradict each other.`)
    if (!sourceOf('data') && !sourceOf('database-url'))
      problems.push('Say where the items are: --data or --database-url.')
    if (problems.length > 0) return { problems }
    const fail = (message: string) => {
      process.stderr.write(`todo-service: ${message}\n`)
      return 1
    }
    const snapshot = action === 'import' ? readItemsFile(file) : undefined
    if (snapshot && 'problems' in snapshot) return fail(snapshot.problems.join('\n  '))
    const log = { notice: (message: string) => process.stderr.write(`${message}\n`) }
    let stores: PersistentStores | undefined
    try {
      stores = await open(values, snapshot ? 'exclusive' : 'shared', log)
      if (!snapshot) {
        process.stdout.write(formatItems(await stores.exportItems()))
        return 0
      }
      if ((await stores.importItems(snapshot)) === 'unstorable')
        return fail('A text contains U+0000, which PostgreSQL cannot store. Nothing is imported.')
      const counts = Object.entries(snapshot).map(
        ([name, { items }]) => `${items.length} of Profile ${name.toUpperCase()}`,
      )
      process.stderr.write(`Imported items: ${counts.join(', ') || 'none'}.\n`)
      return 0
    } catch (error) {
      if (error instanceof StartError) return fail(error.message)
      if (error instanceof OutcomeUnknownError)
        return fail(
          `${error.message} Run ${commandLine(process, 'items', 'export')} to see whether the items are there.`,
        )
      if (error instanceof UnavailableError) return fail(`${error.message}${snapshot ? ' Nothing is imported.' : ''}`)
      throw error
    } finally {
      await stores?.close()
    }
  },
}

async function open(
  values: ParsedOptions<typeof options>['values'],
  access: 'exclusive' | 'shared',
  log: Pick<Log, 'notice'>,
): Promise<PersistentStores> {
  const { data: file = '', 'database-url': database, 'database-schema': databaseSchema = 'todo' } = values
  const clock = createClock({})
  // What fails is what the command says.
  if (!database) return openFileStores(file, profiles, { ...clock, log: { notice: () => {} } }, access)
  const { signal: stop } = new AbortController()
  return openDatabaseStores(database, databaseSchema, profiles, { ...clock, log, stop })
}
