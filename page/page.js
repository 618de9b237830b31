/* global SwaggerUIBundle */

/** Where the service is: the origin of the page and, in a sandbox, a path. */
const serviceUrl = document.currentScript.src.replace(/\/swagger\/page\.js$/, '')

const form = document.getElementById('token-form')
const field = document.getElementById('token')
const error = document.getElementById('error')

/** For local clients the service puts a token into the page; others enter one, which is kept for this tab. */
const localToken = document.querySelector('meta[name="development-token"]').content
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

function showForm(message) {
  error.textContent = message
  form.hidden = false
  field.focus()
}

async function open(bearer) {
  const headers = { authorization: `Bearer ${bearer}` }
  const response = await fetch(`${serviceUrl}/swagger/v1/swagger.json`, { headers }).catch(() => undefined)
  if (!response?.ok) {
    sessionStorage.removeItem('token')
    const [, reason] = /error_description="([^"]*)"/.exec(response?.headers.get('www-authenticate') ?? '') ?? []
    showForm(response ? `The service rejects this token. ${reason ?? ''}` : 'The service does not respond.')
    return
  }
  if (!localToken) sessionStorage.setItem('token', bearer)
  form.hidden = true
  show(await response.json(), bearer)
}

/** Requests go where the page is from, not to the public URL in the description. */
function show(description, bearer) {
  const ui = SwaggerUIBundle({
    spec: { ...description, servers: [{ url: serviceUrl }] },
    dom_id: '#ui',
    deepLinking: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => ui.preauthorizeApiKey('bearer', bearer),
  })
}
