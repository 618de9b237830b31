import { andThen, type Eventually } from '../eventually.ts'
import { type Answer, retrySoon, text, withHeaders } from './answer.ts'
import { type Route, route } from './route.ts'

/** For a balancer: whether the process lives, and whether it should get requests. `reason` says why it should not. */
export const healthRoutes = (reason: () => Eventually<string | undefined>): Route[] => [
  route({
    operation: 'getLiveness',
    method: 'GET',
    path: '/health/live',
    isForOperators: true,
    handle: () => text(200, 'live'),
  }),
  route({
    operation: 'getReadiness',
    method: 'GET',
    path: '/health/ready',
    isForOperators: true,
    handle: () => andThen(reason(), readiness),
  }),
]

function readiness(reason: string | undefined): Answer {
  if (reason === undefined) return text(200, 'ready')
  return withHeaders(text(503, reason), retrySoon)
}
