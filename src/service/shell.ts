import { sep } from 'node:path'

/** A word of a command to be typed: quotes it where it has a character with a meaning in a shell. */
export const quote = (word: string) =>
  /^[\w@%+=:,./…-]+$/.test(word) ? word : sep === '\\' ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`
