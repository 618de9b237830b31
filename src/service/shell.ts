import { sep } from 'node:path'

/** Quotes a word of a command for the user to type, if it has characters with a meaning in a shell. */
export const quote = (word: string) =>
  /^[\w@%+=:,./…-]+$/.test(word) ? word : sep === '\\' ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`
