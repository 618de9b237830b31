interface SwaggerUi {
  preauthorizeApiKey(name: string, value: string): void
}

/** A global function of swagger-ui-bundle.js, which the page loads before this script. */
declare function SwaggerUIBundle(options: object): SwaggerUi

/** The base URL of the service, or of the space, that serves this page; with a slash at the end. */
const base = new URL('..', import.meta.url)
const form = byId('token-form', HTMLFormElement)
const field = byId('token', HTMLTextAreaElement)
const error = byId('error', HTMLElement)
const caller = byId('caller', HTMLElement)
const appLink = byId('app-link', HTMLElement)
appLink.hidden = appLink.dataset.app === ''

/** The class `dark-mode` selects the dark colour scheme of Swagger UI. */
const prefersDark = matchMedia('(prefers-color-scheme: dark)')
const applyScheme = () => document.documentElement.classList.toggle('dark-mode', prefersDark.matches)
prefersDark.addEventListener('change', applyScheme)
applyScheme()

/** For local clients the service puts a token into the page; other users enter one, which is kept for this tab. */
const localToken = document.querySelector<HTMLMetaElement>('meta[name="development-token"]')?.content
const token = localToken || sessionStorage.getItem('token')

if (token) open(token)
else showForm('')

form.addEventListener('submit', (event) => {
  event.preventDefault()
  // A token copied from a terminal may have line breaks in it.
  open(
    field.value
      .trim()
      .replace(/^Bearer +/i, '')
      .replace(/\s+/g, ''),
  )
})

function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const element = document.getElementById(id)
  if (!(element instanceof type)) throw new Error(`There is no element ${id}.`)
  return element
}

function showForm(message: string) {
  error.textContent = message
  form.hidden = false
  field.focus()
}

async function open(bearer: string) {
  const response = await fetch(new URL('swagger/v1/swagger.json', base), {
    headers: { authorization: `Bearer ${bearer}` },
  }).catch(() => undefined)
  if (!response?.ok) {
    sessionStorage.removeItem('token')
    const [, reason] = /error_description="([^"]*)"/.exec(response?.headers.get('www-authenticate') ?? '') ?? []
    showForm(response ? `The service rejects this token. ${reason ?? ''}` : 'The service does not respond.')
    return
  }
  if (!localToken) sessionStorage.setItem('token', bearer)
  form.hidden = true
  caller.textContent = `Authorised as ${nameIn(bearer)}`
  show(await response.json(), bearer)
}

/** Returns the name in the token that /secret greets. */
function nameIn(bearer: string): string {
  const [, encoded = ''] = bearer.split('.')
  const payload = atob(encoded.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = Uint8Array.from(payload, (character) => character.charCodeAt(0))
  const { unique_name, name, sub }: Partial<Record<string, string>> = JSON.parse(new TextDecoder().decode(bytes))
  return unique_name ?? name ?? sub ?? 'a caller without a name'
}

/** The token from the service is short-lived, so the page gets a new one after this time. */
const renewAfterMs = 20 * 60_000
let renewedAt = Date.now()
async function renew(ui: SwaggerUi) {
  if (document.hidden || Date.now() - renewedAt < renewAfterMs) return
  const response = await fetch(location.pathname, { cache: 'no-store' }).catch(() => undefined)
  const [, renewed] = /name="development-token" content="([^"]+)"/.exec((await response?.text()) ?? '') ?? []
  if (!renewed) return
  ui.preauthorizeApiKey('bearer', renewed)
  renewedAt = Date.now()
}

/** Shows Swagger UI. Its requests go to the origin of the page, not to the public URL in the OpenAPI document. */
function show(description: object, bearer: string) {
  const ui = SwaggerUIBundle({
    spec: { ...description, servers: [{ url: `${base}`.slice(0, -1) }] },
    dom_id: '#ui',
    deepLinking: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => ui.preauthorizeApiKey('bearer', bearer),
  })
  if (!localToken) return
  setInterval(() => renew(ui), 60_000)
  document.addEventListener('visibilitychange', () => renew(ui))
}
