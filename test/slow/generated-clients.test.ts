import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { generateApi } from 'swagger-typescript-api'
import { start, type TodoServer } from '../../src/index.ts'
import { runCommand } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

type Profile = 'a' | 'b'

/** What a client author expects: each operation as a function, and the types of its items and errors. */
const expectedTypes = `
export type Fetch = (input: any, init?: any) => Promise<Response>
export interface Outcome<Data, Failure> { data?: Data | undefined; error?: Failure | undefined }
export interface Problem { title: string; status: number; traceId: string; errors?: Record<string, string[]> }
export interface Samples {
  getForecast(): Promise<Outcome<{ temperatureC: number; temperatureF: number }[], unknown>>
  greet(): Promise<Outcome<string, unknown>>
  greetByName(): Promise<Outcome<string, unknown>>
}
export interface ItemA { id: number; name?: string | null | undefined; isComplete: boolean }
export interface ClientA extends Samples {
  listItems(etag?: string): Promise<Outcome<ItemA[], Problem>>
  createItem(item: { name?: string; isComplete: boolean }): Promise<Outcome<ItemA, Problem>>
  getItem(id: number, etag?: string): Promise<Outcome<ItemA, Problem>>
  updateItem(id: number, item: { id: number; name?: string; isComplete: boolean }, etag?: string): Promise<Outcome<unknown, Problem>>
  deleteItem(id: number, etag?: string): Promise<Outcome<unknown, Problem>>
}
export interface ItemB { id: string; name: string; notes: string; done: boolean }
export interface ClientB extends Samples {
  listItems(etag?: string): Promise<Outcome<ItemB[], unknown>>
  createItem(item: Omit<ItemB, 'done'> & { done?: boolean }): Promise<Outcome<ItemB, string>>
  updateItem(item: Omit<ItemB, 'done'> & { done?: boolean }): Promise<Outcome<unknown, string>>
  deleteItem(id: string): Promise<Outcome<unknown, string>>
}
`

type Operations = Record<string, (...values: unknown[]) => Promise<{ data?: unknown; error?: unknown }>>

interface Generator {
  readonly name: string
  readonly packages: readonly string[]
  /** Writes the client for `PROFILE.json` into the folder. */
  generate(t: TestContext, folder: string, profile: Profile): Promise<void>
  /** A module with `client`, which has the expected types. */
  readonly code: Readonly<Record<Profile, string>>
  /** Whether the code that it generates compiles with exactOptionalPropertyTypes. */
  readonly isExact: boolean
}

async function execute(t: TestContext, cwd: string, ...command: [string, ...string[]]): Promise<string> {
  const [program, ...args] = command
  // On Windows npm and npx are batch files.
  const shell = process.platform === 'win32' && /^np[mx]$/.test(program)
  const { code, stdout, stderr } = await runCommand(t, program, args, { cwd, shell })
  assert.equal(code, 0, stdout + stderr)
  return stdout
}

const runPackage = (t: TestContext, folder: string, name: string, ...args: string[]) =>
  execute(t, folder, 'npx', '--no-install', name, ...args)

const fetchSamples = `
    getForecast: () => GET('/weatherforecast'),
    greet: () => GET('/', { parseAs: 'text' }),
    greetByName: () => GET('/secret', { parseAs: 'text' }),`

const heySamples = `
    getForecast: () => sdk.getForecast({ client }),
    greet: () => sdk.greet({ client }),
    greetByName: () => sdk.greetByName({ client }),`

const nswagSamples = `
    getForecast: () => outcome(client.getForecast()),
    greet: () => outcome(client.greet()),
    greetByName: () => outcome(client.greetByName()),`

const conditions = `const header = (name: string, etag: string | undefined) => (etag === undefined ? {} : { [name]: etag })`

