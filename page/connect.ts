import type { ProfileUrls } from '../src/common/profile-urls.ts'
import type { Info } from '../src/control/schema.ts'
import { admin, base, currentToken, messageOf, read } from './client.ts'
import { button, copyButton, copyLine, download, field, h, named, type Options, select, tabs, withCode } from './dom.ts'
import { formatDate, formatTime } from './format.ts'
import { qrCode } from './qr.ts'
import type { App, View } from './view.ts'

/** The kinds of clients, each with its label and the default language of its snippet. */
const clients = {
  machine: ['This machine', 'fetch'],
  simulator: ['iOS simulator', 'swift'],
  emulator: ['Android emulator', 'kotlin'],
  usb: ['Android phone by USB', 'kotlin'],
  phone: ['Phone in the same network', 'kotlin'],
} as const
type ClientKind = keyof typeof clients

interface SampleRequest {
  /** The base address, without a slash at the end. */
  readonly url: string
  readonly isSecured: boolean
  readonly members: readonly Member[]
}

type Member = readonly [name: string, type: 'long' | 'string' | 'string?' | 'bool']
/** The members of an item, by profile. */
const items: Partial<Record<string, readonly Member[]>> = {
  a: [
    ['id', 'long'],
    ['name', 'string?'],
    ['isComplete', 'bool'],
  ],
  b: [
    ['id', 'string'],
    ['name', 'string'],
    ['notes', 'string'],
    ['done', 'bool'],
  ],
}
const swiftTypes = { long: 'Int64', string: 'String', 'string?': 'String?', bool: 'Bool' }
const kotlinTypes = { ...swiftTypes, long: 'Long', bool: 'Boolean' }
const capitalized = (name: string) => `${name.charAt(0).toUpperCase()}${name.slice(1)}`

const languages: Readonly<Record<string, readonly [label: string, write: (request: SampleRequest) => string]>> = {
  fetch: [
    'fetch',
    ({ url, isSecured, members }) =>
      `${isSecured ? 'const headers = { authorization: "Bearer " + token }\n' : ''}const response = await fetch('${url}/api/todoitems'${isSecured ? ', { headers }' : ''})
if (!response.ok) throw new Error(\`Status \${response.status}\`)
const items = await response.json() // [{ ${members.map(([name]) => name).join(', ')} }, …]`,
  ],
  csharp: [
    'C# HttpClient',
    ({ url, isSecured, members }) => `using System.Net.Http.Json;

using var client = new HttpClient { BaseAddress = new Uri("${url}/") };
${isSecured ? 'client.DefaultRequestHeaders.Authorization = new("Bearer", token);\n' : ''}var items = await client.GetFromJsonAsync<List<TodoItem>>("api/todoitems");

record TodoItem(${members.map(([name, type]) => `${type} ${capitalized(name)}`).join(', ')});`,
  ],
  kotlin: [
    'Kotlin Retrofit',
    ({ url, isSecured, members }) => `data class TodoItem(
${members.map(([name, type]) => `    val ${name}: ${kotlinTypes[type]},`).join('\n')}
)

interface TodoApi {
    @GET("api/todoitems")
    suspend fun list(${isSecured ? '@Header("Authorization") authorization: String' : ''}): List<TodoItem>
}

val api = Retrofit.Builder()
    .baseUrl("${url}/")
    .addConverterFactory(GsonConverterFactory.create())
    .build()
    .create(TodoApi::class.java)

val items = api.list(${isSecured ? '"Bearer $token"' : ''}) // in a coroutine`,
  ],
  swift: [
    'Swift URLSession',
    ({ url, isSecured, members }) => `struct TodoItem: Codable {
${members.map(([name, type]) => `    let ${name}: ${swiftTypes[type]}`).join('\n')}
}

${isSecured ? 'var' : 'let'} request = URLRequest(url: URL(string: "${url}/api/todoitems")!)
${isSecured ? 'request.setValue("Bearer \\(token)", forHTTPHeaderField: "Authorization")\n' : ''}let (data, _) = try await URLSession.shared.data(for: request)
let items = try JSONDecoder().decode([TodoItem].self, from: data)`,
  ],
}

