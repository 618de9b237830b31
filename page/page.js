/* global SwaggerUIBundle */

const form = document.getElementById('ask')
const field = document.getElementById('token')
const problem = document.getElementById('problem')

/** The service puts a token into the page it gives to its own machine; others bring one, for this tab. */
const given = document.querySelector('meta[name="development-token"]').content
const token = given || sessionStorage.getItem('token')

if (token) open(token)
else ask('')

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

function ask(words) {
  problem.textContent = words
  form.hidden = false
  field.focus()
}

async function open(bearer) {
  const answer = await fetch('/swagger/v1/swagger.json', { headers: { authorization: `Bearer ${bearer}` } }).catch(
    () => undefined,
  )
  if (!answer?.ok) {
    sessionStorage.removeItem('token')
    const [, reason] = /error_description="([^"]*)"/.exec(answer?.headers.get('www-authenticate') ?? '') ?? []
    ask(answer ? `The service refuses this token. ${reason ?? ''}` : 'The service does not answer.')
    return
  }
  if (!given) sessionStorage.setItem('token', bearer)
  form.hidden = true
  show(await answer.json(), bearer)
}

/** Operations are tried where the page comes from, whatever public URL the description names. */
function show(description, bearer) {
  const ui = SwaggerUIBundle({
    spec: { ...description, servers: [{ url: location.origin }] },
    dom_id: '#ui',
    deepLinking: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => ui.preauthorizeApiKey('bearer', bearer),
  })
}
