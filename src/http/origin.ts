/** An origin as browsers send it, or undefined. */
export function readOrigin(text: string): string | undefined {
  if (!/^https?:\/\/[^/?#@]+$/i.test(text) || !URL.canParse(text)) return undefined
  return new URL(text).origin
}
