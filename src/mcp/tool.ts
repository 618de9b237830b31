import type { ToolAnnotations } from '@modelcontextprotocol/server'
import { isValid, type Schema } from '../common/schema.ts'

export interface Tool<Input = object> {
  readonly name: string
  readonly title: string
  /** Tells an agent when to use the tool. */
  readonly description: string
  readonly input: Schema<Input>
  readonly output: Schema<unknown>
  /** Default: it only reads. */
  readonly annotations?: ToolAnnotations
  /** Calls the tool. Throws an Error whose message says what to do. */
  run(input: Input, call: ToolCall): Promise<ToolResult>
}

interface ToolCall {
  /** Aborted when the client cancels the call or disconnects. */
  readonly signal: AbortSignal
  reportProgress(done: number, total: number, message: string): void
}

interface ToolResult {
  readonly data: Record<string, unknown>
  /** The text of the result. Default: `data` as JSON. */
  readonly text?: string
}

export const tool = <Input>(definition: Tool<Input>): Tool => definition as Tool

/** Returns the mistakes in the arguments of a tool. It does not check the members of objects: the service does. */
export function findMistakes({ properties = {}, required = [] }: Schema<unknown>, input: object): string[] {
  const unknown = Object.keys(input).filter((name) => !Object.hasOwn(properties, name))
  const values = Object.entries(properties).map(([name, schema]) => [name, schema, Object(input)[name]] as const)
  return [
    ...unknown.map((name) => `There is no argument ${name}: use ${Object.keys(properties).join(', ')}.`),
    ...values.flatMap(([name, schema, value]) => {
      if (value === undefined)
        return required.includes(name) ? `The argument ${name} is missing: ${expected(schema)}` : []
      return isValid(schema, value) ? [] : `The argument ${name} is not valid: ${expected(schema)}`
    }),
  ]
}

const expected = ({ description = '', enum: values }: Schema<unknown>) =>
  values ? `use ${values.join(' or ')}.` : description

/** Turns an OpenAPI 3.0 schema into JSON Schema, which has a list of types in place of `nullable`. */
export const toJsonSchema = (schema: Schema<unknown>): Record<string, unknown> =>
  JSON.parse(
    JSON.stringify(schema, (_, value) =>
      value?.nullable === true ? { ...value, nullable: undefined, type: [value.type, 'null'] } : value,
    ),
  )

/** The limit of a result, about 5,000 tokens: an agent reads all of it. */
const maxCharacters = 20_000

/** Returns as many of the first entries as fit into a result, with long texts cut, and how many are left out. */
export function firstOf<T>(entries: readonly T[], limit: number, maxTextLength = 500) {
  const shown: T[] = []
  let characters = 0
  for (const entry of entries.slice(0, limit)) {
    const json = JSON.stringify(entry, (_, value) => (typeof value === 'string' ? cut(value, maxTextLength) : value))
    characters += json.length
    if (characters > maxCharacters && shown.length > 0) break
    shown.push(JSON.parse(json))
  }
  return { shown, left: entries.length - shown.length }
}

const cut = (text: string, maxLength: number) =>
  text.length > maxLength ? `${text.slice(0, maxLength).toWellFormed()}… (${text.length} characters)` : text
