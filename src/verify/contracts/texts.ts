import type { Random } from '../engine/random.ts'

/** Texts that servers change, by what they do to them. */
export const textClasses: Readonly<Record<string, readonly string[]>> = {
  'accents, ligatures and letters with several forms': [
    'Caf\u00e9',
    'Cafe\u0301',
    '\u212b \u00c5 A\u030a',
    '\ufb01sh \u2460 \u00bd',
    'I \u0130 i \u0131',
    'Stra\u00dfe \u1e9e',
    '\u03a3 \u03c3 \u03c2',
    '\u1100\u1161 \uac00',
    '\u304b\u3099 \u304c \uff76\uff9e',
    'MiXeD cAsE',
  ],
  'white space': [
    '',
    ' ',
    ' leading',
    'trailing ',
    'a  b   c',
    '\ttab\t',
    'line\nbreak',
    'carriage\r\nreturn\r',
    'end\n',
    '\u00a0no\u00a0break\u00a0',
    '\u3000wide\u2003',
    'zero\u200bwidth\u200d\u200c',
    '\ufeffmark\ufeff',
    'separators\u2028\u2029\u0085',
  ],
  'markup, quotes and escapes': [
    'a & b &amp; &#39;',
    '<b>bold</b><script>alert(1)</script>',
    `"double" 'single' \`back\``,
    '\\ \\n \\u0041 \\\\',
    '%41',
    '%2F%20',
    '100% %%',
    '&lt;',
    'a+b=c?d#e;f',
    '{{template}} $1 #{x} %s {0} \u0024{value}',
    "'; DROP TABLE items; -- /* x */",
    'a/b/../c //',
    '\u201csmart\u201d \u2018quotes\u2019 \u2026 \u2013',
    '* _ ~ [link](x) # title',
  ],
  'what editors and filters rewrite': [
    'soft\u00adhyphen \u2011 \u2060joined',
    'https://example.com/?a=1&b=2#c www.example.com',
    'ada@example.com @ada #todo',
    ':smile: :+1: :-) <3',
    '(c) (r) (tm) 1/2 -> => -- --- ... !=',
    'damn hell shit fuck ass Scunthorpe classic',
    'password: secret token=abc',
    '4111 1111 1111 1111, 078-05-1120, +1 (555) 010-9999',
    'javascript:alert(1) onclick=x <a href=x>y</a>',
    '[ ] [x] - * + 1. > `code` **bold** __under__ ~~gone~~',
    '&nbsp;&copy;&#x41; \u00a0\u00a9',
    'C:\\temp\\new \\\\server\\share ~/x $HOME %PATH%',
    'don\'t "quote" it\u2019s 5\' 6"',
    'a,b;c|d\te',
    '=1+1 @SUM(A1) -2 +3',
    "$$ $& $` $' $0 $1 \\0 \\1 %1 %%",
    'it\\\'s \\"quoted\\" \\\\',
    'Hello World! hello world?',
  ],
  'texts that look like other values': [
    ...'007 0 -0 1.0 1e3 42 6.0 0x1F 12345678901234567890 true False null undefined NaN [] {"a":1} "quoted"'.split(' '),
    ...'2026-01-02 2026-01-02T03:04:05Z 01/02/2026 A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'.split(' '),
  ],
  'other scripts, emoji and surrogate pairs': [
    '\u6f22\u5b57 \u4eee\u540d',
    '\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea',
    '\u200ert\u200fl \u202amark\u202c \u2066x\u2069',
    '\ud83d\ude00',
    '\ud83d\udc69\u200d\ud83d\udc69\u200d\ud83d\udc67 \ud83c\udde8\ud83c\udded \ud83d\udc4d\ud83c\udffd',
    '\ud835\udcb3 \ud840\udc00',
    '\u2764\ufe0f \u2764',
    '\ufffd \uffff \ue000',
    '\u00ff \u0080 \u20ac \u0178',
  ],
  'control characters': ['a\u0000b', '\u0001\u0002', 'esc\u001b[0m', '\b\f\v', '\u007f\u009f', 'x\u0000'],
  'long texts': [
    'x'.repeat(256),
    `${'y'.repeat(299)}z`,
    '\u6f22'.repeat(300),
    `${'a'.repeat(254)}\ud83d\ude00b`,
    'w '.repeat(2100),
    // A pair may be cut at an even index, or at an odd one.
    ...['', 'x'].map((start) => `${start}${'\ud83d\ude00'.repeat(2100)}!`),
    `${'q'.repeat(9999)}.`,
    `${'p'.repeat(70_000)}.`,
    '\u20ac'.repeat(30_000),
    `${'a \u00e9'.repeat(65_536)}.`,
  ],
}

const generatedTexts = 12
const maxGeneratedLength = 40
const ranges: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0x01, 0x1f],
  [0x80, 0x24f],
  [0x300, 0x36f],
  [0x370, 0x6ff],
  [0x2000, 0x206f],
  [0x3040, 0x9fff],
  [0xe000, 0xfffd],
  [0x1f300, 0x1faff],
]

/** Texts of characters of all kinds. The first and the last character of each are visible. */
export function generateTexts(random: Random): string[] {
  const below = (limit: number) => Math.floor(random() * limit)
  return Array.from({ length: generatedTexts }, () => {
    const characters = Array.from({ length: 1 + below(maxGeneratedLength) }, () => {
      const [first, last] = ranges[below(ranges.length)] ?? [0x20, 0x7e]
      return String.fromCodePoint(first + below(last - first + 1))
    })
    return `<${characters.join('')}>`
  })
}
