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
      return `The user or the password is refused (${where}): ${said} Check --database-url.`
    case '28000':
      return `The server refuses this client (${where}): ${said} Check --database-url and the server's pg_hba.conf; where it asks for encryption, add ?sslmode=require.`
    case '3D000':
      return `There is no such database (${where}): ${said} Create it, or name another in --database-url.`
    case '42501':
      return `A right is missing (${where}): ${said} Grant it, or let a role that has it start the service once.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The host is unknown (${where}). Check --database-url.`
    case 'ECONNREFUSED':
    case 'ENOENT':
      return `No server answers (${where}). Start it, check --database-url, or wait for it with --wait-for-database.`
    case 'ECONNRESET':
      if (database.tls.mode !== 'disable')
        return `The server breaks off when asked for encryption (${where}): ${said} Where it offers none, say ?sslmode=disable.`
  }
  return `The database cannot be used (${where}): ${said}`
}
