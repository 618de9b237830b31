/**
 * Where text goes that somebody else wrote: to a line of a terminal or log, to several lines, into JSON that is read by a
 * program, or by an agent, into Markdown, or between single quotes of a shell.
 */
export type Destination = 'line' | 'lines' | 'json' | 'agent' | 'markdown' | 'shell'

/**
 * Characters that control a terminal, end a line, turn text around or are not seen. Those that join emoji, or choose how
 * one looks, are left.
 */
const unseen =
  /(?!(?<=[\p{ExtPict}\p{EMod}]\ufe0f?)\u200d\p{ExtPict})(?!(?<=\P{DI})[\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu

/** GitHub Actions, Azure Pipelines and TeamCity find commands in what a step prints: `::error::`, `##[error]`, `##vso[…]`. */
const command = /#(?=\w*\[)(?<=##)|:(?=:)(?<=^\s*:)/gm

const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const codePoint = (char: string) => short[char] ?? `\\u{${char.codePointAt(0)?.toString(16)}}`
const hex = (value: number, length: number) => value.toString(16).padStart(length, '0')

/** How a character is written where it is escaped. */
const writers: Readonly<Record<Destination, (char: string) => string>> = {
  line: codePoint,
  lines: codePoint,
  markdown: codePoint,
  /** The JSON has the same value. */
  json: (char) => Array.from({ length: char.length }, (_, at) => `\\u${hex(char.charCodeAt(at), 4)}`).join(''),
  /** The value of the JSON has it as text. */
  agent: (char) => `\\${codePoint(char)}`,
  /** ANSI-C quoting, of bash and others. */
  shell: (char) => `'$'${[...Buffer.from(char)].map((byte) => `\\x${hex(byte, 2)}`).join('')}''`,
}

/** Text from a server, a client or a file must not act where it is shown, nor hide. */
export function escapeText(text: string, to: Destination = 'line'): string {
  const write = writers[to]
  const hasLines = to === 'lines' || to === 'json' || to === 'agent'
  const seen = text.replace(unseen, (char) => (hasLines && (char === '\n' || char === '\t') ? char : write(char)))
  if (to === 'agent') return seen
  const inert = seen.replace(command, write)
  return to === 'markdown' ? inert.replace(/[\\`*_[\]<>|~]/g, '\\$&') : inert
}
