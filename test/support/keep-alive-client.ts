import { Agent, request } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { TestContext } from 'node:test'
import { cleanUp } from './cleanup.ts'

interface Received {
  readonly status: number
  readonly text: string
  readonly closesConnection: boolean
}

/** A client with one connection at a time, which it keeps open. */
export function keepAliveClient(t: TestContext, url: string): (path: string) => Promise<Received> {
  const isSecure = url.startsWith('https:')
  const options = { keepAlive: true, maxSockets: 1 }
  const agent = isSecure ? new HttpsAgent({ ...options, rejectUnauthorized: false }) : new Agent(options)
  cleanUp(t, () => agent.destroy())
  return (path) =>
    new Promise((resolve, reject) => {
      const outgoing = (isSecure ? httpsRequest : request)(`${url}${path}`, { agent }, async (incoming) => {
        try {
          let text = ''
          for await (const data of incoming) text += data
          const closesConnection = incoming.headers.connection === 'close'
          resolve({ status: incoming.statusCode ?? 0, text, closesConnection })
        } catch (error) {
          reject(error)
        }
      })
      outgoing.on('error', reject)
      outgoing.end()
    })
}