const isLoopback = (url: string | URL) => /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(new URL(url).hostname)
const isSecure = (url: string) => url.startsWith('https:')

function atHost(url: string, hostname: string): string {
  const changed = new URL(url)
  changed.hostname = hostname
  return changed.origin
}

/** A code that a phone can exchange once for a token. */
class PhoneCode {
  /** Why the service did not create a code. */
  error = ''
  text = ''
  expiresAt = 0
  readonly #app: App
  readonly #onChange: () => void
  #instance = ''
  #expiry: ReturnType<typeof setTimeout> | undefined

  constructor(app: App, onChange: () => void) {
    this.#app = app
    this.#onChange = onChange
  }

  /** Whether the code can still be used. A restart of the service makes it invalid, too. */
  get isValid(): boolean {
    return this.text !== '' && this.#instance === this.#app.info.instance && this.expiresAt > Date.now()
  }

  async renew(): Promise<void> {
    const { instance } = this.#app.info
    const answer = await admin('POST', 'codes')
    const isMade = answer.status === 201
    const { code = '', expiresAt = 0 } = isMade ? JSON.parse(answer.text) : {}
    this.#instance = instance
    this.text = code
    this.expiresAt = new Date(expiresAt).getTime()
    this.error = isMade ? '' : messageOf(answer)
    clearTimeout(this.#expiry)
    if (isMade) this.#expiry = setTimeout(this.#onChange, this.expiresAt - Date.now() + 1)
    this.#onChange()
  }
}

function profileUrls({ profiles, title }: Info): ProfileUrls {
  return profiles.find((profile) => profile.title === title) ?? { title, urls: [base.origin] }
}

/** Returns the origins at which a kind of client reaches the service, the best first. */
export function urlsFor(kind: ClientKind, info: Info): readonly string[] {
  const { urls, emulatorUrls, networkUrls = urls.filter((url) => !isLoopback(url)) } = profileUrls(info)
  if (kind === 'emulator') return emulatorUrls ?? urls.map((url) => (isLoopback(url) ? atHost(url, '10.0.2.2') : url))
  if (kind === 'usb') return urls.filter(isLoopback).map((url) => atHost(url, 'localhost'))
  if (kind !== 'phone') return urls
  return isLoopback(base) ? networkUrls : [...new Set([base.origin, ...networkUrls])]
}

const namesOf = (all: Readonly<Record<string, readonly [name: string, unknown]>>): Options =>
  Object.fromEntries(Object.entries(all).map(([value, [name]]) => [value, name]))

export function connectView(app: App): View {
  let client: ClientKind = 'machine'
  let language = ''
  let scheme = ''
  /** The address of this machine that the user has chosen for the phone. */
  let host = ''
  let drawn = ''
  const code = new PhoneCode(app, update)

  const clientTabs = tabs('Client', namesOf(clients), (value) => choose({ client: value }))
  const schemeTabs = tabs('Protocol', { '': 'HTTP', https: 'HTTPS' }, (value) => choose({ scheme: value }))
  const languageTabs = tabs('Language', namesOf(languages), (value) => choose({ language: value }))
  const address = h('div.stack')
  const snippetCode = h('div')
  const snippet = h('div.card.stack', h('div.line.head', h('h2', 'List the items'), languageTabs.element), snippetCode)
  const allow = h('div.card.stack')
  const side = h('div.stack')
  const head = h('div.line.head', h('h2', 'Base address'), schemeTabs.element)
  const element = h(
    'section.view.wide.stack.connect',
    { 'aria-label': 'Connect' },
    h('h1', 'Connect a client'),
    clientTabs.element,
    h('div.columns', h('div.stack', h('div.card.stack', head, address), snippet, allow), side),
  )

  function choose(parameters: Readonly<Record<string, string>>) {
    const all = { client, language, scheme, ...parameters }
    app.setParameters('connect', all)
    show(all)
  }

  function show(parameters: Partial<Record<string, string>>) {
    const { client: name = '', language: chosen = '' } = parameters
    client = Object.hasOwn(clients, name) ? (name as ClientKind) : isLoopback(base) ? 'machine' : 'phone'
    language = Object.hasOwn(languages, chosen) ? chosen : ''
    scheme = parameters.scheme === 'https' ? 'https' : ''
    update()
    if (client === 'phone') openPhone()
  }

  /** Reads the current network addresses, and creates a code if it can be seen. */
  async function openPhone() {
    app.info = (await read<Info>('info')) ?? app.info
    update()
    const isShown = client === 'phone' && !element.hidden
    const isMissing = !code.isValid && !code.error
    if (isShown && isMissing && isLoopback(base) && urlsFor('phone', app.info).length > 0) await code.renew()
  }

  /** Draws only if something has changed, so that a button is not replaced while the user presses it. */
  function update() {
    const { info } = app
    const state = JSON.stringify([info, currentToken(), client, language, scheme, host, code, code.isValid])
    if (drawn === state) return
    drawn = state
    clientTabs.choose(client)
    schemeTabs.choose(scheme)
    const all = urlsFor(client, info)
    const hasBoth = all.some(isSecure) && !all.every(isSecure)
    schemeTabs.element.hidden = !hasBoth
    const urls = hasBoth ? all.filter((url) => isSecure(url) === (scheme === 'https')) : all
    const origin = urls.find((url) => new URL(url).hostname === host) ?? urls[0]
    const prefix = info.space ? `/~${info.space}` : ''
    snippet.hidden = allow.hidden = origin === undefined
    if (origin === undefined) address.replaceChildren(...unreachable())
    else showReachable(`${origin}${prefix}`, urls)
    side.replaceChildren(tokenCard(`${profileUrls(info).urls[0]}${prefix}`), moreCard(info))
  }

  function showReachable(url: string, urls: readonly string[]) {
    const { operations, profile, certificate } = app.info
    const shown = language || clients[client][1]
    languageTabs.choose(shown)
    const isSecured = operations.some(({ operation, secured }) => operation === 'listItems' && secured)
    const request = { url, isSecured, members: items[profile] ?? [] }
    snippetCode.replaceChildren(codeBlock('GET /api/todoitems', languages[shown]?.[1](request) ?? ''))
    address.replaceChildren(...addressOf(url, urls))
    allow.replaceChildren(h('h2', 'What the client must allow'), ...allowances(client, url, certificate))
  }

  function addressOf(url: string, urls: readonly string[]): HTMLElement[] {
    if (client === 'usb') return usbAddress(url)
    if (client !== 'phone') return [copyLine(url)]
    const hosts = urls.map((candidate) => new URL(candidate).hostname)
    const choice = select({ onchange: chooseHost }, named(hosts))
    if (hosts.includes(host)) choice.value = host
    function chooseHost() {
      host = choice.value
      update()
    }
    return [
      copyLine(url),
      ...(hosts.length > 1 ? [field('This machine has several addresses. The phone reaches', choice)] : []),
      codeBox(`${url}/app`, code),
    ]
  }

  function unreachable(): HTMLElement[] {
    if (client === 'usb')
      return [
        h('p.callout.warning', 'adb leads to localhost, where the service does not listen. Start it with:'),
        copyLine('npm start -- --host localhost'),
      ]
    if (profileUrls(app.info).isListeningOnNetwork)
      return [
        h('p.callout.warning', 'This machine has no network address. Join the network of the phone.'),
        h('p', button('Look again', openPhone)),
      ]
    return [
      h('p.callout', 'The service listens on this machine only. For a phone, start it with:'),
      copyLine('npm start -- --host 0.0.0.0'),
    ]
  }

  return { element, show, faultsChanged: () => !element.hidden && update() }
}

function usbAddress(url: string): HTMLElement[] {
  const { port } = new URL(url)
  return [
    h('p', 'Forward the port of the phone to this machine, each time it is plugged in:'),
    copyLine(`adb reverse tcp:${port} tcp:${port}`),
    h('p', 'The base address on the phone is then'),
    copyLine(url),
  ]
}

/** Shows the URL of this page as a QR code for the phone, with a code for a token. */
function codeBox(page: string, code: PhoneCode): HTMLElement {
  const text = code.isValid ? code.text : ''
  const image = (text || code.error) && qrImage(text ? `${page}#/connect?code=${text}` : page)
  return h(
    'div.line.phone',
    image,
    h(
      'div.stack',
      h('h3', 'This page on the phone'),
      h(
        'p',
        image ? 'Scan this with the camera, or open ' : 'Open ',
        h('code', page),
        text ? ' there. On the phone, enter this code:' : ' there.',
      ),
      stateOfCode(code),
    ),
  )
}

function stateOfCode(code: PhoneCode): HTMLElement[] {
  const renew = (label: string) => button(label, () => code.renew(), { class: 'small' })
  if (code.error) return [h('p', `There is no code: ${code.error} The phone asks for a token.`), renew('Try again')]
  if (code.isValid)
    return [
      h('p.mono.code', code.text),
      h('p.hint', `Valid for 5 minutes, until ${formatTime(code.expiresAt)}, for one phone.`),
      renew('New code'),
    ]
  if (code.text) return [h('p', 'This code has expired.'), renew('New code')]
  return [h('p', 'Another phone gets its token for this page by a code.'), renew('Show a code')]
}

const codeBlock = (title: string, text: string) =>
  h(
    'div.snippet',
    h(
      'p.line',
      h('small', title),
      copyButton('Copy', () => text, { class: 'small', 'aria-label': `Copy ${title}` }),
    ),
    h('pre.command', { tabindex: '0' }, text),
  )

const quietZone = 4

/** Draws a QR code, dark on light in both colour schemes for scanners; returns undefined if the text is too long. */
export function qrImage(text: string): HTMLElement | undefined {
  const rows = qrCode(text)
  if (!rows) return undefined
  const size = rows.length + 2 * quietZone
  const path = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')))
  const view = `-${quietZone} -${quietZone} ${size} ${size}`
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${view}" shape-rendering="crispEdges">
<rect x="-50%" y="-50%" width="200%" height="200%" fill="#fff"/><path d="${path.join('')}"/></svg>`
  return h('img.qr', { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: `QR code of ${text}` })
}

type Certificate = Info['certificate']

const corsHint =
  'Programs: nothing. Pages in a browser: nothing for those of localhost; for others start the service with `--cors ORIGIN`.'
const certificateWarning = (hostname: string) =>
  `The development certificate is for localhost and 10.0.2.2, so clients reject it for ${hostname}. Use HTTP, or start the service with a certificate of your own: \`--tls-cert FILE --tls-key FILE\`.`

/** Shows how to allow plain HTTP or a self-signed certificate, which mobile platforms refuse by default. */
function allowances(client: ClientKind, url: string, certificate: Certificate): HTMLElement[] {
  const { hostname } = new URL(url)
  const isTls = isSecure(url)
  const isPhone = client === 'phone'
  if (client === 'machine' && !isTls) return [h('p', withCode(corsHint))]
  if (isPhone && isTls && certificate?.subject === 'CN=localhost')
    return [h('p.callout.warning', withCode(certificateWarning(hostname)))]
  const parts: (HTMLElement | false)[] = []
  if (isTls && certificate) parts.push(certificateBox(certificate))
  if (isTls && certificate && client === 'machine')
    parts.push(
      copyLine(`curl --cacert localhost.crt ${url}/api/todoitems`),
      copyLine('NODE_EXTRA_CA_CERTS=localhost.crt node client.js'),
    )
  if (isPhone || client === 'emulator' || client === 'usb') parts.push(...androidBox(hostname, isTls))
  if (isPhone || client === 'simulator') parts.push(...iosBox(hostname, isTls, isPhone))
  return parts.filter((part) => part !== false)
}

const androidBox = (hostname: string, isTls: boolean) => [
  codeBlock(
    'Android: res/xml/network_security_config.xml',
    `<network-security-config>
    <domain-config${isTls ? '' : ' cleartextTrafficPermitted="true"'}>
        <domain>${hostname}</domain>${
          isTls
            ? `
        <trust-anchors>
            <certificates src="@raw/localhost" />
        </trust-anchors>`
            : ''
        }
    </domain-config>
</network-security-config>`,
  ),
  h(
    'p.hint',
    withCode(
      `${isTls ? 'Save the certificate as `res/raw/localhost.crt`. ' : ''}In AndroidManifest.xml, \`application\` needs \`android:networkSecurityConfig="@xml/network_security_config"\`, and the app the permission \`android.permission.INTERNET\`.`,
    ),
  ),
]

const iosBox = (hostname: string, isTls: boolean, isPhone: boolean) => [
  codeBlock(
    'iOS: Info.plist',
    `<key>NSAppTransportSecurity</key>
<dict>
    <key>NSAllowsLocalNetworking</key>
    <true/>
</dict>${
      isPhone
        ? `
<key>NSLocalNetworkUsageDescription</key>
<string>To-do items of a service in this network</string>`
        : ''
    }`,
  ),
  isPhone && h('p.hint', 'iOS asks once whether the app may find devices in the local network.'),
  isTls &&
    codeBlock(
      'iOS, in debug builds: the delegate of the URLSession',
      `func urlSession(
    _ session: URLSession,
    didReceive challenge: URLAuthenticationChallenge
) async -> (URLSession.AuthChallengeDisposition, URLCredential?) {
    let space = challenge.protectionSpace
    guard space.host == "${hostname}", let trust = space.serverTrust else {
        return (.performDefaultHandling, nil)
    }
    return (.useCredential, URLCredential(trust: trust))
}`,
    ),
]

const certificateBox = ({ pem, subject, validTo, fingerprint256 }: NonNullable<Certificate>) =>
  h(
    'div.stack',
    h('p', `HTTPS uses the certificate of ${subject}, valid until ${formatDate(validTo)}.`),
    h(
      'p.line',
      button('Save localhost.crt', () => download('localhost.crt', pem, 'application/x-x509-ca-cert')),
    ),
    h('details', h('summary', 'Fingerprint'), h('p', h('code', `SHA-256 ${fingerprint256}`))),
  )

function tokenCard(url: string): HTMLElement {
  const token = currentToken()
  const curl = `curl ${url}/secret -H "Authorization: Bearer $TOKEN"`
  const card = h('div.card.stack', h('h2', 'Token'))
  if (!token) {
    card.append(h('p', 'Create one where the service runs:'), copyLine('npx todo-service token'))
    return card
  }
  const { name, exp } = claimsOf(token)
  card.append(
    h(
      'p.hint',
      `For ${name}${exp ? `, valid until ${formatDate(1000 * exp)}` : ''}. `,
      withCode('`/secret` and the API description require one.'),
    ),
    copyLine(token, 'Copy token'),
    copyLine(curl, 'Copy command', curl.replace('$TOKEN', token)),
  )
  return card
}

const moreCard = (info: Info) =>
  h(
    'div.card.stack',
    h('h2', 'More'),
    h(
      'ul',
      h('li', h('a', { href: `${base}swagger/index.html` }, 'Swagger UI'), ': try each operation'),
      h('li', h('a', { href: '#/contract' }, 'The contract'), ': every rule of this profile'),
    ),
    h('p.hint', `todo-item-service ${info.version}, items in ${info.store}, started ${formatDate(info.startedAt)}`),
  )

/** Returns the expiration time of the token, and the name that /secret greets. */
function claimsOf(token: string): { name: string; exp?: number } {
  try {
    const [, payload = ''] = token.split('.')
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (character) =>
      character.charCodeAt(0),
    )
    const { unique_name, name, sub, exp }: Partial<Record<string, string>> = JSON.parse(new TextDecoder().decode(bytes))
    return { name: unique_name ?? name ?? sub ?? 'an unnamed caller', exp: Number(exp) }
  } catch {
    return { name: 'an unknown caller' }
  }
}
