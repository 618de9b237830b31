/*
 * QR codes (ISO/IEC 18004) of up to 106 bytes: byte mode, versions 1 to 6, error correction level M.
 */

/** The sizes and the number of blocks in a version. */
type Sizes = readonly [dataOfBlock: number, correctionOfBlock: number, blocks: number]
const versions: readonly Sizes[] = [
  [16, 10, 1],
  [28, 16, 1],
  [44, 26, 1],
  [32, 18, 2],
  [43, 24, 2],
  [27, 16, 4],
]
const formatLevelM = 0
type Mask = (x: number, y: number) => number
const masks: readonly Mask[] = [
  (x, y) => (x + y) % 2,
  (_, y) => y % 2,
  (x) => x % 3,
  (x, y) => (x + y) % 3,
  (x, y) => (((x / 3) | 0) + ((y / 2) | 0)) & 1,
  (x, y) => ((x * y) % 2) + ((x * y) % 3),
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
]

/** The modules by row: true if the module is dark, undefined if it has no value yet. */
type Modules = (boolean | undefined)[][]

/** Returns the modules of a QR code; undefined if the text is too long. */
export function qrCode(text: string): Modules | undefined {
  const bytes = new TextEncoder().encode(text)
  const sizes = versions.find(([size, , blocks]) => size * blocks >= bytes.length + 2)
  if (!sizes) return undefined
  const version = versions.indexOf(sizes) + 1
  const codewords = interleave(encodeBytes(bytes, sizes), sizes)
  const candidates = masks.map((mask, index) => draw(version, codewords, mask, index))
  const penalties = candidates.map(penalty)
  return candidates[penalties.indexOf(Math.min(...penalties))]
}

/** Returns the data codewords: mode (4 bits), length (8 bits), the bytes, a terminator and padding. */
function encodeBytes(bytes: Uint8Array, [size, , blocks]: Sizes): number[] {
  const nibbles = [4, bytes.length >> 4, bytes.length & 15]
  for (const byte of bytes) nibbles.push(byte >> 4, byte & 15)
  nibbles.push(0)
  const data: number[] = []
  for (let index = 0; index < nibbles.length; index += 2) data.push((at(nibbles, index) << 4) | at(nibbles, index + 1))
  for (let pad = 0xec; data.length < size * blocks; pad ^= 0xec ^ 0x11) data.push(pad)
  return data
}

const at = (numbers: readonly number[], index: number) => numbers[index] ?? 0

function interleave(data: readonly number[], [size, corrections, count]: Sizes): number[] {
  const blocks = Array.from({ length: count }, (_, index) => data.slice(index * size, (index + 1) * size))
  const transpose = (rows: readonly number[][]) =>
    (rows[0] ?? []).flatMap((_, column) => rows.map((row) => at(row, column)))
  return [...transpose(blocks), ...transpose(blocks.map((block) => correctionOf(block, corrections)))]
}

/** Multiplies in GF(256) modulo x^8 + x^4 + x^3 + x^2 + 1. */
function multiply(a: number, b: number): number {
  let product = 0
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product >> 7) * 0x11d)
    product ^= ((b >> bit) & 1) * a
  }
  return product
}

/** Returns the error correction codewords of a block: the remainder of a Reed–Solomon division. */
function correctionOf(block: readonly number[], degree: number): number[] {
  let divisor = [1]
  for (let index = 0, root = 1; index < degree; index++, root = multiply(root, 2)) {
    const previous = divisor
    divisor = [...previous, 0].map((value, position) => value ^ multiply(at(previous, position - 1), root))
  }
  let remainder = new Array<number>(degree).fill(0)
  for (const byte of block) {
    const factor = byte ^ at(remainder, 0)
    remainder = [...remainder.slice(1), 0].map((value, position) => value ^ multiply(at(divisor, position + 1), factor))
  }
  return remainder
}

function draw(version: number, codewords: readonly number[], mask: Mask, maskNumber: number): Modules {
  const size = 17 + 4 * version
  const rows: Modules = Array.from({ length: size }, () => new Array(size).fill(undefined))
  const set: SetModule = (x, y, isDark) => {
    const row = rows[y]
    if (row && x >= 0 && x < size) row[x] = isDark
  }
  const square = (centerX: number, centerY: number, radius: number) => {
    for (let dy = -radius; dy <= radius; dy++)
      for (let dx = -radius; dx <= radius; dx++) {
        const distance = Math.max(Math.abs(dx), Math.abs(dy))
        set(centerX + dx, centerY + dy, radius === 2 ? distance !== 1 : distance !== 2 && distance !== 4)
      }
  }
  for (let at = 8; at < size - 8; at++) {
    set(6, at, at % 2 === 0)
    set(at, 6, at % 2 === 0)
  }
  square(3, 3, 4)
  square(size - 4, 3, 4)
  square(3, size - 4, 4)
  if (version > 1) square(size - 7, size - 7, 2)
  drawFormat(set, size, maskNumber)
  placeData(rows, size, codewords, mask)
  return rows
}

type SetModule = (x: number, y: number, isDark: boolean) => void

/** Draws level and mask with their BCH code, twice. */
function drawFormat(set: SetModule, size: number, mask: number): void {
  const data = (formatLevelM << 3) | mask
  let remainder = data
  for (let index = 0; index < 10; index++) remainder = (remainder << 1) ^ ((remainder >> 9) * 0x537)
  const bits = ((data << 10) | remainder) ^ 0x5412
  for (let index = 0; index < 15; index++) {
    const isDark = ((bits >> index) & 1) === 1
    if (index < 6) set(8, index, isDark)
    else if (index < 8) set(8, index + 1, isDark)
    else if (index === 8) set(7, 8, isDark)
    else set(14 - index, 8, isDark)
    if (index < 8) set(size - 1 - index, 8, isDark)
    else set(8, size - 15 + index, isDark)
  }
  set(8, size - 8, true)
}

/** Places the bits in pairs of columns from the right, alternately upwards and downwards. */
function placeData(rows: Modules, size: number, codewords: readonly number[], mask: Mask): void {
  let bit = 0
  for (let right = size - 1, isUp = true; right > 0; right -= right === 8 ? 3 : 2, isUp = !isUp)
    for (let step = 0; step < size; step++) {
      const y = isUp ? size - 1 - step : step
      const row = rows[y] ?? []
      for (const x of [right, right - 1]) {
        if (row[x] !== undefined) continue
        const value = (at(codewords, bit >> 3) >> (7 - (bit & 7))) & 1
        row[x] = (value === 1) !== (mask(x, y) === 0)
        bit++
      }
    }
}

/** Rates how hard a code is to read: runs, squares, patterns like those in the corners, too much of one colour. */
function penalty(rows: Modules): number {
  const size = rows.length
  const columns = rows.map((_, x) => rows.map((row) => row[x]))
  const lines = [...rows, ...columns].map((line) => line.map((isDark) => (isDark ? '1' : '0')).join(''))
  let points = 0
  for (const line of lines) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) points += run.length - 2
    points += 40 * (line.match(/(?=10111010000|00001011101)/g) ?? []).length
  }
  for (const [y, row] of rows.entries()) {
    const above = rows[y - 1] ?? []
    for (let x = 1; x < size; x++)
      if (row[x] === above[x] && row[x] === row[x - 1] && row[x] === above[x - 1]) points += 3
  }
  const dark = rows.flat().filter(Boolean).length
  return points + 10 * Math.floor(Math.abs((20 * dark) / size ** 2 - 10))
}