const openApiTypescript: Generator = {
  name: 'openapi-typescript and openapi-fetch',
  packages: ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0'],
  generate: async (t, folder, profile) => {
    await runPackage(t, folder, 'openapi-typescript', `${profile}.json`, '-o', `${profile}-paths.ts`)
  },
  code: {
    a: `import createClient from 'openapi-fetch'
import type { ClientA, Fetch } from './expected'
import type { paths } from './a-paths'
${conditions}
export function client(baseUrl: string, fetch: Fetch): ClientA {
  const { GET, POST, PUT, DELETE } = createClient<paths>({ baseUrl, fetch })
  return {
    listItems: (etag) => GET('/api/todoitems', { params: { header: header('If-None-Match', etag) } }),
    createItem: (body) => POST('/api/todoitems', { body }),
    getItem: (id, etag) => GET('/api/todoitems/{id}', { params: { path: { id }, header: header('If-None-Match', etag) } }),
    updateItem: (id, body, etag) =>
      PUT('/api/todoitems/{id}', { params: { path: { id }, header: header('If-Match', etag) }, body }),
    deleteItem: (id, etag) => DELETE('/api/todoitems/{id}', { params: { path: { id }, header: header('If-Match', etag) } }),${fetchSamples}
  }
}`,
    b: `import createClient from 'openapi-fetch'
import type { ClientB, Fetch } from './expected'
import type { paths } from './b-paths'
${conditions}
export function client(baseUrl: string, fetch: Fetch): ClientB {
  const { GET, POST, PUT, DELETE } = createClient<paths>({ baseUrl, fetch })
  return {
    listItems: (etag) => GET('/api/todoitems', { params: { header: header('If-None-Match', etag) } }),
    createItem: (body) => POST('/api/todoitems', { body }),
    updateItem: (body) => PUT('/api/todoitems', { body }),
    deleteItem: (id) => DELETE('/api/todoitems/{id}', { params: { path: { id } } }),${fetchSamples}
  }
}`,
  },
  isExact: true,
}

const heyApi: Generator = {
  name: '@hey-api/openapi-ts',
  packages: ['@hey-api/openapi-ts@0.95.0'],
  generate: async (t, folder, profile) => {
    await runPackage(t, folder, 'openapi-ts', '-i', `${profile}.json`, '-o', `${profile}-sdk`, '--no-log-file')
  },
  code: {
    a: `import type { ClientA, Fetch } from './expected'
import * as sdk from './a-sdk'
import { createClient } from './a-sdk/client'
${conditions}
export function client(baseUrl: string, fetch: Fetch): ClientA {
  const client = createClient({ baseUrl, fetch })
  return {
    listItems: (etag) => sdk.listItems({ client, headers: header('If-None-Match', etag) }),
    createItem: (body) => sdk.createItem({ client, body }),
    getItem: (id, etag) => sdk.getItem({ client, path: { id }, headers: header('If-None-Match', etag) }),
    updateItem: (id, body, etag) => sdk.updateItem({ client, path: { id }, body, headers: header('If-Match', etag) }),
    deleteItem: (id, etag) => sdk.deleteItem({ client, path: { id }, headers: header('If-Match', etag) }),${heySamples}
  }
}`,
    b: `import type { ClientB, Fetch } from './expected'
import * as sdk from './b-sdk'
import { createClient } from './b-sdk/client'
${conditions}
export function client(baseUrl: string, fetch: Fetch): ClientB {
  const client = createClient({ baseUrl, fetch })
  return {
    listItems: (etag) => sdk.listItems({ client, headers: header('If-None-Match', etag) }),
    createItem: (body) => sdk.createItem({ client, body }),
    updateItem: (body) => sdk.updateItem({ client, body }),
    deleteItem: (id) => sdk.deleteItem({ client, path: { id } }),${heySamples}
  }
}`,
  },
  isExact: false,
}

/** NSwag throws the body of an error that is described, and an ApiException for one without a body. */
const outcomeOf = (isBody: string) => `
async function outcome<Data, Failure>(call: Promise<Data>): Promise<Outcome<Data, Failure>> {
  try {
    return { data: await call }
  } catch (thrown) {
    if (${isBody}) return { error: thrown as Failure }
    if (thrown instanceof ApiException) return { error: thrown.result }
    throw thrown
  }
}`

