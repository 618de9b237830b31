import fc from 'fast-check'

/** Any character but U+0000. The `binary` of fast-check has the same, but takes a second to prepare. */
const character = fc
  .integer({ min: 1, max: 0x10ffff })
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code))

/** Well-formed text without U+0000, which PostgreSQL cannot store. */
export const storableText = (maxLength = 20) => fc.string({ unit: character, minLength: 1, maxLength })
