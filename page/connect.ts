import type { Info, ProfileUrls } from '../src/control/schema.ts'
import { base, currentToken } from './client.ts'
import { copyButton, download, h } from './dom.ts'
import { formatDate } from './format.ts'
import { qrCode } from './qr.ts'
import type { App, View } from './view.ts'

export function connectView(app: App): View {
  const element = h('section', { class: 'view narrow cards', 'aria-label': 'Connect' })

  function update() {
    const { info } = app
    const prefix = info.sandbox ? `/~${info.sandbox}` : ''
    const own = info.profiles.find(({ title }) => title === info.title) ?? { urls: [base.origin] }
    const { urls, emulatorUrls = [], networkUrls = [] }: Partial<ProfileUrls> & Pick<ProfileUrls, 'urls'> = own
    const at = (all: readonly string[]) => all.map((url) => `${url}${prefix}`)
    element.replaceChildren(
      h('h1', { class: 'offscreen' }, 'Connect'),
      h(
        'div',
        { class: 'card' },
        h('h2', {}, 'Base address for a client'),
        addresses('This machine, iOS simulator', at(urls)),
        emulatorUrls.length > 0 && addresses('Android emulator', at(emulatorUrls)),
        networkUrls.length > 0
          ? addresses('Phone in the same network', at(networkUrls), code(`${networkUrls[0]}${prefix}`))
          : h(
              'p',
              { class: 'hint' },
              'To reach it from a phone in the same network, start the service with ',
              h('code', {}, '--host 0.0.0.0'),
              '.',
            ),
      ),
      tokenCard(`${urls[0]}${prefix}`),
      ...(info.certificate ? [certificateCard(info.certificate, urls)] : []),
      h(
        'div',
        { class: 'card' },
        h('h2', {}, 'More'),
        h(
          'ul',
          { class: 'links' },
          h('li', {}, h('a', { href: `${base}swagger/index.html` }, 'Swagger UI'), ': try each operation'),
          h('li', {}, h('a', { href: '#/contract' }, 'The contract'), ': every rule of this profile'),
          ...info.profiles
            .filter(({ title }) => title !== info.title)
            .map((other) =>
              h('li', {}, h('a', { href: appOf(other) }, other.title), ': this page of the other profile'),
            ),
        ),
        h(
          'p',
          { class: 'hint' },
          `todo-item-service ${info.version}, items in ${info.store}, started ${formatDate(info.startedAt)}`,
        ),
      ),
    )
  }

  update()
  return { title: 'Connect', element, show: () => {}, rulesChanged: update }
}

/** The other profile has another port, on the host by which this page was reached. */
function appOf({ urls }: ProfileUrls): string {
  const url = new URL(urls.find((one) => one.startsWith(location.protocol)) ?? urls[0] ?? base)
  url.hostname = location.hostname
  return `${url.origin}/app`
}

const addresses = (title: string, urls: readonly string[], extra?: Element) =>
  h(
    'div',
    { class: 'addresses' },
    h('h3', {}, title),
    h(
      'ul',
      {},
      urls.map((url) =>
        h(
          'li',
          {},
          h('code', {}, url),
          copyButton('Copy', () => url, { class: 'quiet', 'aria-label': `Copy ${url}` }),
        ),
      ),
    ),
    extra,
  )

const quietZone = 4

/** As an image: dark on light in both colour schemes, as scanners want it. */
function code(text: string): Element | undefined {
  const rows = qrCode(text)
  if (!rows) return undefined
  const svg = (name: string, attributes: Readonly<Record<string, string | number>>) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', name)
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, `${value}`)
    return node
  }
  const size = rows.length + 2 * quietZone
  const path = rows.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x + quietZone} ${y + quietZone}h1v1h-1z`] : [])),
  )
  const image = svg('svg', {
    class: 'qr',
    viewBox: `0 0 ${size} ${size}`,
    role: 'img',
    'aria-label': `QR code of ${text}`,
    'shape-rendering': 'crispEdges',
  })
  image.append(
    svg('rect', { width: size, height: size, fill: '#fff' }),
    svg('path', { d: path.join(''), fill: '#000' }),
  )
  return image
}

function tokenCard(url: string): HTMLElement {
  const token = currentToken()
  const curl = `curl ${url}/secret -H "Authorization: Bearer $TOKEN"`
  if (!token)
    return h(
      'div',
      { class: 'card' },
      h('h2', {}, 'Token'),
      h('p', {}, 'Create one where the service runs: ', h('code', {}, 'npx todo-service token')),
    )
  const { name, exp } = claimsOf(token)
  return h(
    'div',
    { class: 'card' },
    h('h2', {}, 'Token'),
    h(
      'p',
      {},
      `For ${name}${exp ? `, valid until ${formatDate(1000 * exp)}` : ''}. `,
      h('code', {}, '/secret'),
      ' and the API description require one.',
    ),
    h(
      'p',
      { class: 'copyable' },
      h('code', { class: 'long' }, token),
      copyButton('Copy token', () => token),
    ),
    h(
      'p',
      { class: 'copyable' },
      h('code', { class: 'long' }, curl),
      copyButton('Copy command', () => curl.replace('$TOKEN', token)),
    ),
  )
}

interface Claims {
  readonly unique_name?: string
  readonly name?: string
  readonly sub?: string
  readonly exp?: number
}

/** The name that /secret uses. */
function claimsOf(token: string): { name: string; exp?: number | undefined } {
  try {
    const [, payload = ''] = token.split('.')
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (character) =>
      character.charCodeAt(0),
    )
    const { unique_name, name, sub, exp }: Claims = JSON.parse(new TextDecoder().decode(bytes))
    return { name: unique_name ?? name ?? sub ?? 'an unnamed caller', exp }
  } catch {
    return { name: 'an unknown caller' }
  }
}

function certificateCard(certificate: NonNullable<Info['certificate']>, urls: readonly string[]): HTMLElement {
  const { pem, subject, validTo, fingerprint256 } = certificate
  const https = urls.find((url) => url.startsWith('https:'))
  const curl = `curl --cacert localhost.crt ${https}/api/todoitems`
  return h(
    'div',
    { class: 'card' },
    h('h2', {}, 'Certificate'),
    h(
      'p',
      {},
      `HTTPS uses the certificate of ${subject}, valid until ${formatDate(validTo)}. Clients accept it once they trust this file.`,
    ),
    h(
      'p',
      { class: 'actions' },
      h(
        'button',
        { type: 'button', onclick: () => download('localhost.crt', pem, 'application/x-x509-ca-cert') },
        'Save localhost.crt',
      ),
    ),
    https &&
      h(
        'p',
        { class: 'copyable' },
        h('code', { class: 'long' }, curl),
        copyButton('Copy command', () => curl),
      ),
    h('p', { class: 'hint' }, 'SHA-256 ', h('code', { class: 'wrap' }, fingerprint256)),
  )
}