const nswag: Generator = {
  name: 'NSwag, TypeScript',
  packages: ['nswag@14.7.1'],
  generate: async (t, folder, profile) => {
    const files = [`/input:${profile}.json`, `/output:${profile}-client.ts`]
    await runNswag(t, folder, 'openapi2tsclient', ...files, '/template:Fetch', '/className:TodoClient')
  },
  code: {
    a: `import type { ClientA, Fetch, Outcome } from './expected'
import { ApiException, NewTodoItem, Problem, TodoClient, TodoItemUpdate } from './a-client'
${outcomeOf('thrown instanceof Problem')}
export function client(baseUrl: string, fetch: Fetch): ClientA {
  const client = new TodoClient(baseUrl, { fetch })
  return {
    listItems: (etag) => outcome(client.listItems(etag)),
    createItem: (item) => outcome(client.createItem(new NewTodoItem(item))),
    getItem: (id, etag) => outcome(client.getItem(id, etag)),
    updateItem: (id, item, etag) => outcome(client.updateItem(id, etag, new TodoItemUpdate(item))),
    deleteItem: (id, etag) => outcome(client.deleteItem(id, etag)),${nswagSamples}
  }
}`,
    b: `import type { ClientB, Fetch, Outcome } from './expected'
import { ApiException, SentTodoItem, TodoClient } from './b-client'
${outcomeOf("typeof thrown === 'string'")}
export function client(baseUrl: string, fetch: Fetch): ClientB {
  const client = new TodoClient(baseUrl, { fetch })
  return {
    listItems: (etag) => outcome(client.listItems(etag)),
    createItem: (item) => outcome(client.createItem(new SentTodoItem(item))),
    updateItem: (item) => outcome(client.updateItem(new SentTodoItem(item))),
    deleteItem: (id) => outcome(client.deleteItem(id)),${nswagSamples}
  }
}`,
  },
  isExact: true,
}

/** The newest version of .NET that NSwag runs on and that is installed; undefined without one. */
function dotnetVersion(list: '--list-runtimes' | '--list-sdks'): string | undefined {
  try {
    const installed = execFileSync('dotnet', [list], { encoding: 'utf8' })
    return ['10', '9', '8'].find((version) =>
      new RegExp(`^(Microsoft.NETCore.App )?${version}\\.`, 'm').test(installed),
    )
  } catch {
    return undefined
  }
}

const runNswag = (t: TestContext, folder: string, ...args: string[]) =>
  runPackage(t, folder, 'nswag', ...args, `/runtime:Net${dotnetVersion('--list-runtimes')}0`)

/** A generated client on its service. */
class GeneratedClient {
  readonly token: string
  readonly #operations: Operations
  #headers: Record<string, string> = {}
  #response: Response | undefined

  constructor(create: (baseUrl: string, fetch: unknown) => Operations, url: string, token: string) {
    this.token = token
    this.#operations = create(url, async (input: Parameters<typeof fetch>[0], init?: RequestInit) => {
      const request = new Request(input, init)
      for (const [name, value] of Object.entries(this.#headers)) request.headers.set(name, value)
      this.#response = await fetch(request)
      return this.#response
    })
  }

