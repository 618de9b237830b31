import assert from 'node:assert/strict'
import { Ajv, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import type { Client, Response } from '../../src/verify/engine/client.ts'

type Operations = Record<string, Operation | undefined>

interface Operation {
  readonly responses: Record<string, { headers?: object; content?: object } | undefined>
}

interface OpenApiDocument {
  readonly paths: Record<string, Operations>
}

/** Wraps a client: a response whose status, headers or body the OpenAPI document does not describe is an error. */
export function openApiValidation(document: OpenApiDocument): (client: Client) => Client {
  const ajv = new Ajv({ strict: false })
  formats.default(ajv)
  ajv.addSchema(document, 'document')
  const validators = new Map<string, ValidateFunction>()

  return (client) => ({
    ...client,
    async send(...request) {
      const response = await client.send(...request)
      validate(response)
      return response
    },
  })

  function validate(response: Response): void {
    const { request, status, headers, text } = response
    if (/^\/swagger\b/i.test(request.path.replace('%73', 's'))) return
    const [path, operations] = findPath(request.path) ?? []
    const method = request.method === 'HEAD' ? 'get' : request.method.toLowerCase()
    const operation = operations?.[method]
    if (!operation) {
      assert.ok((operations ? [204, 405] : [404]).includes(status), describe(response))
      return
    }
    const documented = operation.responses[status]
    assert.ok(documented, `undocumented status: ${describe(response)}`)
    // Whether a PUT gets an ETag depends on what was sent.
    for (const name of status === 204 ? [] : Object.keys(documented.headers ?? {}))
      assert.ok(headers[name.toLowerCase()], `no header ${name}: ${describe(response)}`)
    if (request.method === 'HEAD' || (documented.content === undefined && text === '')) return
    const type = headers['content-type']?.split(';')[0]
    assert.ok(Object.hasOwn(documented.content ?? {}, type ?? ''), `undocumented ${type}: ${describe(response)}`)
    const isValid = validatorFor(['paths', path, method, 'responses', status, 'content', type, 'schema'])
    const body = type?.endsWith('json') ? JSON.parse(text) : text
    assert.ok(isValid(body), `${describe(response)}: ${JSON.stringify(isValid.errors)}`)
  }

  function validatorFor(location: readonly unknown[]): ValidateFunction {
    const pointer = location
      .map((part) => encodeURIComponent(`${part}`.replaceAll('~', '~0').replaceAll('/', '~1')))
      .join('/')
    const validator = validators.get(pointer) ?? ajv.compile({ $ref: `document#/${pointer}` })
    validators.set(pointer, validator)
    return validator
  }

  function findPath(target: string): [string, Operations] | undefined {
    const path = decodeAlphanumerics(target.split('?')[0]?.replace(/(.)\/$/, '$1') ?? '')
    return Object.entries(document.paths).find(([template]) =>
      new RegExp(`^${template.replace('{id}', '[^/]+')}$`, 'i').test(path),
    )
  }
}

/** G2: only percent-encoded letters and digits are decoded before matching. */
const decodeAlphanumerics = (path: string) =>
  path.replace(/%(3\d|[46][1-9a-f]|[57][0-9a])/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))

const describe = ({ request, status, text }: Response) =>
  `${request.method} ${request.path} → ${status} ${text.slice(0, 200)}`
