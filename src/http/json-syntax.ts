/** What JSON's grammar expects next, as an error message calls it. */
type Expected =
  | 'a value'
  | 'a value or ]'
  | 'a name in double quotes'
  | 'a name in double quotes or }'
  | 'a colon'
  | 'a comma or ]'
  | 'a comma or }'
  | 'the end of the body'

const [space = 0, quote = 0, backslash = 0] = Buffer.from(' "\\')
const whiteSpace = /[\t\n\r ]*/y
const scalar = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/
/** Matches `true`, `false` or `null`, or as many of their first letters as the text has. */
const literalStart = /t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?/y
const numberStart = /-?(?:(?:0|[1-9]\d*)(?:\.(?:\d+(?:[eE][+-]?\d*)?)?|[eE][+-]?\d*)?)?/y
const escapeSequence = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y
const escapeStart = /\\(?:u[\da-fA-F]{0,3})?/y

/** Says where a body is not JSON, and why, without quoting it. The messages of JSON.parse differ between runtimes. */
export function describeSyntaxError(text: string): string {
  if (text === '') return 'The body is empty.'
  const { index, message } = findSyntaxError(text) ?? { index: 0, message: 'it cannot be read' }
  const position = `at ${positionIn(text, index)}`
  return `The body is not JSON: ${index === text.length ? `it ends too early, ${position}, where` : `${position},`} ${message}.`
}

/** Returns line and column. Columns count characters: 😀 is one. */
export function positionIn(text: string, index: number): string {
  const lines = text.slice(0, index).split(/\r\n?|\n/)
  return `line ${lines.length}, column ${[...(lines.at(-1) ?? '')].length + 1}`
}

/** Finds the first character that JSON does not allow, or the end of a text that is cut off. Takes linear time. */
export function findSyntaxError(text: string): { readonly index: number; readonly message: string } | undefined {
  const open: ('{' | '[')[] = []
  let expected: Expected = 'a value'
  let index = 0
  const skip = (pattern: RegExp) => {
    pattern.lastIndex = index
    const isFound = pattern.test(text)
    if (isFound) index = pattern.lastIndex
    return isFound
  }
  const afterValue = (): Expected => {
    const inside = open.at(-1)
    return inside === undefined ? 'the end of the body' : inside === '{' ? 'a comma or }' : 'a comma or ]'
  }
  for (;;) {
    skip(whiteSpace)
    const character = text[index]
    if (character === undefined && expected === 'the end of the body') return undefined
    const isValue = expected.startsWith('a value')
    if ((character === '}' || character === ']') && expected.endsWith(character)) {
      index++
      open.pop()
      expected = afterValue()
    } else if (character === ',' && expected.startsWith('a comma')) {
      index++
      expected = open.at(-1) === '{' ? 'a name in double quotes' : 'a value'
    } else if (character === ':' && expected === 'a colon') {
      index++
      expected = 'a value'
    } else if (isValue && (character === '{' || character === '[')) {
      index++
      open.push(character)
      expected = character === '{' ? 'a name in double quotes or }' : 'a value or ]'
    } else if (character === '"' && (isValue || expected.startsWith('a name'))) {
      const end = endOfText(text, index + 1)
      if (end.message) return end
      index = end.index + 1
      expected = isValue ? afterValue() : 'a colon'
    } else {
      const start = index
      const isLiteral = isValue && skip(literalStart)
      if (isValue && !isLiteral) skip(numberStart)
      if (!scalar.test(text.slice(start, index))) {
        const hint = character === "'" ? '; a text is in double quotes, not single ones' : ''
        const missing = index === start ? expected : isLiteral ? 'true, false or null' : 'a digit'
        return { index, message: `${missing} is expected${hint}` }
      }
      expected = afterValue()
    }
  }
}

/** Returns the index of the closing quote; or of the first character that a string cannot contain, with a message. */
function endOfText(text: string, start: number): { index: number; message: string } {
  for (let index = start; ; ) {
    const code = text.charCodeAt(index)
    if (code === backslash) {
      escapeSequence.lastIndex = index
      if (!escapeSequence.test(text)) {
        escapeStart.lastIndex = index
        escapeStart.test(text)
        return { index: escapeStart.lastIndex, message: 'an escape sequence such as \\n or \\u00e9 is expected' }
      }
      index = escapeSequence.lastIndex
    } else if (code === quote) return { index, message: '' }
    else if (code < space) return { index, message: 'a control character must be written as an escape sequence' }
    // charCodeAt() returns NaN after the end of the text.
    else if (Number.isNaN(code)) return { index, message: 'a closing double quote is expected' }
    else index++
  }
}
