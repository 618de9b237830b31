/** Returns the known word that was probably meant: the nearest within two edits. */
export function nearestWord(word: string, known: readonly string[]): string | undefined {
  const within = (edits: number) =>
    known.find((candidate) => word.length > edits && isWithinEdits(word, candidate, edits))
  return within(0) ?? within(1) ?? within(2)
}

/** Whether the Levenshtein distance of two words is at most `edits`. */
function isWithinEdits(a: string, b: string, edits: number): boolean {
  if (a === b) return true
  if (a !== '' && a[0] === b[0]) return isWithinEdits(a.slice(1), b.slice(1), edits)
  return (
    edits > 0 &&
    [
      [a.slice(1), b],
      [a, b.slice(1)],
      [a.slice(1), b.slice(1)],
    ].some(([x = '', y = '']) => isWithinEdits(x, y, edits - 1))
  )
}
