import { type NamedSchema, object } from '../common/schema.ts'
import type { Claims } from '../http/request.ts'
import { json, text } from '../http/response.ts'
import { route } from '../http/router.ts'
import { forecast, summaries } from './forecast.ts'

const tag = 'Samples'

const weatherForecast: NamedSchema = {
  name: 'WeatherForecast',
  ...object({
    date: { type: 'string', format: 'date-time' },
    temperatureC: { type: 'integer', format: 'int32', minimum: -20, maximum: 54 },
    temperatureF: { type: 'integer', format: 'int32' },
    summary: { type: 'string', nullable: true, enum: [...summaries, null] },
  }),
  example: { date: '2026-06-02T12:00:00.000+00:00', temperatureC: 20, temperatureF: 67, summary: 'Mild' },
}

const greeting = 'Hello World!'

/** S3: returns the identity name of the caller. */
const nameOf = ({ unique_name, name, sub }: Claims) =>
  [unique_name, name, sub].find((claim) => typeof claim === 'string') ?? ''
const secretGreeting = (name: unknown) => `Hello ${name}. My secret is a well-kept list.`

/** Rules by operation and status. */
export type MetRules = Readonly<Record<string, Readonly<Record<number, readonly string[]>>>>

/** The rules that successful requests to the sample endpoints and to the OpenAPI document meet. */
export const samplesMet: MetRules = {
  getForecast: { 200: ['S1', 'S7'] },
  greet: { 200: ['S2', 'S7'] },
  greetByName: { 200: ['S3'] },
  getDocument: { 200: ['S4'] },
}

/** S1–S3: the sample endpoints, which both profiles serve. */
export const samples = (now: () => Date, random: () => number) => [
  route({
    operation: 'getForecast',
    docs: {
      tag,
      summary: 'A forecast for the next five days',
      success: { status: 200, description: 'Five entries.', body: { many: weatherForecast } },
    },
    method: 'GET',
    path: '/weatherforecast',
    execute: () => json(200, JSON.stringify(forecast(now(), random))),
  }),
  route({
    operation: 'greet',
    docs: {
      tag,
      summary: 'A greeting',
      success: { status: 200, description: 'The greeting.', body: { text: greeting } },
    },
    method: 'GET',
    path: '/',
    execute: () => text(200, greeting),
  }),
  route({
    operation: 'greetByName',
    docs: {
      tag,
      summary: 'A greeting for the bearer of a token, with a secret',
      success: { status: 200, description: 'The greeting.', body: { text: secretGreeting('ada') } },
    },
    method: 'GET',
    path: '/secret',
    secured: true,
    execute: ({ caller = {} }) => text(200, secretGreeting(nameOf(caller))),
  }),
]
