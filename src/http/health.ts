import { retryAfter, text, withHeaders } from './response.ts'
import { type Route, route } from './router.ts'

/** Liveness and readiness for load balancers. `unreadyReason` returns why the instance should get no requests. */
export const healthRoutes = (unreadyReason: () => Promise<string | undefined>): Route[] => [
  route({
    operation: 'getLiveness',
    method: 'GET',
    path: '/health/live',
    isHealthCheck: true,
    execute: () => text(200, 'live'),
  }),
  route({
    operation: 'getReadiness',
    method: 'GET',
    path: '/health/ready',
    isHealthCheck: true,
    execute: unreadyReason,
    toResponse: (reason) => (reason === undefined ? text(200, 'ready') : withHeaders(text(503, reason), retryAfter)),
  }),
]