  /** Returns the status, and what the client returned as data or error. */
  async call(operation: string, ...values: unknown[]): Promise<[number | undefined, unknown]> {
    const { data, error } = (await this.#operations[operation]?.(...values)) ?? {}
    return [this.#response?.status, withoutClasses(data) ?? withoutClasses(error)]
  }

  /** Likewise, with headers that the client does not know. */
  async callWith(headers: Record<string, string>, operation: string, ...values: unknown[]) {
    this.#headers = headers
    const outcome = await this.call(operation, ...values)
    this.#headers = {}
    return outcome
  }

  callWithToken(operation: string) {
    return this.callWith({ authorization: `Bearer ${this.token}` }, operation)
  }

  get etag(): string | null | undefined {
    return this.#response?.headers.get('etag')
  }
}

/** Clients differ in what stands for no content. */
function withoutClasses(value: unknown): unknown {
  const json = JSON.stringify(value) ?? 'null'
  return ['{}', '""', 'null'].includes(json) ? undefined : JSON.parse(json)
}

const useItems: Record<Profile, (client: GeneratedClient) => Promise<void>> = {
  async a(client) {
    const problem = async (operation: string, ...values: unknown[]) => {
      const [status, body] = (await client.call(operation, ...values)) as [number, { status: number; title: string }]
      assert.equal(body.status, status)
      return [status, body.title]
    }
    const missing = [404, 'No item has this id.']
    const changed = [412, 'The state has changed: no entity tag in If-Match matches.']
    const item = { id: 1, name: 'walk the dog', isComplete: false }
    assert.deepEqual(await client.call('listItems'), [200, []])
    assert.deepEqual(await client.call('createItem', { name: item.name, isComplete: false }), [201, item])
    const { etag: createdTag } = client
    assert.deepEqual(await client.call('createItem', { isComplete: true }), [
      201,
      { ...item, id: 2, name: null, isComplete: true },
    ])
    const [, invalid] = await client.call('createItem', { isComplete: 'yes' })
    assert.deepEqual(Object(invalid).errors, { isComplete: ['isComplete must be true or false.'] })
    assert.deepEqual(await client.call('getItem', 1), [200, item])
    assert.deepEqual(await client.call('getItem', 1, createdTag), [304, undefined])
    assert.deepEqual(await problem('getItem', 3), missing)
    assert.deepEqual(await client.call('updateItem', 1, { ...item, isComplete: true }, createdTag), [204, undefined])
    assert.deepEqual(await client.call('updateItem', 1, { ...item, name: 'x' }, client.etag), [204, undefined])
    assert.deepEqual(await problem('updateItem', 1, item, createdTag), changed)
    assert.deepEqual(await client.call('updateItem', 1, { id: 1, isComplete: true }), [204, undefined])
    assert.deepEqual(await problem('updateItem', 2, item), [400, 'The id in the path differs from the id in the body.'])
    assert.deepEqual(await problem('updateItem', 3, { ...item, id: 3 }), missing)
    assert.deepEqual(await problem('deleteItem', 1, createdTag), changed)
    assert.deepEqual(await client.call('deleteItem', 1), [204, undefined])
    assert.deepEqual(await problem('deleteItem', 1), missing)
    assert.deepEqual(await client.call('listItems'), [200, [{ ...item, id: 2, name: null, isComplete: true }]])
    assert.deepEqual(await client.call('listItems', client.etag), [304, undefined])
  },
  async b(client) {
    const item = { id: 'a/b 😀', name: 'Buy milk', notes: '2 litres' }
    assert.deepEqual(await client.call('createItem', item), [200, { ...item, done: false }])
    assert.deepEqual(await client.call('createItem', item), [409, 'TodoItemIDInUse'])
    assert.deepEqual(await client.call('createItem', { ...item, notes: '' }), [400, 'TodoItemNameAndNotesRequired'])
    assert.deepEqual(await client.call('createItem', { ...item, name: '\ud800' }), [400, 'CouldNotCreateItem'])
    assert.deepEqual(await client.call('updateItem', { ...item, done: true }), [204, undefined])
    assert.deepEqual(await client.call('updateItem', { ...item, id: 'other' }), [404, 'RecordNotFound'])
    assert.deepEqual(await client.call('updateItem', { ...item, name: '' }), [400, 'TodoItemNameAndNotesRequired'])
    const [status, list] = await client.call('listItems')
    assert.deepEqual([status, (list as object[]).at(-1)], [200, { ...item, done: true }])
    assert.deepEqual(await client.call('listItems', client.etag), [304, undefined])
    assert.deepEqual(await client.call('deleteItem', item.id), [204, undefined])
    assert.deepEqual(await client.call('deleteItem', item.id), [404, 'RecordNotFound'])
    assert.deepEqual(await client.call('deleteItem', 'x'.repeat(1_025)), [400, 'CouldNotDeleteItem'])
  },
}

async function useSamples(client: GeneratedClient): Promise<void> {
  const [status, forecast] = await client.call('getForecast')
  assert.deepEqual([status, (forecast as object[]).length], [200, 5])
  assert.match(`${await client.call('greet')}`, /^200,\w/)
  assert.match(`${await client.callWithToken('greetByName')}`, /^200,Hello developer\./)
  assert.deepEqual(await client.call('greetByName'), [401, undefined])
}

const validValues: Record<Profile, Record<string, readonly unknown[]>> = {
  a: {
    createItem: [{ isComplete: true }],
    getItem: [1],
    updateItem: [1, { id: 1, isComplete: true }],
    deleteItem: [1],
  },
  b: {
    createItem: [{ id: 'x', name: 'x', notes: 'x' }],
    updateItem: [{ id: 'x', name: 'x', notes: 'x' }],
    deleteItem: ['x'],
  },
}

/** Lets the service respond with each error of each operation that the document describes. */
async function receiveErrors(client: GeneratedClient, profile: Profile, document: Document): Promise<void> {
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path))
  for (const { operationId, responses } of operations)
    for (const [status, { description, content = {} }] of Object.entries(responses)) {
      if (Number(status) < 400 || status === '401') continue
      const values = validValues[profile][operationId] ?? []
      const headers = { prefer: `code=${status}`, authorization: `Bearer ${client.token}` }
      const [received, error] = await client.callWith(headers, operationId, ...values)
      const what = `${operationId} ${status}`
      assert.equal(`${received}`, status, what)
      if (content['application/problem+json']) assert.equal(Object(error).status, received, what)
      else if (content['text/plain']) assert.ok(description.includes(`${error}: `), `${what} ${error}`)
      else assert.equal(error, undefined, what)
    }
}

