import { sep } from 'node:path'

/**
 * Where untrusted text is written: one line of a terminal or log, several lines, JSON for a program, JSON for an agent,
 * Markdown, or a shell command, between single quotes.
 */
export type Destination = 'line' | 'lines' | 'json' | 'agent' | 'markdown' | 'shell'

/**
 * Matches characters that control a terminal, end a line, reverse the text direction or are invisible, but not joiners
 * and variation selectors within emoji.
 */
const unseen =
  /(?!(?<=[\p{ExtPict}\p{EMod}]\ufe0f?)\u200d\p{ExtPict})(?!(?<=\P{DI})[\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu

/** GitHub Actions, Azure Pipelines and TeamCity find commands in printed text: `::error::`, `##[error]`, `##vso[…]`. */
const command = /#(?=\w*\[)(?<=##)|:(?=:)(?<=^\s*:)/gm

const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const codePoint = (char: string) => short[char] ?? `\\u{${char.codePointAt(0)?.toString(16)}}`
const hex = (value: number, length: number) => value.toString(16).padStart(length, '0')

/** Returns the escaped form of a character for each destination. */
const writers: Readonly<Record<Destination, (char: string) => string>> = {
  line: codePoint,
  lines: codePoint,
  markdown: codePoint,
  /** A program that parses the JSON gets the original character. */
  json: (char) => Array.from({ length: char.length }, (_, at) => `\\u${hex(char.charCodeAt(at), 4)}`).join(''),
  /** The backslash is doubled: after parsing the JSON, an agent sees the escape sequence as text. */
  agent: (char) => `\\${codePoint(char)}`,
  /** Ends the single quotes, and writes the bytes in the ANSI-C quoting of bash and other shells. */
  shell: (char) => `'$'${[...Buffer.from(char)].map((byte) => `\\x${hex(byte, 2)}`).join('')}''`,
}

/** Escapes untrusted text, so that no part of it is invisible, or acts as a command, where it is shown. */
export function escapeText(text: string, to: Destination = 'line'): string {
  const write = writers[to]
  const hasLines = to === 'lines' || to === 'json' || to === 'agent'
  const seen = text.replace(unseen, (char) => (hasLines && (char === '\n' || char === '\t') ? char : write(char)))
  if (to === 'agent') return seen
  const inert = seen.replace(command, write)
  return to === 'markdown' ? inert.replace(/[\\`*_[\]<>|~]/g, '\\$&') : inert
}

/** Quotes a word of a command for the user to type, if it has characters with a meaning in a shell. */
export const quote = (word: string) =>
  /^[\w@%+=:,./…-]+$/.test(word) ? word : sep === '\\' ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`
