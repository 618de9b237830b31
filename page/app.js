import { admin, messageOf, readEvents, useToken } from './client.js'
import { connectView } from './connect.js'
import { contractView } from './contract.js'
import { h, perFrame, setText } from './dom.js'
import { itemsView } from './items.js'
import { describeRule, switchesView } from './switches.js'
import { trafficView } from './traffic.js'

const byId = (id) => document.getElementById(id)
const main = byId('main')
const reconnectIntervalMs = 1000
const noticeForMs = 8000

/** What the views share. */
const app = {
  info: undefined,
  rules: [],
  isOnline: false,
  /** Replaces the parameters of the view in the address, without a new entry in the history. */
  setParameters(view, parameters) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== '')).toString()
    addresses[view] = `#/${view}${query ? `?${query}` : ''}`
    const link = document.querySelector(`nav a[href^="#/${view}"]`)
    if (link) link.href = addresses[view]
    if (current === view && location.hash !== addresses[view]) history.replaceState(null, '', addresses[view])
  },
  notify: showNotice,
}
const addresses = {}
let views
let current

/** `#/traffic?status=4xx` */
function route() {
  const [, name, query] = /^#\/(\w+)\??(.*)$/s.exec(location.hash) ?? []
  current = name in views ? name : 'items'
  for (const [key, view] of Object.entries(views)) view.element.hidden = key !== current
  for (const link of document.querySelectorAll('nav a')) {
    const isCurrent = link.hash.startsWith(`#/${current}`)
    if (isCurrent) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  document.title = `${views[current].title} · ${app.info.title}${app.info.sandbox ? ` · ${app.info.sandbox}` : ''}`
  views[current].show(Object.fromEntries(new URLSearchParams(query ?? '')))
}

function start() {
  const { title, sandbox } = app.info
  byId('title').textContent = title
  const chip = byId('sandbox')
  chip.hidden = !sandbox
  chip.textContent = `sandbox ${sandbox}`
  views = {
    items: itemsView(app),
    traffic: trafficView(app),
    switches: switchesView(app),
    connect: connectView(app),
    contract: contractView(app),
  }
  main.replaceChildren(...Object.values(views).map(({ element }) => element))
  window.addEventListener('hashchange', route)
  route()
}

/** Everything that may have changed while nobody told us. */
async function synchronize() {
  const previous = app.info?.instance
  const response = await admin('GET', 'info')
  if (response.status !== 200) return response
  const info = JSON.parse(response.text)
  app.info = info
  if (info.token) useToken(info.token, false)
  if (!views) start()
  else if (previous !== info.instance) {
    views.connect.update()
    showNotice(
      info.sandbox
        ? 'The sandbox was opened anew. Its items and its traffic start from the beginning.'
        : 'The service was restarted. Items, traffic and switches are those of the new process.',
    )
  }
  await Promise.all([views.traffic.load(), loadRules()])
  views.items.refresh()
  return response
}

async function loadRules() {
  const { status, text } = await admin('GET', 'faults')
  if (status !== 200) return
  app.rules = JSON.parse(text)
  views.switches.update()
  const isActive = ({ times, used }) => times === undefined || used < times
  const active = app.rules.filter(isActive)
  const count = active.length
  const chip = byId('active')
  chip.hidden = count === 0
  setText(chip, `${count} ${count === 1 ? 'switch' : 'switches'} on`)
  chip.title = active.map(describeRule).join('\n')
}

const refreshRules = perFrame(loadRules)

function onEvent(event, id, data) {
  if (event === 'request') {
    views.traffic.add(data)
    if (data.fault) refreshRules()
  } else if (event === 'item') views.items.refresh()
  else if (event === 'clear') views.traffic.clearUntil(id)
  else if (event === 'faults') refreshRules()
  else if (event === 'reset') views.items.refresh()
}

/** Follows the events for as long as the page is visible. A browser opens only six connections to a service. */
async function follow() {
  for (;;) {
    if (document.hidden)
      await new Promise((shown) => document.addEventListener('visibilitychange', shown, { once: true }))
    const hidden = new AbortController()
    const onHide = () => document.hidden && hidden.abort()
    document.addEventListener('visibilitychange', onHide)
    /** Events wait until the state is there that they change. */
    let waiting = []
    const status = await readEvents(
      hidden.signal,
      async () => {
        const { status } = await synchronize()
        if (status !== 200) return hidden.abort()
        setOnline(true)
        for (const event of waiting) onEvent(...event)
        waiting = undefined
      },
      (...event) => (waiting ? waiting.push(event) : onEvent(...event)),
    )
    document.removeEventListener('visibilitychange', onHide)
    if (status === 401 || status === 403) return askForToken()
    if (document.hidden) continue
    setOnline(false)
    await new Promise((done) => setTimeout(done, reconnectIntervalMs))
  }
}

function setOnline(isOnline) {
  app.isOnline = isOnline
  const live = byId('live')
  live.classList.toggle('is-live', isOnline)
  setText(live, isOnline ? 'Live' : 'Reconnecting')
  if (!isOnline) showNotice('The service does not respond. This page reconnects as soon as it is back.', true)
  else if (byId('notice').dataset.isLasting) showNotice('')
}

let noticeTimer
function showNotice(text, isLasting = false) {
  const notice = byId('notice')
  clearTimeout(noticeTimer)
  setText(notice, text)
  if (isLasting) notice.dataset.isLasting = 'true'
  else delete notice.dataset.isLasting
  if (text && !isLasting) noticeTimer = setTimeout(() => setText(notice, ''), noticeForMs)
}

/** Clients on other machines need a token, as for every other request to the control API. */
function askForToken() {
  setText(byId('live'), 'Not authorised')
  const input = h('textarea', { rows: '5', autocomplete: 'off', spellcheck: 'false', id: 'token' })
  const error = h('p', { role: 'alert', class: 'error' })
  const form = h(
    'form',
    {
      class: 'card token',
      async onsubmit(event) {
        event.preventDefault()
        // A token copied from a terminal may have line breaks in it.
        const entered = input.value.replace(/^\s*Bearer +/i, '').replace(/\s+/g, '')
        useToken(entered, true)
        const response = await admin('GET', 'info')
        if (response.status === 200) {
          follow()
          return
        }
        const [, reason] = /error_description="([^"]*)"/.exec(response.headers.get('www-authenticate') ?? '') ?? []
        error.textContent =
          response.status === 401
            ? `The service rejects this token. ${reason ?? ''}`
            : response.status === 403
              ? 'This token is not for this page: create it with --scope control.'
              : messageOf(response)
      },
    },
    h('h1', {}, 'A token, please'),
    h('p', {}, 'From another machine this page needs a token. Create one where the service runs:'),
    h('pre', { class: 'body' }, 'npx todo-service token --scope control'),
    h('label', { class: 'field' }, h('span', {}, 'Token'), input),
    error,
    h('button', { class: 'primary' }, 'Open'),
  )
  views = undefined
  main.replaceChildren(form)
  input.focus()
}

/** A token of the service is short-lived. After a pause of the page, `synchronize` gets another one. */
setInterval(async () => {
  if (!app.info?.token || document.hidden) return
  const { status, text } = await admin('GET', 'info')
  if (status === 200) useToken(JSON.parse(text).token, false)
}, 20 * 60_000)

follow()