interface Document {
  readonly paths: Record<string, Record<string, Operation>>
}

interface Operation {
  readonly operationId: string
  readonly responses: Record<string, { readonly description: string; readonly content?: Record<string, unknown> }>
}

const compiler = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url))

async function fetchDocument(url: string, token: string): Promise<string> {
  const headers = { authorization: `Bearer ${token}` }
  return (await fetch(`${url}/swagger/v1/swagger.json`, { headers })).text()
}

const missingDotnet = (list: Parameters<typeof dotnetVersion>[0]) =>
  dotnetVersion(list) === undefined && `it takes .NET 8, 9 or 10, and dotnet ${list} names none`

const csharpProject = (version: string) => `<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net${version}.0</TargetFramework>
    <ImplicitUsings>enable</ImplicitUsings>
    <UseAppHost>false</UseAppHost>
    <EnableDefaultCompileItems>false</EnableDefaultCompileItems>
  </PropertyGroup>
  <ItemGroup><Compile Include="A.cs;B.cs;Program.cs" /></ItemGroup>
</Project>
`

/** An error is an exception with a result of the type that the document describes; any other exception ends the program. */
const csharp = `
async Task Call(string what, Task task) {
  try { await task; Console.WriteLine(what); }
  catch (ProfileA.ApiException<ProfileA.Problem> error) { Console.WriteLine($"{what}: {error.StatusCode} {error.Result.Title}"); }
  catch (ProfileB.ApiException<string> error) { Console.WriteLine($"{what}: {error.StatusCode} {error.Result}"); }
  catch (ProfileB.ApiException error) { Console.WriteLine($"{what}: {error.StatusCode}"); }
}
var http = new HttpClient();
var a = new ProfileA.TodoClient(http) { BaseUrl = args[0] };
await Call("A createItem", a.CreateItemAsync(new() { Name = "walk the dog" }));
await Call("A updateItem", a.UpdateItemAsync(1, null, new() { Id = 1, IsComplete = true }));
await Call("A updateItem", a.UpdateItemAsync(1, null, new() { Id = 2 }));
await Call("A updateItem", a.UpdateItemAsync(1, @"""other""", new() { Id = 1 }));
await Call("A getItem", a.GetItemAsync(2, null));
await Call("A deleteItem", a.DeleteItemAsync(1, null));
var b = new ProfileB.TodoClient(http) { BaseUrl = args[1] };
var item = new ProfileB.SentTodoItem { Id = "a/b", Name = "Buy milk", Notes = "2 litres" };
System.ComponentModel.DataAnnotations.Validator.ValidateObject(item, new(item), true);
await Call("B createItem", b.CreateItemAsync(item));
await Call("B createItem", b.CreateItemAsync(item));
await Call("B createItem", b.CreateItemAsync(new()));
await Call("B updateItem", b.UpdateItemAsync(item));
await Call("B updateItem", b.UpdateItemAsync(new() { Id = "c", Name = "x", Notes = "x" }));
await Call("B updateItem", b.UpdateItemAsync(new()));
await Call("B deleteItem", b.DeleteItemAsync("a/b"));
await Call("B deleteItem", b.DeleteItemAsync("a/b"));
await Call("B deleteItem", b.DeleteItemAsync(new string('x', 1025)));
await Call("B greetByName", b.GreetByNameAsync());
Console.WriteLine($"{(await a.ListItemsAsync(null)).Count} and {(await b.ListItemsAsync(null)).Count} items");
Console.WriteLine($"{(await b.GetForecastAsync()).Count} entries, {await b.GreetAsync()}");
`

