import { createHmac, randomInt, randomUUID } from 'node:crypto'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { ForecastEntry, Json, JsonObject, Outcome, ReferenceServer, Request, Result, Route } from './reference.ts'
import { empty, isObject, json, ReferenceA, ReferenceB, setNode, text } from './reference.ts'
import type { FaultyServer } from './types.ts'

type Change = (document: JsonObject) => void
type Way = readonly (string | number)[]

const day = 86_400_000
const list = ['paths', '/api/todoitems'] as const
const single = ['paths', '/api/todoitems/{id}'] as const
const schemas = ['components', 'schemas'] as const

const set =
  (way: Way, value: Json | undefined): Change =>
  (document) =>
    setNode(document, way, value)

/** The server, with its description changed. */
const describe = (server: ReferenceServer, ...changes: Change[]): Server => {
  const document = server.document.bind(server)
  server.document = () => {
    const changed = document()
    for (const change of changes) change(changed)
    return changed
  }
  return server.create()
}

const rename =
  (from: Way, to: Way): Change =>
  (document) => {
    let node: Json = document
    for (const step of from) node = (node as JsonObject)[step] ?? null
    setNode(document, from, undefined)
    setNode(document, to, node)
  }

/** A change of the responses of both operations that need a token. */
const setRefusal =
  (status: string, response: Json | undefined): Change =>
  (document) => {
    for (const path of ['/secret', '/swagger/v1/swagger.json']) {
      setNode(document, ['paths', path, 'get', 'responses', status], response)
    }
  }

const authorization = (request: Request) => request.incoming.headersDistinct.authorization ?? []

