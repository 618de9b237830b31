import { forecast } from '../forecast.ts'
import { json, text } from '../http/answer.ts'
import type { Caller } from '../http/auth.ts'
import { route } from '../http/route.ts'

/** S3: by what a bearer is called. */
const nameOf = ({ unique_name, name, sub }: Caller) =>
  [unique_name, name, sub].find((claim) => typeof claim === 'string') ?? ''

/** S1–S3: served beside either profile's items. */
export const samples = (now: () => Date, random: () => number) => [
  route({
    operation: 'forecast',
    method: 'GET',
    path: '/weatherforecast',
    handle: () => json(200, JSON.stringify(forecast(now(), random))),
  }),
  route({
    operation: 'greet',
    method: 'GET',
    path: '/',
    handle: () => text(200, 'Hello World!'),
  }),
  route({
    operation: 'greetByName',
    method: 'GET',
    path: '/secret',
    secured: true,
    handle: ({ caller = {} }) => text(200, `Hello ${nameOf(caller)}. My secret is a well-kept list.`),
  }),
]