const csharpOutput = `A createItem
A updateItem
A updateItem: 400 The id in the path differs from the id in the body.
A updateItem: 412 The state has changed: no entity tag in If-Match matches.
A getItem: 404 No item has this id.
A deleteItem
B createItem
B createItem: 409 TodoItemIDInUse
B createItem: 400 TodoItemNameAndNotesRequired
B updateItem
B updateItem: 404 RecordNotFound
B updateItem: 400 TodoItemNameAndNotesRequired
B deleteItem
B deleteItem: 404 RecordNotFound
B deleteItem: 400 CouldNotDeleteItem
B greetByName: 401
0 and 3 items
5 entries, Hello World!
`

/** Generates a client from the document that the service serves, and compiles it. */
async function createClient(
  t: TestContext,
  folder: string,
  generator: Generator,
  profile: Profile,
  server: TodoServer<Profile>,
): Promise<{ client: GeneratedClient; document: Document }> {
  const token = await server.token()
  const document = await fetchDocument(server.url, token)
  writeFileSync(join(folder, `${profile}.json`), document)
  await generator.generate(t, folder, profile)
  const module = `client-${profile}-${generator.name.replaceAll(/\W/g, '')}`
  writeFileSync(join(folder, `${module}.ts`), generator.code[profile])
  const options = ['--target', 'es2022', '--module', 'nodenext', '--lib', 'es2024,dom,dom.iterable', '--types', '']
  const strict = ['--strict', ...(generator.isExact ? ['--exactOptionalPropertyTypes'] : [])]
  await execute(t, folder, process.execPath, compiler, ...strict, ...options, `${module}.ts`)
  const { client } = createRequire(join(folder, 'package.json'))(`./${module}.js`)
  return { client: new GeneratedClient(client, server.url, token), document: JSON.parse(document) }
}

