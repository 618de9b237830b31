import assert from 'node:assert/strict'
import { Ajv, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import type { Received, Service } from '../../src/verify/service.ts'

interface Operation {
  readonly responses: Record<string, { headers?: object; content?: object } | undefined>
}

interface Document {
  readonly paths: Record<string, Record<string, Operation | undefined>>
}

/** Makes a service whose every answer is held against the OpenAPI document: an undocumented status or body fails. */
export function documentedBy(document: Document): (service: Service) => Service {
  const ajv = new Ajv({ strict: false })
  formats.default(ajv)
  ajv.addSchema(document, 'document')
  const validators = new Map<string, ValidateFunction>()

  return (service) => ({
    ...service,
    async send(...request) {
      const received = await service.send(...request)
      hold(received)
      return received
    },
  })

  function hold(received: Received): void {
    const { sent, status, headers, text } = received
    if (/^\/swagger\b/i.test(sent.path)) return
    const [place, operations] = placeOf(sent.path) ?? []
    const method = sent.method === 'HEAD' ? 'get' : sent.method.toLowerCase()
    const operation = operations?.[method]
    if (!operation) {
      assert.ok((operations ? [204, 405] : [404]).includes(status), where(received))
      return
    }
    const response = operation.responses[status]
    assert.ok(response, `undocumented: ${where(received)}`)
    for (const name of Object.keys(response.headers ?? {})) assert.ok(headers[name.toLowerCase()], where(received))
    const type = headers['content-type']?.split(';')[0]
    if (sent.method === 'HEAD' || (response.content === undefined && text === '')) return
    assert.ok(Object.hasOwn(response.content ?? {}, type ?? ''), `undocumented ${type}: ${where(received)}`)
    const isValid = validatorOf(['paths', place, method, 'responses', status, 'content', type, 'schema'])
    const body = type?.endsWith('json') ? JSON.parse(text) : text
    assert.ok(isValid(body), `${where(received)}: ${JSON.stringify(isValid.errors)}`)
  }

  function validatorOf(path: readonly unknown[]): ValidateFunction {
    const parts = path.map((part) => encodeURIComponent(`${part}`.replaceAll('~', '~0').replaceAll('/', '~1')))
    const pointer = parts.join('/')
    const known = validators.get(pointer) ?? ajv.compile({ $ref: `document#/${pointer}` })
    validators.set(pointer, known)
    return known
  }

  /** By the document alone: literal segments, then `{id}`. */
  function placeOf(target: string): [string, Record<string, Operation | undefined>] | undefined {
    const path = unescaped(target.split('?')[0]?.replace(/(.)\/$/, '$1') ?? '')
    return Object.entries(document.paths).find(([place]) =>
      new RegExp(`^${place.replace('{id}', '[^/]+')}$`, 'i').test(path),
    )
  }
}

/** G2: percent-encoded letters and digits match; everything else stays as it was sent. */
const unescaped = (path: string) =>
  path.replace(/%(3\d|[46][1-9a-f]|[57][0-9a])/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))

const where = ({ sent, status, text }: Received) => `${sent.method} ${sent.path} → ${status} ${text.slice(0, 200)}`
