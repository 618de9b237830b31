import { type Check, choice, items, onOwnServer, spec, unique } from '../check.ts'
import { expectAllow, expectArray, expectEmpty, expectMedia, expectStatus, expectThat, jsonOf } from '../expect.ts'
import type { Service } from '../service.ts'
import type { Subject } from './subject.ts'

export function pathChecks({ body, createdStatus, collectionMethods, itemMethods }: Subject): Check[] {
  /** The path of an item that this run made. */
  async function ownPath(service: Service): Promise<string> {
    const { id } = jsonOf(await service.send('POST', items, body(unique()))) as { id: unknown }
    return `${items}/${encodeURIComponent(`${id}`)}`
  }

  return [
    spec('G1', 'paths match in any case', async (service) => {
      for (const path of ['/API/TODOITEMS', '/Api/TodoItems', '/api/todoItems'])
        expectStatus(await service.send('GET', path), 200)
      expectStatus(await service.send('POST', '/API/TodoItems', body(unique())), createdStatus)
      for (const path of ['/weatherforecast', '/secret', '/swagger/v1/swagger.json']) {
        const { status } = await service.send('GET', path)
        expectStatus(await service.send('GET', path.toUpperCase()), status)
      }
    }),
    choice('G2', 'one trailing slash is accepted', async (service) => {
      expectArray(await service.send('GET', `${items}/`))
      expectArray(await service.send('GET', '/weatherforecast/'))
      expectStatus(await service.send('POST', `${items}/`, body(unique())), createdStatus)
    }),
    choice('G2', 'two trailing slashes name nothing', async (service) => {
      expectStatus(await service.send('GET', `${items}//`), 404)
    }),
    choice('G2', 'percent-encoded letters match', async (service) => {
      expectArray(await service.send('GET', '/api/%74odoitems'))
      expectArray(await service.send('GET', '/%61p%69/todo%49tems'))
    }),
    choice('G2', 'an encoded slash does not part segments', async (service) => {
      expectStatus(await service.send('GET', '/api%2Ftodoitems'), 404)
    }),
    choice('G6', 'a method that the collection does not offer gets 405 with Allow', async (service) => {
      for (const method of ['PATCH', 'PUT', 'TRACE'].filter((one) => !collectionMethods.includes(one))) {
        const answer = await service.send(method, items)
        expectEmpty(answer, 405)
        expectAllow(answer, collectionMethods)
      }
    }),
    onOwnServer(
      choice('G6', 'the collection as a whole cannot be deleted', async (service) => {
        const answer = await service.send('DELETE', items)
        expectEmpty(answer, 405)
        expectAllow(answer, collectionMethods)
      }),
    ),
    choice('G6', 'a method that an item does not offer gets 405 with Allow', async (service) => {
      const path = await ownPath(service)
      for (const method of ['POST', 'PATCH']) {
        const answer = await service.send(method, path, {})
        expectEmpty(answer, 405)
        expectAllow(answer, itemMethods)
      }
    }),
    choice('G6', 'a method that a sample does not offer gets 405 with Allow', async (service) => {
      for (const path of ['/', '/weatherforecast', '/secret']) {
        const answer = await service.send('POST', path, {})
        expectEmpty(answer, 405)
        expectAllow(answer, ['GET', 'HEAD'])
      }
    }),
    choice('G6', 'HEAD is answered as GET, without the body', async (service) => {
      for (const path of ['/', items, '/weatherforecast']) {
        const head = await service.send('HEAD', path)
        expectEmpty(head, 200)
        const get = await service.send('GET', path)
        expectThat(head.headers['content-type'] === get.headers['content-type'], 'the content-type of GET', head)
      }
    }),
    choice('G6', 'OPTIONS gets 204 with Allow', async (service) => {
      for (const [path, methods] of [
        [items, collectionMethods],
        [await ownPath(service), itemMethods],
        ['/weatherforecast', ['GET', 'HEAD']],
        ['/', ['GET', 'HEAD']],
      ] as const) {
        const answer = await service.send('OPTIONS', path)
        expectEmpty(answer, 204)
        expectAllow(answer, methods)
      }
    }),
    choice('G6', 'an unknown path gets 404', async (service) => {
      for (const path of ['/nowhere', '/api', '/api/todoitem', `${items}/1/2`, '/api//todoitems', '/%zz'])
        expectStatus(await service.send('GET', path), 404)
      for (const method of ['POST', 'PUT', 'DELETE']) expectStatus(await service.send(method, '/nowhere'), 404)
    }),
    choice('G9', 'Accept never changes an answer', async (service) => {
      for (const accept of ['text/html', 'application/xml', 'application/json;q=0', '*/*', 'nonsense']) {
        const answer = await service.send('GET', items, undefined, { accept })
        expectStatus(answer, 200)
        expectMedia(answer, 'application/json')
      }
    }),
  ]
}
