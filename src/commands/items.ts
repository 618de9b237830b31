import { profiles } from '../app.ts'
import { nearestWord } from '../common/nearest-word.ts'
import { StartError } from '../common/start-error.ts'
import { readCommandLine, serveOptions } from '../config/config.ts'
import { flagsOnly, option, optionsHelp, type ParsedOptions, rejectArguments, toggle } from '../config/options.ts'
import { createClock } from '../service/clock.ts'
import { formatItems, type ItemsFile, isSpaceName, readItemsFile } from '../service/items-file.ts'
import { openDatabaseStores, openFileStores } from '../service/stores.ts'
import { defaultSpace, OutcomeUnknownError, type PersistentSpaces, UnavailableError } from '../store/store.ts'
import { type Command, commandLine, confirm, type Process } from './command.ts'

const { data, 'database-url': databaseUrl, 'database-schema': databaseSchema } = serveOptions
const options = {
  data,
  'database-url': databaseUrl,
  'database-schema': databaseSchema,
  ...flagsOnly({
    space: option(
      'NAME',
      'the name of a space',
      'only this space, under its name in GET /__admin/spaces (export, import: all)',
      (name) => (isSpaceName(name) ? name : undefined),
    ),
    yes: { ...toggle('delete a space, or replace all of them, without a question'), short: 'y' },
  }),
}

export const items: Command = {
  help: `Moves items between data files and PostgreSQL databases, by way of a JSON file.

Usage
  todo-service items export [flags] > items.json    from a data file or a database, while it is in use or not
  todo-service items import [FILE] [flags]          replaces items in a data file or a database (FILE: standard input)
  todo-service items delete --space NAME [flags]    deletes a space with its items

Flags and environment variables; defaults in brackets. A flag wins over its variable.
${optionsHelp(options)}
The JSON file has the items of both profiles, with every digit of their ids, and the last id that Profile A has
assigned, so that none is assigned twice; without --space those of all spaces. An import replaces everything or
nothing; a profile that the file lacks stays as it is. A file of one space is imported into the default space, or
that of --space. To start with the items of the default space in memory: todo-service serve --items items.json

Examples
  todo-service items export --data todo.db > items.json
  todo-service items export --data class.db --space ada > ada.json
  todo-service items import items.json --database-url postgres://todo:…@localhost:5432/todo
`,

  async run(args, process) {
    const { values, rest, problems, sourceOf } = readCommandLine(options, args, process.env, Number.POSITIVE_INFINITY)
    const [action, file = '-', ...more] = rest
    if (action !== 'export' && action !== 'import' && action !== 'delete') {
      const meant = nearestWord(action ?? '', ['export', 'import', 'delete'])
      problems.push(
        meant
          ? `Unknown action ${action}. Did you mean ${meant}?`
          : 'Say what to do: items export, items import or items delete.',
      )
    }
    rejectArguments(action === 'import' ? more : rest.slice(1), problems)
    if (sourceOf('data') && sourceOf('database-url'))
      problems.push(`${sourceOf('data')} and ${sourceOf('database-url')} contradict each other.`)
    if (!sourceOf('data') && !sourceOf('database-url'))
      problems.push('Say where the items are: --data or --database-url.')
    if (action === 'delete' && !values.space) problems.push('Say which space to delete: --space.')
    if (problems.length > 0) return { problems }
    const sent = action === 'import' ? readItemsFile(file) : undefined
    if (sent && 'problems' in sent) return fail(process, sent.problems.join('\n  '))
    let stores: PersistentSpaces | undefined
    try {
      stores = await open(values, action === 'import' ? 'exclusive' : 'shared', process)
      if (action === 'export') return await exportItems(stores, values, process)
      if (sent) return await importItems(stores, sent, values, process)
      return await deleteSpace(stores, values, process)
    } catch (error) {
      if (error instanceof StartError) return fail(process, error.message)
      if (error instanceof OutcomeUnknownError)
        return fail(
          process,
          `${error.message} Run ${commandLine(process, 'items', 'export')} to see whether the items are there.`,
        )
      if (error instanceof UnavailableError)
        return fail(process, `${error.message}${action === 'export' ? '' : ' Nothing is changed.'}`)
      throw error
    } finally {
      await stores?.close()
    }
  },
}

function fail({ stderr }: Process, message: string): number {
  stderr.write(`todo-service: ${message}\n`)
  return 1
}

const noSpace = (name: string) => `There is no space ${JSON.stringify(name)}: nobody has written to it.`

async function exportItems(stores: PersistentSpaces, { space }: Values, process: Process): Promise<number> {
  const snapshots = await stores.exportItems(space)
  if (space !== undefined && !snapshots.has(space)) return fail(process, noSpace(space))
  process.stdout.write(formatItems(snapshots, space === undefined))
  return 0
}

async function importItems(stores: PersistentSpaces, file: ItemsFile, { space, yes }: Values, process: Process) {
  const { snapshots, isAll } = file
  // A file of one space is for whichever space; one of all spaces has each under its name.
  const one = space === undefined ? undefined : snapshots.get(isAll ? space : defaultSpace)
  if (space !== undefined && !one) return fail(process, `The file has no space ${JSON.stringify(space)}.`)
  const imported = one && space !== undefined ? new Map([[space, one]]) : snapshots
  const replacesAll = isAll && space === undefined
  const lost = replacesAll ? (await stores.listSpaces()).filter(({ name }) => name !== defaultSpace).length : 0
  const sentence = `${count(lost, 'space')} would be deleted or replaced.`
  const refusal = await confirm(process, yes || lost === 0, sentence, 'go on')
  if (refusal) return fail(process, refusal)
  if ((await stores.importItems(imported, replacesAll)) === 'unstorable')
    return fail(process, 'A text contains U+0000, which PostgreSQL cannot store. Nothing is imported.')
  const counts = (['a', 'b'] as const).flatMap((profile) => {
    const items = [...imported.values()].flatMap((snapshot) => snapshot[profile] ?? [])
    const total = items.reduce((sum, { items: { length } }) => sum + length, 0)
    return items.length === 0 ? [] : `${total} of Profile ${profile.toUpperCase()}`
  })
  const where = imported.size > 1 ? ` in ${count(imported.size, 'space')}` : ''
  process.stderr.write(`Imported items${where}: ${counts.join(', ') || 'none'}.\n`)
  return 0
}

async function deleteSpace(stores: PersistentSpaces, { space: name = '', yes }: Values, process: Process) {
  const found = (await stores.listSpaces()).find((space) => space.name === name)
  if (!found) return fail(process, noSpace(name))
  const { a = 0, b = 0 } = found.items
  const sentence = `Space ${JSON.stringify(name)} has ${count(a + b, 'item')}.`
  const refusal = await confirm(process, yes, sentence, 'delete it')
  if (refusal) return fail(process, refusal)
  await stores.deleteSpace(name)
  process.stderr.write(`Space ${JSON.stringify(name)} is deleted.\n`)
  return 0
}

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? '' : 's'}`

type Values = ParsedOptions<typeof options>['values']

async function open(values: Values, access: 'exclusive' | 'shared', { stderr }: Process): Promise<PersistentSpaces> {
  const { data: file = '', 'database-url': database, 'database-schema': databaseSchema = 'todo' } = values
  const clock = createClock({})
  // What fails is what the command says.
  if (!database) return openFileStores(file, profiles, { ...clock, log: { notice: () => {} } }, access)
  const log = { notice: (message: string) => stderr.write(`${message}\n`) }
  const { signal: stop } = new AbortController()
  return openDatabaseStores(database, databaseSchema, profiles, { ...clock, log, stop })
}
