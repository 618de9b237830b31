import { forecast } from '../forecast.ts'
import { json, text } from '../http/answer.ts'
import { route } from '../http/route.ts'

/** S1, S2: served beside either profile's items. */
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
]