test('S4 clients that are generated from the document compile, and every operation returns its data or error', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'package.json'), '{}')
  writeFileSync(join(folder, 'expected.ts'), expectedTypes)
  const flags = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  const generators = [openApiTypescript, heyApi, nswag]
  const packages = generators.flatMap((one) => one.packages)
  await execute(t, folder, 'npm', ...flags, 'typescript@5.9.3', ...packages)
  for (const generator of generators)
    for (const profile of ['a', 'b'] as const) {
      const skip = generator === nswag && missingDotnet('--list-runtimes')
      await t.test(`${generator.name}, Profile ${profile.toUpperCase()}`, { skip }, async (t) => {
        await using server = await start({ profile })
        const { client, document } = await createClient(t, folder, generator, profile, server)
        await useItems[profile](client)
        await useSamples(client)
        await receiveErrors(client, profile, document)
      })
    }
  await t.test('NSwag, C#', { skip: missingDotnet('--list-sdks') }, async (t) => {
    await using a = await start({ profile: 'a' })
    await using b = await start({ profile: 'b' })
    for (const [profile, { url, token }] of Object.entries({ A: a, B: b })) {
      const document = await fetchDocument(url, await token())
      writeFileSync(join(folder, `${profile}.json`), document)
      const files = [`/input:${profile}.json`, `/output:${profile}.cs`]
      const options = ['/className:TodoClient', `/namespace:Profile${profile}`, '/jsonLibrary:SystemTextJson']
      await runNswag(t, folder, 'openapi2csclient', ...files, ...options)
    }
    writeFileSync(join(folder, 'Program.cs'), csharp)
    writeFileSync(join(folder, 'client.csproj'), csharpProject(`${dotnetVersion('--list-sdks')}`))
    await execute(
      t,
      folder,
      'dotnet',
      'build',
      '--output',
      'built',
      '--nologo',
      '--verbosity',
      'quiet',
      '--disable-build-servers',
    )
    const printed = await execute(t, folder, 'dotnet', 'built/client.dll', a.url, b.url)
    assert.equal(printed.replaceAll('\r', ''), csharpOutput)
  })
})

test('S4 swagger-typescript-api: clients compile, and create, read, update and delete', async (t) => {
  const folder = temporaryFolder(t)
  const files = []
  for (const profile of ['a', 'b']) {
    await generateApi({
      input: fileURLToPath(new URL(`../../../openapi/${profile}.json`, import.meta.url)),
      output: folder,
      fileName: `${profile}.ts`,
      cleanOutput: false,
      silent: true,
    })
    files.push(`${profile}.ts`)
  }
  const options = ['--strict', '--target', 'es2023', '--module', 'nodenext', '--lib', 'es2024,dom', '--types', '']
  await execute(t, folder, process.execPath, compiler, ...options, ...files)
  for (const profile of ['a', 'b'] as const) {
    const { Api } = await import(pathToFileURL(join(folder, `${profile}.js`)).href)
    await using server = await start({ profile })
    await useTypescriptApi[profile](new Api({ baseUrl: server.url, baseApiParams: { format: 'json' } }).api)
  }
})

// biome-ignore lint/suspicious/noExplicitAny: the client is generated while the test runs
const useTypescriptApi: Record<'a' | 'b', (api: any) => Promise<void>> = {
  async a(api) {
    const { status, data } = await api.createItem({ name: 'x', isComplete: false })
    assert.deepEqual([status, data], [201, { id: 1, name: 'x', isComplete: false }])
    await api.updateItem(1, { id: 1, name: 'y', isComplete: true }, { format: undefined })
    assert.deepEqual((await api.getItem(1)).data, { id: 1, name: 'y', isComplete: true })
    await api.deleteItem(1, { format: undefined })
    assert.deepEqual((await api.listItems()).data, [])
  },
  async b(api) {
    const item = { id: 'a/b 😀', name: 'x', notes: 'y', done: false }
    assert.deepEqual((await api.createItem(item)).data, item)
    await api.updateItem({ ...item, done: true }, { format: undefined })
    assert.deepEqual((await api.listItems()).data.at(-1), { ...item, done: true })
    await api.deleteItem(encodeURIComponent(item.id), { format: undefined })
    assert.equal((await api.listItems()).data.length, 3)
  },
}
