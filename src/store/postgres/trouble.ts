import { type Database, whereabouts } from '../../database-url.ts'
import { Unfit } from './schema.ts'

/** Why the database cannot be used, and what to do about it: one sentence, without the password. */
export function troubleWith(cause: unknown, database: Database): string {
  const { code = '', message } = cause as NodeJS.ErrnoException
  if (cause instanceof Unfit) return message
  const where = whereabouts(database)
  const said = message.replace(/\.?$/, '.')
  switch (code) {
    case '28P01':
      return `The database at ${where} refuses the user or the password: ${said} Check --database-url.`
    case '28000':
      return `The database at ${where} refuses this client: ${said} Check the user in --database-url and the server's pg_hba.conf; where it asks for encryption, add sslmode=require.`
    case '3D000':
      return `There is no such database at ${where}: ${said} Create it, or name another in --database-url.`
    case '42501':
      return `The database at ${where} refuses a right: ${said} Grant it, or let another role create the schema first.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The host of the database is unknown (${where}). Check --database-url.`
    case 'ECONNREFUSED':
    case 'ENOENT':
      return `No database answers at ${where}. Start it, check --database-url, or wait for it with --wait-for-database.`
    default:
      return `The database at ${where} cannot be used: ${said}`
  }
}
