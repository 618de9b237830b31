import fc from 'fast-check'

/** Any character. The `binary` of fast-check has the same, but takes a second to prepare. */
const character = fc
  .integer({ min: 0, max: 0x10ffff })
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code))

/** Well-formed text. */
export const storableText = (maxLength = 20) => fc.string({ unit: character, minLength: 1, maxLength })
