export type Profile = 'a' | 'b'

/** A request as an ordinary smoke test sends it, and what its author expects. `{id}` is the id of the created item. */
export interface Step {
  readonly id: string
  readonly operation: string
  readonly method: string
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** Sent without the token. */
  readonly isAnonymous?: boolean
  readonly status: number
  /** The body has these members. */
  readonly item?: Readonly<Record<string, unknown>>
  /** The body is a list that has an item with these members. */
  readonly listed?: Readonly<Record<string, unknown>>
  readonly text?: string
}

const items = '/api/todoitems'
const item = `${items}/{id}`

const samples: readonly Step[] = [
  { id: 'forecast', operation: 'getForecast', method: 'GET', path: '/weatherforecast', status: 200 },
  { id: 'greeting', operation: 'greet', method: 'GET', path: '/', status: 200 },
  { id: 'secret', operation: 'greetByName', method: 'GET', path: '/secret', status: 200 },
  {
    id: 'secret-without-token',
    operation: 'greetByName',
    method: 'GET',
    path: '/secret',
    status: 401,
    isAnonymous: true,
  },
]

const milk = { name: 'buy milk', isComplete: false }
const oatMilk = { name: 'buy oat milk', isComplete: true }
const milkB = { id: 'smoke-1', name: 'buy milk', notes: 'two cartons', done: false }
const oatMilkB = { ...milkB, name: 'buy oat milk', done: true }

const list = { operation: 'listItems', method: 'GET', path: items, status: 200 }
const create = { operation: 'createItem', method: 'POST', path: items }
const read = { operation: 'getItem', method: 'GET', path: item }
const update = { operation: 'updateItem', method: 'PUT' }
const remove = { operation: 'deleteItem', method: 'DELETE', path: item }

/** The first step with the id `create` makes the item. */
export const requests: Readonly<Record<Profile, readonly Step[]>> = {
  a: [
    { id: 'list', ...list },
    { id: 'create', ...create, body: milk, status: 201, item: milk },
    { id: 'read', ...read, status: 200, item: milk },
    { id: 'update', ...update, path: item, body: { id: '{id}', ...oatMilk }, status: 204 },
    { id: 'read-updated', ...read, status: 200, item: oatMilk },
    { id: 'list-updated', ...list, listed: oatMilk },
    { id: 'update-other-id', ...update, path: item, body: { id: 987654321, ...oatMilk }, status: 400 },
    { id: 'delete', ...remove, status: 204 },
    { id: 'read-deleted', ...read, status: 404 },
    { id: 'update-deleted', ...update, path: item, body: { id: '{id}', ...oatMilk }, status: 404 },
    { id: 'delete-deleted', ...remove, status: 404 },
    ...samples,
  ],
  b: [
    { id: 'list', ...list },
    { id: 'create', ...create, body: milkB, status: 200, item: milkB },
    { id: 'create-again', ...create, body: milkB, status: 409, text: 'TodoItemIDInUse' },
    { id: 'create-invalid', ...create, body: { id: 'smoke-2' }, status: 400, text: 'TodoItemNameAndNotesRequired' },
    { id: 'update', ...update, path: items, body: oatMilkB, status: 204 },
    {
      id: 'update-invalid',
      ...update,
      path: items,
      body: { id: 'smoke-1' },
      status: 400,
      text: 'TodoItemNameAndNotesRequired',
    },
    {
      id: 'update-unknown',
      ...update,
      path: items,
      body: { ...oatMilkB, id: 'smoke-3' },
      status: 404,
      text: 'RecordNotFound',
    },
    { id: 'list-updated', ...list, listed: oatMilkB },
    { id: 'delete', ...remove, status: 204 },
    { id: 'delete-deleted', ...remove, status: 404, text: 'RecordNotFound' },
    ...samples,
  ],
}

/** An Arazzo description with the same steps. */
export function toArazzo(profile: Profile): object {
  return {
    arazzo: '1.0.1',
    info: { title: 'Smoke test', version: '1.0.0' },
    sourceDescriptions: [{ name: 'todo', type: 'openapi', url: `./${profile}.json` }],
    workflows: [
      {
        workflowId: 'smoke',
        inputs: { type: 'object', properties: { token: { type: 'string' } } },
        steps: requests[profile].map((step) => toArazzoStep(step, profile)),
      },
    ],
  }
}

function toArazzoStep({ id, operation, path, body, isAnonymous, status, item, listed, text }: Step, profile: Profile) {
  const created = profile === 'a' ? '$steps.create.outputs.id' : milkB.id
  const members = Object.entries(item ?? {})
  const parameters = [
    ...(path.includes('{id}') ? [{ in: 'path', name: 'id', value: created }] : []),
    ...(isAnonymous ? [] : [{ in: 'header', name: 'Authorization', value: 'Bearer {$inputs.token}' }]),
  ]
  return {
    stepId: id,
    operationId: `$sourceDescriptions.todo.${operation}`,
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        contentType: 'application/json',
        payload: { ...body, ...(body.id === '{id}' && { id: created }) },
      },
    }),
    successCriteria: [
      { condition: `$statusCode == ${status}` },
      ...members.map(([name, value]) => ({ condition: `$response.body#/${name} == ${literal(value)}` })),
      ...(listed
        ? [
            {
              context: '$response.body',
              type: 'jsonpath',
              condition: `$..[?(${Object.entries(listed)
                .map(([name, value]) => `@.${name} == ${literal(value)}`)
                .join(' && ')})]`,
            },
          ]
        : []),
      ...(text === undefined ? [] : [{ condition: `$response.body == ${literal(text)}` }]),
    ],
    ...(id === 'create' && profile === 'a' && { outputs: { id: '$response.body#/id' } }),
  }
}

const literal = (value: unknown) => (typeof value === 'string' ? `'${value}'` : `${value}`)

/** Sends the steps as a client of the service would, and returns what is not as expected. */
export async function sendRequests(
  profile: Profile,
  url: string,
  token: string,
  onResponse: (step: Step, response: Response, body: string) => void = () => {},
): Promise<string[]> {
  const problems: string[] = []
  let created: unknown = milkB.id
  for (const step of requests[profile]) {
    const { id, method, path, body, isAnonymous = false, status, item, listed, text } = step
    try {
      const response = await fetch(url + path.replace('{id}', `${created}`), {
        method,
        redirect: 'manual',
        headers: {
          ...(isAnonymous ? {} : { authorization: `Bearer ${token}` }),
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify({ ...body, ...(body.id === '{id}' && { id: created }) }) }),
        signal: AbortSignal.timeout(10_000),
      })
      const received = await response.text()
      onResponse(step, response, received)
      if (response.status !== status) problems.push(`${id}: status ${response.status}`)
      else if (text !== undefined && received !== text) problems.push(`${id}: ${received}`)
      else if (item && !hasMembers(JSON.parse(received), item)) problems.push(`${id}: ${received}`)
      else if (listed && !JSON.parse(received).some((one: unknown) => hasMembers(one, listed)))
        problems.push(`${id}: ${received}`)
      if (id === 'create' && profile === 'a') created = JSON.parse(received).id
    } catch (cause) {
      problems.push(`${id}: ${cause}`)
    }
  }
  return problems
}

const hasMembers = (value: unknown, members: Readonly<Record<string, unknown>>) =>
  Object.entries(members).every(([name, expected]) => (value as Record<string, unknown> | null)?.[name] === expected)
