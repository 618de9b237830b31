import { forecast, summaries } from '../forecast.ts'
import { json, text } from '../http/answer.ts'
import type { Caller } from '../http/auth.ts'
import { route } from '../http/route.ts'
import type { Shape } from '../http/shape.ts'

const tag = 'Samples'

const weatherForecast: Shape = {
  name: 'WeatherForecast',
  members: {
    date: { type: 'string', format: 'date-time' },
    temperatureC: { type: 'integer', format: 'int32', minimum: -20, maximum: 54 },
    temperatureF: { type: 'integer', format: 'int32' },
    summary: { type: 'string', nullable: true, enum: [...summaries, null] },
  },
  example: { date: '2026-06-02T12:00:00.000+00:00', temperatureC: 20, temperatureF: 67, summary: 'Mild' },
}

const greeting = 'Hello World!'

/** S3: by what a bearer is called. */
const nameOf = ({ unique_name, name, sub }: Caller) =>
  [unique_name, name, sub].find((claim) => typeof claim === 'string') ?? ''
const secretGreeting = (name: unknown) => `Hello ${name}. My secret is a well-kept list.`

/** S1–S3: served beside either profile's items. */
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
    handle: () => json(200, JSON.stringify(forecast(now(), random))),
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
    handle: () => text(200, greeting),
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
    handle: ({ caller = {} }) => text(200, secretGreeting(nameOf(caller))),
  }),
]