export const documentFaults: readonly FaultyServer[] = [
  // The description, profile A
  {
    id: 'a-document-openapi-3-1',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description declares OpenAPI 3.1.0.',
    create: (options) => describe(new ReferenceA(options), set(['openapi'], '3.1.0')),
  },
  {
    id: 'a-document-info-version',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'info.version is the version of the build, 1.0.0.',
    create: (options) => describe(new ReferenceA(options), set(['info', 'version'], '1.0.0')),
  },
  {
    id: 'a-document-any-token',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description is sent to any bearer token, without checking it.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getDocument(request: Request): Promise<Result> {
          const [credentials = '', ...more] = authorization(request)
          const sent = /^bearer +./i.test(credentials) && more.length === 0
          return sent ? json(200, this.document()) : super.getDocument(request)
        }
      })(options).create(),
  },
  {
    id: 'a-document-other-case-open',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The guard compares the path with case, so /Swagger/v1/swagger.json needs no token.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getDocument(request: Request): Promise<Result> {
          return request.path.startsWith('/swagger/') ? super.getDocument(request) : json(200, this.document())
        }
      })(options).create(),
  },
  {
    id: 'a-document-create-200',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'A create is described with 200 and answered with 201.',
    create: (options) =>
      describe(
        new ReferenceA(options),
        rename([...list, 'post', 'responses', '201'], [...list, 'post', 'responses', '200']),
      ),
  },
  {
    id: 'a-document-id-int32',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The id of an item is described with the format int32.',
    create: (options) =>
      describe(new ReferenceA(options), set([...schemas, 'TodoItem', 'properties', 'id', 'format'], 'int32')),
  },
  {
    id: 'a-document-path-id-string',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The id in the path of a delete is described as any string.',
    create: (options) =>
      describe(new ReferenceA(options), set([...single, 'delete', 'parameters', 0, 'schema'], { type: 'string' })),
  },
  {
    id: 'a-document-name-not-nullable',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The name of an item is described as a string that is never null.',
    create: (options) =>
      describe(new ReferenceA(options), set([...schemas, 'TodoItem', 'properties', 'name', 'nullable'], undefined)),
  },
  {
    id: 'a-document-name-two-types',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The nullable name is written as a list of types, which OpenAPI 3.0 does not have.',
    create: (options) =>
      describe(
        new ReferenceA(options),
        set([...schemas, 'TodoItem', 'properties', 'name'], { type: ['string', 'null'] }),
      ),
  },
  {
    id: 'a-document-internal-secret',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The schema of an item is that of the stored entity, with its internal secret.',
    create: (options) =>
      describe(
        new ReferenceA(options),
        set([...schemas, 'TodoItem', 'properties', 'secret'], { type: 'string', nullable: true }),
      ),
  },
  {
    id: 'a-document-pascal-case',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The members of an item are described as Id, Name and IsComplete.',
    create: (options) =>
      describe(
        new ReferenceA(options),
        ...[
          ['id', 'Id'],
          ['name', 'Name'],
          ['isComplete', 'IsComplete'],
        ].map(([from = '', to = '']) =>
          rename([...schemas, 'TodoItem', 'properties', from], [...schemas, 'TodoItem', 'properties', to]),
        ),
        set([...schemas, 'TodoItem', 'required'], ['Id', 'Name', 'IsComplete']),
      ),
  },
  {
    id: 'a-document-is-complete-optional',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'isComplete is not described as required in a create.',
    create: (options) => describe(new ReferenceA(options), set([...schemas, 'NewTodoItem', 'required'], undefined)),
  },
  {
    id: 'a-document-of-profile-b',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description is that of profile B.',
    create: (options) =>
      new (class extends ReferenceA {
        override document(): JsonObject {
          return new ReferenceB(this.options).document()
        }
      })(options).create(),
  },
  {
    id: 'a-document-no-delete',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'DELETE is not described.',
    create: (options) => describe(new ReferenceA(options), set([...single, 'delete'], undefined)),
  },
  {
    id: 'a-document-reference-nowhere',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The list refers to #/definitions/TodoItem, which is not there.',
    create: (options) =>
      describe(
        new ReferenceA(options),
        set([...list, 'get', 'responses', '200', 'content', 'application/json', 'schema', 'items'], {
          $ref: '#/definitions/TodoItem',
        }),
      ),
  },
  {
    id: 'a-document-same-operation-ids',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'Two operations have the operationId getTodoItems.',
    create: (options) => describe(new ReferenceA(options), set([...single, 'get', 'operationId'], 'getTodoItems')),
  },
  {
    id: 'a-document-parameter-undeclared',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The update does not declare the id of its path.',
    create: (options) => describe(new ReferenceA(options), set([...single, 'put', 'parameters'], undefined)),
  },
  {
    id: 'a-document-no-responses',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The operation DELETE has no responses.',
    create: (options) => describe(new ReferenceA(options), set([...single, 'delete', 'responses'], {})),
  },
  {
    id: 'a-document-list-of-one',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The list is described as a single item instead of an array.',
    create: (options) =>
      describe(
        new ReferenceA(options),
        set([...list, 'get', 'responses', '200', 'content', 'application/json', 'schema'], {
          $ref: '#/components/schemas/TodoItem',
        }),
      ),
  },
  {
    id: 'a-document-servers-prefix',
    profile: 'a',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The base address of the description ends with /api, which its paths repeat.',
    create: (options) => describe(new ReferenceA(options), set(['servers'], [{ url: '/api' }])),
  },
  {
    id: 'a-document-text-plain',
    profile: 'a',
    rule: 'G3',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description is sent as text/plain.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getDocument(request: Request): Promise<Result> {
          const result = await super.getDocument(request)
          return result.status === 200 ? text(200, String(result.body)) : result
        }
      })(options).create(),
  },
  {
    id: 'a-document-not-acceptable',
    profile: 'a',
    rule: 'G9',
    kind: 'document',
    breaks: 'choice',
    fault: 'The description is refused with 406 when Accept does not have JSON.',
    create: (options) =>
      describe(
        new (class extends ReferenceA {
          override async getDocument(request: Request): Promise<Result> {
            const result = await super.getDocument(request)
            const accepted = /json|\*\/\*|application\/\*/i.test(request.incoming.headers.accept ?? '*/*')
            return result.status === 200 && !accepted ? empty(406) : result
          }
        })(options),
        set(['paths', '/swagger/v1/swagger.json', 'get', 'responses', '406'], { description: 'Not in JSON' }),
      ),
  },

  // The description, profile B
  {
    id: 'b-document-swagger-2',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description declares Swagger 2.0.',
    create: (options) => describe(new ReferenceB(options), set(['openapi'], undefined), set(['swagger'], '2.0')),
  },
  {
    id: 'b-document-open',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description needs no token.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getDocument(): Promise<Result> {
          return json(200, this.document())
        }
      })(options).create(),
  },
  {
    id: 'b-document-json-in-string',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description is written to JSON twice, so that a string arrives.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getDocument(request: Request): Promise<Result> {
          const result = await super.getDocument(request)
          return result.status === 200 ? json(200, String(result.body)) : result
        }
      })(options).create(),
  },
  {
    id: 'b-document-conflict-422',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'An id in use is described with 422 and answered with 409.',
    create: (options) =>
      describe(
        new ReferenceB(options),
        rename([...list, 'post', 'responses', '409'], [...list, 'post', 'responses', '422']),
      ),
  },
  {
    id: 'b-document-errors-json',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The 404 of an update is described as a JSON object and is plain text.',
    create: (options) =>
      describe(
        new ReferenceB(options),
        set([...list, 'put', 'responses', '404', 'content'], {
          'application/json': { schema: { type: 'object', properties: { code: { type: 'string' } } } },
        }),
      ),
  },
  {
    id: 'b-document-notes-optional',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'notes is not described as required in a request.',
    create: (options) =>
      describe(new ReferenceB(options), set([...schemas, 'SentTodoItem', 'required'], ['id', 'name'])),
  },
  {
    id: 'b-document-done-required',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'done is described as required in a request.',
    create: (options) =>
      describe(new ReferenceB(options), set([...schemas, 'SentTodoItem', 'required'], ['id', 'name', 'notes', 'done'])),
  },
  {
    id: 'b-document-path-id-integer',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The id in the path of a delete is described as an integer.',
    create: (options) =>
      describe(
        new ReferenceB(options),
        set([...single, 'delete', 'parameters', 0, 'schema'], { type: 'integer', format: 'int64' }),
      ),
  },
  {
    id: 'b-document-get-item',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'GET of one item is described, which only profile A offers.',
    create: (options) =>
      describe(
        new ReferenceB(options),
        set([...single, 'get'], {
          operationId: 'getTodoItem',
          tags: ['TodoItems'],
          parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
          responses: {
            200: {
              description: 'The item',
              content: { 'application/json': { schema: { $ref: '#/components/schemas/TodoItem' } } },
            },
          },
        }),
      ),
  },
  {
    id: 'b-document-no-samples',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The sample endpoints are not described.',
    create: (options) =>
      new (class extends ReferenceB {
        override samplePaths(): JsonObject {
          return {}
        }
      })(options).create(),
  },
  {
    id: 'b-document-secret-without-security',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: '/secret is described without a security requirement.',
    create: (options) => describe(new ReferenceB(options), set(['paths', '/secret', 'get', 'security'], undefined)),
  },
  {
    id: 'b-document-security-everywhere',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The description requires a token for every operation, the open samples included.',
    create: (options) => describe(new ReferenceB(options), set(['security'], [{ bearer: [] }])),
  },
  {
    id: 'b-document-scheme-missing',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The security scheme that the operations name is not defined.',
    create: (options) => describe(new ReferenceB(options), set(['components', 'securitySchemes'], undefined)),
  },
  {
    id: 'b-document-scheme-query',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The security scheme is described as a key in the query.',
    create: (options) =>
      describe(
        new ReferenceB(options),
        set(['components', 'securitySchemes', 'bearer'], { type: 'apiKey', in: 'query', name: 'access_token' }),
      ),
  },
  {
    id: 'b-document-parameter-added-again',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'A filter works on the cached description, so from the second request on the id is declared repeatedly.',
    create: (options) =>
      new (class extends ReferenceB {
        readonly ids: Json[] = []

        override document(): JsonObject {
          const document = super.document()
          this.ids.push({ name: 'id', in: 'path', required: true, schema: { type: 'string' } })
          setNode(document, [...single, 'delete', 'parameters'], this.ids)
          return document
        }
      })(options).create(),
  },
  {
    id: 'b-document-parameter-not-required',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The id in the path is not declared as required.',
    create: (options) =>
      describe(new ReferenceB(options), set([...single, 'delete', 'parameters', 0, 'required'], undefined)),
  },
  {
    id: 'b-document-path-colon',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The path is written /api/todoitems/:id, as the router has it.',
    create: (options) => describe(new ReferenceB(options), rename(single, ['paths', '/api/todoitems/:id'])),
  },
  {
    id: 'b-document-version-segment',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The forecast is described at /v1/weatherforecast.',
    create: (options) =>
      describe(new ReferenceB(options), rename(['paths', '/weatherforecast'], ['paths', '/v1/weatherforecast'])),
  },
  {
    id: 'b-document-forecast-date',
    profile: 'b',
    rule: 'S4',
    kind: 'document',
    breaks: 'specified',
    fault: 'The date of a forecast entry is described with the format date.',
    create: (options) =>
      describe(new ReferenceB(options), set([...schemas, 'ForecastEntry', 'properties', 'date', 'format'], 'date')),
  },

  // The samples, profile A
  {
    id: 'a-forecast-from-today',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The forecast starts today.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecast(now: Date): ForecastEntry[] {
          return [0, 1, 2, 3, 4].map((days) => this.forecastEntry(now, days))
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-six',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The forecast has six entries.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecast(now: Date): ForecastEntry[] {
          return [...super.forecast(now), this.forecastEntry(now, 6)]
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-no-offset',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The dates have no offset.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          return { ...entry, date: entry.date.replace('+00:00', '') }
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-day-of-year',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The dates have the day of the year in place of the day of the month, as in 2026-02-049.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          const date = new Date(entry.date)
          const dayOfYear = Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0)) / day) + 1
          return { ...entry, date: entry.date.replace(/\d\dT/, `${String(dayOfYear).padStart(3, '0')}T`) }
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-fahrenheit-floor',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'temperatureF is rounded down, so it is too low by one for temperatures below zero.',
    create: (options) =>
      new (class extends ReferenceA {
        override fahrenheit(celsius: number): number {
          return 32 + Math.floor(celsius / 0.5556)
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-55-degrees',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'temperatureC is 55 now and then: the upper end of the range is taken in.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const temperatureC = randomInt(-20, 56)
          return { ...super.forecastEntry(now, days), temperatureC, temperatureF: this.fahrenheit(temperatureC) }
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-summary-lower-case',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The summaries are in lower case.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          return { ...entry, summary: entry.summary?.toLowerCase() ?? null }
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-zulu',
    profile: 'a',
    rule: 'S1',
    kind: 'samples',
    breaks: 'choice',
    fault: 'The offset of the dates is written Z.',
    create: (options) =>
      new (class extends ReferenceA {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          return { ...entry, date: entry.date.replace('+00:00', 'Z') }
        }
      })(options).create(),
  },
  {
    id: 'a-forecast-needs-token',
    profile: 'a',
    rule: 'S7',
    kind: 'samples',
    breaks: 'specified',
    fault: '/weatherforecast needs a token.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getForecast(request: Request): Promise<Result> {
          const caller = this.authenticate(request)
          return caller.ok ? super.getForecast(request) : caller.why
        }
      })(options).create(),
  },
  {
    id: 'a-greeting-html',
    profile: 'a',
    rule: 'S2',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The greeting is an HTML page.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getGreeting(): Promise<Result> {
          return text(200, `<!DOCTYPE html><title>Service</title><h1>${this.greeting()}</h1>`, {
            'content-type': 'text/html; charset=utf-8',
          })
        }
      })(options).create(),
  },
  {
    id: 'a-samples-case-sensitive',
    profile: 'a',
    rule: 'G1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Only the paths of the to-do items match in any case, those of the samples do not.',
    create: (options) =>
      new (class extends ReferenceA {
        override matchPath(template: string, path: string): string | undefined {
          const match = super.matchPath(template, path)
          const actual = this.segments(path)
            .map((segment) => this.decodeSegment(segment))
            .join('/')
          return template.startsWith('/api/') || actual === this.segments(template).join('/') ? match : undefined
        }
      })(options).create(),
  },
  {
    id: 'a-secret-open',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: '/secret greets an anonymous caller when there is no token.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getSecret(request: Request): Promise<Result> {
          return authorization(request).length === 0 ? text(200, this.secret('anonymous')) : super.getSecret(request)
        }
      })(options).create(),
  },
  {
    id: 'a-secret-other-case-open',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The guard compares the path with case, so /Secret needs no token.',
    create: (options) =>
      new (class extends ReferenceA {
        override async getSecret(request: Request): Promise<Result> {
          const result = await super.getSecret(request)
          return result.status === 200 || request.path.startsWith('/secret') ? result : text(200, this.secret(''))
        }
      })(options).create(),
  },
  {
    id: 'a-secret-any-signature',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The signature of a token is not checked.',
    create: (options) =>
      new (class extends ReferenceA {
        override signatureMatches(): boolean {
          return true
        }
      })(options).create(),
  },
  {
    id: 'a-secret-unsigned',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'An unsigned token is refused when its algorithm is none, and accepted when it is written None or NONE.',
    create: (options) =>
      new (class extends ReferenceA {
        unsigned = false

        override acceptsTokenHeader(header: JsonObject): boolean {
          const { alg } = header
          this.unsigned = typeof alg === 'string' && alg !== 'none' && alg.toLowerCase() === 'none'
          return this.unsigned || super.acceptsTokenHeader(header)
        }

        override signatureMatches(input: string, signature: string): boolean {
          return this.unsigned ? signature === '' : super.signatureMatches(input, signature)
        }
      })(options).create(),
  },
  {
    id: 'a-secret-any-scheme',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'A valid token is accepted after any scheme, as in Authorization: Basic <token>.',
    create: (options) =>
      new (class extends ReferenceA {
        override authenticate(request: Request): Outcome<JsonObject, Result> {
          const [credentials = '', ...more] = authorization(request)
          const claims = this.verifyToken(/^\S+ +(\S+)$/.exec(credentials)?.[1] ?? '')
          return claims.ok && more.length === 0 ? claims : super.authenticate(request)
        }
      })(options).create(),
  },
  {
    id: 'a-secret-first-caller',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The greeting is cached by path, so every caller gets the name of the first.',
    create: (options) =>
      new (class extends ReferenceA {
        cached: string | undefined

        override secret(name: string): string {
          return (this.cached ??= super.secret(name))
        }
      })(options).create(),
  },
  {
    id: 'a-secret-name-latin-1',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The claims are decoded as Latin-1, so a name beyond ASCII is garbled.',
    create: (options) =>
      new (class extends ReferenceA {
        override tokenPart(part: string): JsonObject | undefined {
          try {
            const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('latin1'))
            return isObject(value) ? value : undefined
          } catch {
            return undefined
          }
        }
      })(options).create(),
  },
  {
    id: 'a-secret-phrase-varies',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The secret phrase is another one on every request.',
    create: (options) =>
      new (class extends ReferenceA {
        override secret(name: string): string {
          return `Hello ${name}. The secret phrase is: ${randomUUID()}.`
        }
      })(options).create(),
  },
  {
    id: 'a-secret-redirect',
    profile: 'a',
    rule: 'S6',
    kind: 'samples',
    breaks: 'choice',
    fault: 'A request without a good token is redirected to a login page (302).',
    create: (options) =>
      describe(
        new (class extends ReferenceA {
          override challenge(): Result {
            return empty(302, { location: '/account/login?returnUrl=%2Fsecret' })
          }
        })(options),
        setRefusal('401', undefined),
        setRefusal('302', { description: 'No good token: leads to the login' }),
      ),
  },
  {
    id: 'a-secret-name-sub',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'choice',
    fault: 'The name of the caller is the claim sub, even when unique_name or name is there.',
    create: (options) =>
      new (class extends ReferenceA {
        override identity(claims: JsonObject): string {
          const { sub } = claims
          return typeof sub === 'string' ? sub : super.identity(claims)
        }
      })(options).create(),
  },
  {
    id: 'a-secret-plain-comparison',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'unobservable',
    fault: 'The signature is compared with ===, not in constant time.',
    create: (options) =>
      new (class extends ReferenceA {
        override signatureMatches(input: string, signature: string): boolean {
          return createHmac('sha256', this.options.tokenKey).update(input).digest('base64url') === signature
        }
      })(options).create(),
  },
  {
    id: 'a-secret-greeting-only',
    profile: 'a',
    rule: 'S3',
    kind: 'samples',
    breaks: 'unobservable',
    fault: 'The secured greeting has no secret phrase; a client that does not know it cannot tell.',
    create: (options) =>
      new (class extends ReferenceA {
        override secret(name: string): string {
          return `Hello ${name}, welcome to the secured part of the service.`
        }
      })(options).create(),
  },
  {
    id: 'a-page-no-operations',
    profile: 'a',
    rule: 'S5',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The page is a title and lists no operation.',
    create: (options) =>
      new (class extends ReferenceA {
        override page(): string {
          return `<!DOCTYPE html><html lang="en"><title>${this.title}</title><h1>${this.title}</h1></html>`
        }
      })(options).create(),
  },
  {
    id: 'a-page-only-get',
    profile: 'a',
    rule: 'S5',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The page lists the GET operations only.',
    create: (options) =>
      new (class extends ReferenceA {
        override page(): string {
          return super.page().replace(/<form data-method="(?!GET")[^]*?<\/form>/g, '')
        }
      })(options).create(),
  },
  {
    id: 'a-page-for-every-path',
    profile: 'a',
    rule: 'G6',
    kind: 'samples',
    breaks: 'choice',
    fault: 'GET of an unknown path is answered with 200 and the page, as a single-page application does.',
    create: (options) =>
      new (class extends ReferenceA {
        override notFoundPath(request: Request): Result {
          const headers = { 'content-type': 'text/html; charset=utf-8' }
          return /^(GET|HEAD)$/.test(request.method) ? text(200, this.page(), headers) : super.notFoundPath(request)
        }
      })(options).create(),
  },
  {
    id: 'a-page-never',
    profile: 'a',
    rule: 'S5',
    kind: 'samples',
    breaks: 'unobservable',
    fault: 'The page is missing in development, as it would be outside of it; a client cannot know the mode.',
    create: (options) =>
      new (class extends ReferenceA {
        override get development(): boolean {
          return false
        }
      })(options).create(),
  },

  // The samples, profile B
  {
    id: 'b-forecast-days-add-up',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Each entry moves the date of the one before by its number: 1, 3, 6, 10 and 15 days from today.',
    create: (options) =>
      new (class extends ReferenceB {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          return super.forecastEntry(now, (days * (days + 1)) / 2)
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-date-only',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The dates have no time and no offset.',
    create: (options) =>
      new (class extends ReferenceB {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          return { ...entry, date: entry.date.slice(0, 10) }
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-hour-24',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Midnight is written as hour 24, which a date-time does not have.',
    create: (options) =>
      new (class extends ReferenceB {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          return { ...entry, date: `${entry.date.slice(0, 10)}T24:00:00+00:00` }
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-never-varies',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Temperatures and summaries are always the same: 21 degrees, Mild.',
    create: (options) =>
      new (class extends ReferenceB {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const { date } = super.forecastEntry(now, days)
          return { date, temperatureC: 21, temperatureF: this.fahrenheit(21), summary: 'Mild' }
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-fahrenheit-nine-fifths',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'temperatureF is 32 + truncate(temperatureC * 9 / 5), which differs for multiples of five.',
    create: (options) =>
      new (class extends ReferenceB {
        override fahrenheit(celsius: number): number {
          return 32 + Math.trunc((celsius * 9) / 5)
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-fractions',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'temperatureC has a decimal place.',
    create: (options) =>
      new (class extends ReferenceB {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const temperatureC = randomInt(-200, 541) / 10
          return { ...super.forecastEntry(now, days), temperatureC, temperatureF: this.fahrenheit(temperatureC) }
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-eleventh-summary',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Now and then the summary is Frosty, which is none of the ten.',
    create: (options) =>
      new (class extends ReferenceB {
        override forecastEntry(now: Date, days: number): ForecastEntry {
          const entry = super.forecastEntry(now, days)
          return randomInt(11) === 0 ? { ...entry, summary: 'Frosty' } : entry
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-in-object',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The array of the forecast is wrapped in an object.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getForecast(): Promise<Result> {
          return json(200, { value: this.forecast(new Date()).map((entry) => ({ ...entry })), count: 5 })
        }
      })(options).create(),
  },
  {
    id: 'b-forecast-extra-member',
    profile: 'b',
    rule: 'S1',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The entries have a fifth member, the key of their row.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getForecast(): Promise<Result> {
          return json(
            200,
            this.forecast(new Date()).map((entry, index) => ({ id: index + 1, ...entry })),
          )
        }
      })(options).create(),
  },
  {
    id: 'b-greeting-redirect',
    profile: 'b',
    rule: 'S2',
    kind: 'samples',
    breaks: 'specified',
    fault: '/ leads to the page (302) instead of greeting.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getGreeting(request: Request): Promise<Result> {
          return this.getPageRedirect(request)
        }
      })(options).create(),
  },
  {
    id: 'b-greeting-needs-token',
    profile: 'b',
    rule: 'S7',
    kind: 'samples',
    breaks: 'specified',
    fault: '/ needs a token.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getGreeting(request: Request): Promise<Result> {
          const caller = this.authenticate(request)
          return caller.ok ? super.getGreeting(request) : caller.why
        }
      })(options).create(),
  },
  {
    id: 'b-secret-expired-token',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'An expired token is accepted.',
    create: (options) =>
      new (class extends ReferenceB {
        override timeAllows({ exp: _exp, ...claims }: JsonObject): boolean {
          return super.timeAllows(claims)
        }
      })(options).create(),
  },
  {
    id: 'b-secret-basic',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Basic credentials are accepted with any password.',
    create: (options) =>
      new (class extends ReferenceB {
        override authenticate(request: Request): Outcome<JsonObject, Result> {
          const [credentials = '', ...more] = authorization(request)
          const basic = /^basic +(\S+)$/i.exec(credentials)?.[1]
          if (basic === undefined || more.length > 0) return super.authenticate(request)
          const [name = ''] = Buffer.from(basic, 'base64').toString().split(':')
          return { ok: true, value: { name } }
        }
      })(options).create(),
  },
  {
    id: 'b-secret-token-in-query',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Without an Authorization header, a token in the query (access_token) is accepted.',
    create: (options) =>
      new (class extends ReferenceB {
        override authenticate(request: Request): Outcome<JsonObject, Result> {
          const token = new URLSearchParams(request.query).get('access_token') ?? ''
          const claims = this.verifyToken(token)
          return claims.ok && authorization(request).length === 0 ? claims : super.authenticate(request)
        }
      })(options).create(),
  },
  {
    id: 'b-secret-connection',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'A connection on which a good token was sent needs none from then on.',
    create: (options) =>
      new (class extends ReferenceB {
        readonly callers = new WeakMap<Socket, JsonObject>()

        override authenticate(request: Request): Outcome<JsonObject, Result> {
          const { socket } = request.incoming
          const known = this.callers.get(socket)
          if (known !== undefined && authorization(request).length === 0) return { ok: true, value: known }
          const caller = super.authenticate(request)
          if (caller.ok) this.callers.set(socket, caller.value)
          return caller
        }
      })(options).create(),
  },
  {
    id: 'b-secret-known-caller',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'Once a caller has sent a good token, a token with the same name and another signature is accepted.',
    create: (options) =>
      new (class extends ReferenceB {
        readonly known = new Set<string>()

        override signatureMatches(input: string, signature: string): boolean {
          const name = this.identity(this.tokenPart(input.split('.')[1] ?? '') ?? {})
          const matches = super.signatureMatches(input, signature)
          if (matches) this.known.add(name)
          return matches || this.known.has(name)
        }
      })(options).create(),
  },
  {
    id: 'b-secret-no-name',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The secured greeting does not have the name of the caller.',
    create: (options) =>
      new (class extends ReferenceB {
        override identity(): string {
          return 'user'
        }
      })(options).create(),
  },
  {
    id: 'b-secret-no-phrase',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The secured greeting is the name alone, without a secret phrase.',
    create: (options) =>
      new (class extends ReferenceB {
        override secret(name: string): string {
          return name
        }
      })(options).create(),
  },
  {
    id: 'b-secret-phrase-per-caller',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The secret phrase is derived from the name, so that every caller has another.',
    create: (options) =>
      new (class extends ReferenceB {
        override secret(name: string): string {
          const phrase = createHmac('sha256', this.options.tokenKey).update(name).digest('hex').slice(0, 16)
          return `Hello ${name}. The secret phrase is: ${phrase}.`
        }
      })(options).create(),
  },
  {
    id: 'b-secret-json',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The secured greeting is a JSON object.',
    create: (options) =>
      new (class extends ReferenceB {
        override async getSecret(request: Request): Promise<Result> {
          const result = await super.getSecret(request)
          return result.status === 200 ? json(200, { message: String(result.body) }) : result
        }
      })(options).create(),
  },
  {
    id: 'b-secret-403',
    profile: 'b',
    rule: 'S6',
    kind: 'samples',
    breaks: 'choice',
    fault: 'A request without a good token is answered with 403.',
    create: (options) =>
      describe(
        new (class extends ReferenceB {
          override challenge(): Result {
            return empty(403)
          }
        })(options),
        setRefusal('401', undefined),
        setRefusal('403', { description: 'No token or a bad one' }),
      ),
  },
  {
    id: 'b-secret-no-challenge',
    profile: 'b',
    rule: 'S6',
    kind: 'samples',
    breaks: 'choice',
    fault: 'The 401 has no WWW-Authenticate header.',
    create: (options) =>
      describe(
        new (class extends ReferenceB {
          override challenge(): Result {
            return empty(401)
          }
        })(options),
        setRefusal('401', { description: 'No token or a bad one' }),
      ),
  },
  {
    id: 'b-secret-malformed-token-500',
    profile: 'b',
    rule: 'S6',
    kind: 'samples',
    breaks: 'choice',
    fault: 'A token that is no JWT is an unhandled failure (500).',
    create: (options) =>
      describe(
        new (class extends ReferenceB {
          override tokenPart(part: string): JsonObject {
            return JSON.parse(Buffer.from(part, 'base64url').toString()) as JsonObject
          }
        })(options),
        setRefusal('500', { description: 'Unhandled failure' }),
      ),
  },
  {
    id: 'b-secret-phrase-per-process',
    profile: 'b',
    rule: 'S3',
    kind: 'samples',
    breaks: 'unobservable',
    fault: 'The secret phrase is made anew at every start; nobody sees that while the server runs.',
    create: (options) =>
      new (class extends ReferenceB {
        readonly phrase = randomUUID()

        override secret(name: string): string {
          return `Hello ${name}. The secret phrase is: ${this.phrase}.`
        }
      })(options).create(),
  },
  {
    id: 'b-page-no-try',
    profile: 'b',
    rule: 'S5',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The page lists the operations and offers no way to try one.',
    create: (options) =>
      new (class extends ReferenceB {
        override page(): string {
          return super
            .page()
            .replace(/<(script|button|label)\b[^]*?<\/\1>/g, '')
            .replace(/<(\/?)form[^>]*>/g, '<$1div>')
        }
      })(options).create(),
  },
  {
    id: 'b-page-other-document',
    profile: 'b',
    rule: 'S5',
    kind: 'samples',
    breaks: 'specified',
    fault: 'The page builds its list from /swagger/v2/swagger.json, which is not there, and stays empty.',
    create: (options) =>
      new (class extends ReferenceB {
        override page(): string {
          return `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${this.title}</title></head><body>
<div id="operations"></div>
<script>
const list = document.getElementById('operations')
fetch('/swagger/v2/swagger.json').then(response => response.json()).then(({ paths }) => {
  for (const [path, operations] of Object.entries(paths)) for (const method of Object.keys(operations)) {
    const button = list.appendChild(document.createElement('button'))
    button.textContent = method + ' ' + path
    button.addEventListener('click', () => fetch(path, { method }))
  }
})
</script></body></html>
`
        }
      })(options).create(),
  },
  {
    id: 'b-page-no-short-way',
    profile: 'b',
    rule: 'S5',
    kind: 'samples',
    breaks: 'choice',
    fault: '/swagger does not lead to the page: 404.',
    create: (options) =>
      new (class extends ReferenceB {
        override pageRoutes(): Route[] {
          return super.pageRoutes().filter((route) => route.path !== '/swagger')
        }

        override pagePaths(): JsonObject {
          const paths = super.pagePaths()
          delete paths['/swagger']
          return paths
        }
      })(options).create(),
  },
]
