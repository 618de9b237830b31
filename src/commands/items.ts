import { collectionsOf, profiles } from '../app.ts'
import { nearestWord } from '../common/nearest-word.ts'
import { StartError } from '../common/start-error.ts'
import { readCommandLine, serveOptions } from '../config/config.ts'
import { flagsOnly, option, optionsHelp, type ParsedOptions, rejectArguments, toggle } from '../config/options.ts'
import { createClock } from '../service/clock.ts'
import { formatItems, type ItemsFile, isSpaceName, readItemsFile } from '../service/items-file.ts'
import { exportItems, openPlace, placeOf } from '../service/stores.ts'
import {
  defaultSpace,
  OutcomeUnknownError,
  type PersistentSpaces,
  type Snapshot,
  UnavailableError,
} from '../store/store.ts'
import { type Command, commandLine, confirm, fail, type Process } from './command.ts'

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
  todo-service items export [flags] > items.json    from a data file or a database, in use or not; only reads
  todo-service items import [FILE] [flags]          replaces items in a data file or a database (FILE: standard input)
  todo-service items delete --space NAME [flags]    deletes a space with its items

Flags and environment variables; defaults in brackets. A flag wins over its variable.
${optionsHelp(options)}
The JSON file has the items of both profiles, with every digit of their ids, and the last id that Profile A has
assigned, so that none is assigned twice; without --space those of all spaces. An export reads tables of older
versions, too; only serve migrates them. An import replaces everything or nothing; a profile that the file lacks stays
as it is. A file of one space is imported into the default space, or that of --space. To start with the items of the
default space in memory: todo-service serve --items items.json

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
    const place = placeOf({
      dataFile: values.data,
      database: values['database-url'],
      databaseSchema: values['database-schema'] ?? 'todo',
    })
    if (problems.length > 0 || !place) return { problems }
    const types = collectionsOf(profiles)
    const context = {
      monotonicNow: createClock({}).monotonicNow,
      log: { notice: (message: string) => void process.stderr.write(`${message}\n`) },
      stop: new AbortController().signal,
    }
    // The command itself prints why a file cannot be used.
    const openContext = 'dataFile' in place ? { ...context, log: { notice: () => {} } } : context
    const sent = action === 'import' ? readItemsFile(file) : undefined
    if (sent && 'problems' in sent) return fail(process, sent.problems.join('\n  '))
    let stores: PersistentSpaces | undefined
    try {
      if (sent) {
        stores = await openPlace(place, types, openContext, { access: 'exclusive' })
        return await importItems(stores, sent, values, process)
      }
      const { space } = values
      const snapshots = await exportItems(place, types, space, context)
      const found = space === undefined ? undefined : snapshots.get(space)
      if (space !== undefined && !found)
        return fail(process, `There is no space ${JSON.stringify(space)}: nobody has written to it.`)
      if (!found || action === 'export') {
        process.stdout.write(formatItems(snapshots, space === undefined))
        return 0
      }
      stores = await openPlace(place, types, openContext, { access: 'shared' })
      return await deleteSpace(stores, found, values, process)
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

async function importItems(stores: PersistentSpaces, file: ItemsFile, { space, yes }: Values, process: Process) {
  const { snapshots, isAll } = file
  // The items of a file of one space can go into any space. A file of all spaces must have the named space.
  const snapshot = space === undefined ? undefined : snapshots.get(isAll ? space : defaultSpace)
  if (space !== undefined && !snapshot) return fail(process, `The file has no space ${JSON.stringify(space)}.`)
  const imported = snapshot && space !== undefined ? new Map([[space, snapshot]]) : snapshots
  const replacesAll = isAll && space === undefined
  const lost = replacesAll ? (await stores.listSpaces()).filter(({ name }) => name !== defaultSpace).length : 0
  const sentence = `${count(lost, 'space')} would be deleted or replaced.`
  const refusal = await confirm(process, yes || lost === 0, sentence, 'go on')
  if (refusal) return fail(process, refusal)
  await stores.importItems(imported, replacesAll)
  const counts = (['a', 'b'] as const).flatMap((profile) => {
    const items = [...imported.values()].flatMap((snapshot) => snapshot[profile] ?? [])
    const total = items.reduce((sum, { documents: { length } }) => sum + length, 0)
    return items.length === 0 ? [] : `${total} of Profile ${profile.toUpperCase()}`
  })
  const where = imported.size > 1 ? ` in ${count(imported.size, 'space')}` : ''
  process.stderr.write(`Imported items${where}: ${counts.join(', ') || 'none'}.\n`)
  return 0
}

async function deleteSpace(
  stores: PersistentSpaces,
  { a, b }: Snapshot,
  { space: name = '', yes }: Values,
  process: Process,
) {
  const total = (a?.documents.length ?? 0) + (b?.documents.length ?? 0)
  const sentence = `Space ${JSON.stringify(name)} has ${count(total, 'item')}.`
  const refusal = await confirm(process, yes, sentence, 'delete it')
  if (refusal) return fail(process, refusal)
  await stores.deleteSpace(name)
  process.stderr.write(`Space ${JSON.stringify(name)} is deleted.\n`)
  return 0
}

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? '' : 's'}`

type Values = ParsedOptions<typeof options>['values']
