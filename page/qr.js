/*
 * QR codes (ISO/IEC 18004) of up to 106 bytes: byte mode, versions 1 to 6, error correction level M.
 */

/** Codewords for data and for error correction of a block, and the number of blocks, by version. */
const versions = [undefined, [16, 10, 1], [28, 16, 1], [44, 26, 1], [32, 18, 2], [43, 24, 2], [27, 16, 4]]
const formatLevelM = 0
const masks = [
  (x, y) => (x + y) % 2,
  (_, y) => y % 2,
  (x) => x % 3,
  (x, y) => (x + y) % 3,
  (x, y) => (((x / 3) | 0) + ((y / 2) | 0)) & 1,
  (x, y) => ((x * y) % 2) + ((x * y) % 3),
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
]

/** Rows of modules, true where they are dark; undefined where the text is too long. */
export function qrCode(text) {
  const bytes = new TextEncoder().encode(text)
  const version = versions.findIndex((sizes) => sizes && sizes[0] * sizes[2] >= bytes.length + 2)
  if (version < 0) return undefined
  const codewords = interleave(encodeBytes(bytes, version), version)
  const candidates = masks.map((_, mask) => draw(version, codewords, mask))
  const penalties = candidates.map(penalty)
  return candidates[penalties.indexOf(Math.min(...penalties))]
}

/** Mode 4 bits, length 8 bits, the bytes, a terminator, padding. */
function encodeBytes(bytes, version) {
  const [size, , blocks] = versions[version]
  const nibbles = [4, bytes.length >> 4, bytes.length & 15]
  for (const byte of bytes) nibbles.push(byte >> 4, byte & 15)
  nibbles.push(0)
  const data = []
  for (let index = 0; index < nibbles.length; index += 2) data.push((nibbles[index] << 4) | nibbles[index + 1])
  for (let pad = 0xec; data.length < size * blocks; pad ^= 0xec ^ 0x11) data.push(pad)
  return data
}

function interleave(data, version) {
  const [size, corrections, count] = versions[version]
  const blocks = Array.from({ length: count }, (_, index) => data.slice(index * size, (index + 1) * size))
  const transpose = (rows) => rows[0].flatMap((_, column) => rows.map((row) => row[column]))
  return [...transpose(blocks), ...transpose(blocks.map((block) => correctionOf(block, corrections)))]
}

/** Multiplication in GF(256) modulo x^8 + x^4 + x^3 + x^2 + 1. */
function multiply(a, b) {
  let product = 0
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product >> 7) * 0x11d)
    product ^= ((b >> bit) & 1) * a
  }
  return product
}

/** The remainder of the Reed–Solomon division. */
function correctionOf(block, degree) {
  let divisor = [1]
  for (let index = 0, root = 1; index < degree; index++, root = multiply(root, 2)) {
    const shifted = [...divisor, 0]
    divisor = shifted.map((value, at) => value ^ (at > 0 ? multiply(divisor[at - 1], root) : 0))
  }
  const remainder = new Array(degree).fill(0)
  for (const byte of block) {
    const factor = byte ^ remainder.shift()
    remainder.push(0)
    for (let at = 0; at < degree; at++) remainder[at] ^= multiply(divisor[at + 1], factor)
  }
  return remainder
}

function draw(version, codewords, mask) {
  const size = 17 + 4 * version
  /** Undefined: free for data. */
  const rows = Array.from({ length: size }, () => new Array(size).fill(undefined))
  const set = (x, y, isDark) => {
    if (x >= 0 && y >= 0 && x < size && y < size) rows[y][x] = isDark
  }
  const square = (centerX, centerY, radius) => {
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
  for (const [x, y] of [
    [3, 3],
    [size - 4, 3],
    [3, size - 4],
  ])
    square(x, y, 4)
  if (version > 1) square(size - 7, size - 7, 2)
  drawFormat(set, size, mask)
  placeData(rows, size, codewords, mask)
  return rows
}

/** Level and mask with a BCH code, twice. */
function drawFormat(set, size, mask) {
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

/** In columns of two, from the right, up and down in turn. */
function placeData(rows, size, codewords, mask) {
  let bit = 0
  for (let right = size - 1, isUp = true; right > 0; right -= right === 8 ? 3 : 2, isUp = !isUp)
    for (let step = 0; step < size; step++) {
      const y = isUp ? size - 1 - step : step
      for (const x of [right, right - 1]) {
        if (rows[y][x] !== undefined) continue
        const value = ((codewords[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1
        rows[y][x] = (value === 1) !== (masks[mask](x, y) === 0)
        bit++
      }
    }
}

/** How hard a code is to read: runs, squares, patterns like those of the corners, and too much of one colour. */
function penalty(rows) {
  const size = rows.length
  const columns = rows.map((_, x) => rows.map((row) => row[x]))
  const lines = [...rows, ...columns].map((line) => line.map((isDark) => (isDark ? '1' : '0')).join(''))
  let points = 0
  for (const line of lines) {
    for (const [run] of line.matchAll(/0{5,}|1{5,}/g)) points += run.length - 2
    points += 40 * (line.match(/(?=10111010000|00001011101)/g) ?? []).length
  }
  for (let y = 1; y < size; y++)
    for (let x = 1; x < size; x++)
      if (rows[y][x] === rows[y - 1][x] && rows[y][x] === rows[y][x - 1] && rows[y][x] === rows[y - 1][x - 1])
        points += 3
  const dark = rows.flat().filter(Boolean).length
  return points + 10 * Math.floor(Math.abs((20 * dark) / size ** 2 - 10))
}
