// npx playwright test --config examples/playwright
import { test as base, expect } from '@playwright/test'
import { start, type TodoServer } from 'todo-item-service'

/** One server for each worker process, reset before each test. */
const test = base.extend<{ server: TodoServer<'a'> }, { startedServer: TodoServer<'a'> }>({
  startedServer: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright requires a pattern.
    async ({}, use) => {
      const server = await start({ profile: 'a' })
      await use(server)
      await server.close()
    },
    { scope: 'worker' },
  ],
  async server({ startedServer }, use) {
    await startedServer.reset()
    await use(startedServer)
  },
  // So that `request` and `page` take paths.
  baseURL: ({ server }, use) => use(server.url),
})

test('the list has the items of the service', async ({ server, request }) => {
  await server.putItems([{ id: 7, name: 'walk the dog', isComplete: true }])
  const response = await request.get('/api/todoitems')
  expect(await response.json()).toEqual([{ id: 7, name: 'walk the dog', isComplete: true }])
})

test('a request fails once, then works', async ({ server, request }) => {
  await server.addFault({ method: 'POST', times: 1, code: 503 })
  const data = { name: 'buy milk', isComplete: false }
  expect(await request.post('/api/todoitems', { data })).not.toBeOK()
  expect(await request.post('/api/todoitems', { data })).toBeOK()
  expect(server.requests().map(({ method, status }) => `${method} ${status}`)).toEqual(['POST 503', 'POST 201'])
})
