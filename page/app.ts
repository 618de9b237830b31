import type { ActiveFault, Info, JournalEntry, ServiceEvent, SpaceUse } from '../src/control/schema.ts'
import { classView } from './class.ts'
import { admin, maxEntries, messageOf, originOf, pageOf, read, readEvents, useToken } from './client.ts'
import { connectView } from './connect.ts'
import { contractView } from './contract.ts'
import { atMostEvery, button, field, h, openDialog, setText, withCode } from './dom.ts'
import { faultsView, isUsedUp } from './faults.ts'
import { counted } from './format.ts'
import { itemsView } from './items.ts'
import { trafficView } from './traffic.ts'
import type { App, View } from './view.ts'

function byId(id: string): HTMLElement {
  const element = document.getElementById(id)
  if (!element) throw new Error(`There is no element ${id}.`)
  return element
}

const main = byId('main')
const reconnectIntervalMs = 1000
const toastForMs = 8000
/** The page is drawn at most once in this time, however many requests arrive. */
const refreshIntervalMs = 100

/** `app` and `views` are undefined until the service has responded. */
let app: App | undefined
let views: Readonly<Record<string, View>> | undefined
const entries = new Map<number, JournalEntry>()
let current: string

/** The view Class lists all spaces, so it exists only in the default space. */
const hasClass = ({ spaces, space }: Info) => spaces !== 'none' && !space

const createViews = (shared: App): Readonly<Record<string, View>> => ({
  items: itemsView(shared),
  traffic: trafficView(shared),
  faults: faultsView(shared),
  connect: connectView(shared),
  contract: contractView(shared),
  ...(hasClass(shared.info) && { class: classView(shared) }),
})

function setParameters(view: string, parameters: Readonly<Record<string, string>>) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== '')).toString()
  const address = `#/${view}${query ? `?${query}` : ''}`
  const link = document.querySelector<HTMLAnchorElement>(`nav a[href^="#/${view}"]`)
  if (link) link.href = address
  if (current === view && location.hash !== address) history.replaceState(null, '', address)
}

/** Shows the view that the address names, such as `#/traffic?status=4xx`. */
function route() {
  if (!app || !views) return
  const [, name, query = ''] = /^#\/(\w+)\??(.*)$/s.exec(location.hash) ?? []
  current = name !== undefined && views[name] ? name : 'traffic'
  const shown = views[current] as View
  for (const view of Object.values(views)) view.element.hidden = view !== shown
  for (const link of document.querySelectorAll<HTMLAnchorElement>('header nav a'))
    link.ariaCurrent = link.hash.startsWith(`#/${current}`) ? 'page' : null
  document.title = `${shown.element.ariaLabel} · ${app.info.title}${app.info.space ? ` · ${app.info.space}` : ''}`
  shown.show(Object.fromEntries(new URLSearchParams(query)))
}

function start(shared: App) {
  const { title, space, spaces, profiles } = shared.info
  byId('title').textContent = title
  const chip = byId('space')
  chip.hidden = spaces === 'none'
  chip.textContent = space ? `Space ${space}` : 'Default space'
  chip.onclick = chooseSpace
  byId('class').hidden = !hasClass(shared.info)
  const [other] = profiles.filter((profile) => profile.title !== title)
  if (other) {
    const link = h('a', { href: `${originOf(other)}/app`, title: `This page of ${other.title}` }, other.title)
    byId('other').replaceChildren(link)
    byId('other').hidden = false
  }
  views = createViews(shared)
  main.replaceChildren(...Object.values(views).map(({ element }) => element))
  route()
}

async function chooseSpace() {
  const response = await admin('GET', 'spaces')
  if (response.status !== 200) return showToast(messageOf(response))
  const spaces: readonly SpaceUse[] = JSON.parse(response.text)
  const { space = '' } = app?.info ?? {}
  const name = h('input', {
    autocomplete: 'off',
    spellcheck: 'false',
    pattern: '[\\w\\-]{1,64}',
    maxlength: '64',
    required: true,
    autofocus: true,
  })
  const links = [...new Set(['', ...spaces.map(({ name }) => name)])].map((each) =>
    h('a', { href: pageOf(each, location.hash), 'aria-current': each === space && 'page' }, each || 'Default space'),
  )
  const content = [
    h(
      'p',
      withCode(
        'A space has items, traffic and faults of its own. A client uses it with `/~NAME` in front of every path, or with the header `X-Todo-Space: NAME`.',
      ),
    ),
    h('nav', { 'aria-label': 'Spaces' }, links),
    field('Another one', name),
  ]
  openDialog('Space', content, 'Close', h('button.primary', 'Open'), () => {
    location.href = pageOf(name.value, location.hash)
  })
}

/** Loads everything that may have changed while no events were received. */
async function synchronize() {
  const previous = app?.info
  const response = await admin('GET', 'info')
  if (response.status !== 200) return response
  const info: Info = JSON.parse(response.text)
  app ??= { info, faults: [], entries, total: 0, isOnline: false, setParameters, notify: showToast }
  app.info = info
  if (info.token) useToken(info.token, false)
  if (!views) start(app)
  else if (previous?.instance !== info.instance)
    showToast(
      previous?.startedAt === info.startedAt
        ? 'The space had ended: it was deleted, or not used for a while (--space-ttl). It begins anew, without the items, traffic and faults of before.'
        : 'The service was restarted. Items, traffic and faults are those of the new process.',
    )
  await Promise.all([loadEntries(), loadFaults()])
  tell('itemsChanged')
  return response
}

function tell(change: 'itemsChanged' | 'faultsChanged' | 'entriesChanged') {
  for (const view of Object.values(views ?? {})) view[change]?.()
}

async function loadEntries() {
  const all = await read<JournalEntry[]>('requests')
  if (!all) return
  entries.clear()
  for (const entry of all) entries.set(entry.id, entry)
  if (entries.size >= maxEntries) await countRequests()
  tell('entriesChanged')
}

async function countRequests() {
  const spaces = await read<SpaceUse[]>('spaces')
  if (!spaces || !app) return
  const { space = '' } = app.info
  app.total = spaces.find(({ name }) => name === space)?.requests ?? 0
}

const tellEntries = atMostEvery(refreshIntervalMs, () => tell('entriesChanged'))

function putEntry(entry: JournalEntry) {
  if (app && !entries.has(entry.id) && !entry.request.headers['x-todo-client']) app.total++
  entries.set(entry.id, entry)
  for (const id of entries.keys()) {
    if (entries.size <= maxEntries) break
    entries.delete(id)
  }
  tellEntries()
}

async function loadFaults() {
  const faults = await read<ActiveFault[]>('faults')
  if (!faults || !app) return
  app.faults = faults
  tell('faultsChanged')
  const active = faults.filter((fault) => !isUsedUp(fault))
  const chip = byId('active')
  chip.hidden = active.length === 0
  setText(chip, `${counted(active.length, 'fault')}`)
  chip.title = active.map(({ description }) => description).join('\n')
}

const refreshFaults = atMostEvery(refreshIntervalMs, loadFaults)

function onEvent({ event, id, data }: ServiceEvent) {
  if (event === 'request') {
    putEntry(data)
    if (data.fault) refreshFaults()
  } else if (event === 'clear') {
    for (const known of entries.keys()) if (known <= id) entries.delete(known)
    if (app) app.total = 0
    tellEntries()
  } else if (event === 'faults') refreshFaults()
  else tell('itemsChanged')
}

/** Receives events while the page is visible: a browser has only six connections to a service for all of its tabs. */
async function follow() {
  for (;;) {
    if (document.hidden)
      await new Promise((shown) => document.addEventListener('visibilitychange', shown, { once: true }))
    const hidden = new AbortController()
    const onHide = () => document.hidden && hidden.abort()
    document.addEventListener('visibilitychange', onHide)
    /** Events that arrive before the state that they change has been loaded; undefined afterwards. */
    let waiting: ServiceEvent[] | undefined = []
    const status = await readEvents(
      hidden,
      async () => {
        const { status } = await synchronize()
        if (status !== 200) return hidden.abort()
        setOnline(true)
        for (const event of waiting ?? []) onEvent(event)
        waiting = undefined
      },
      (event) => (waiting ? waiting.push(event) : onEvent(event)),
    )
    document.removeEventListener('visibilitychange', onHide)
    if (status === 401 || status === 403) return authorize()
    if (document.hidden) continue
    setOnline(false)
    await new Promise((done) => setTimeout(done, reconnectIntervalMs))
  }
}

function setOnline(isOnline: boolean) {
  if (app) app.isOnline = isOnline
  const live = byId('live')
  live.classList.toggle('is-live', isOnline)
  setText(live, isOnline ? 'Live' : 'Reconnecting')
  offline?.remove()
  offline = isOnline ? undefined : addToast('The service does not respond. This page reconnects as soon as it is back.')
}

/** The message that the service does not respond; it stays until the service is back. */
let offline: HTMLElement | undefined

function addToast(text: string, action?: HTMLElement): HTMLElement {
  const toast = h('p.toast', h('span', text), action)
  byId('toasts').append(toast)
  return toast
}

/** Shows a message for some seconds; longer while the pointer or the focus is on it. */
const showToast: App['notify'] = (text, action) => {
  const run = async () => {
    toast.remove()
    await action?.run()
  }
  const toast = addToast(text, action && button(action.label, run))
  const expire = () => (toast.matches(':hover, :focus-within') ? setTimeout(expire, toastForMs) : toast.remove())
  setTimeout(expire, toastForMs)
  return () => toast.remove()
}

/** Shows a form for a token or a code: clients on other machines need one. */
function askForToken(message = '') {
  setText(byId('live'), 'Not authorised')
  const input = h('input', {
    autocomplete: 'off',
    autocapitalize: 'characters',
    spellcheck: 'false',
    enterkeyhint: 'go',
    class: 'mono code-field',
  })
  const error = h('p', { role: 'alert', class: 'error' }, message)
  const form = h(
    'form',
    {
      class: 'card stack token',
      async onsubmit(event) {
        event.preventDefault()
        error.textContent = await enter(input.value)
      },
    },
    h('h1', 'Open this page'),
    h('p', 'Enter the code that the view Connect shows where the service runs.'),
    field('Code or token', input),
    error,
    h('p', h('button.primary', 'Open')),
    h(
      'p.hint',
      withCode('A token that this command prints there is as good: `npx todo-service token --scope control`'),
    ),
  )
  views = undefined
  main.replaceChildren(h('div.view', form))
  input.focus()
}

const codePattern = /^\w{5}-?\w{5}$/

/** Uses a token, or exchanges a code for one. Returns an error message, which is empty after a success. */
async function enter(text: string): Promise<string> {
  // A token copied from a terminal may have line breaks in it.
  let token = text.replace(/^\s*Bearer +/i, '').replace(/\s+/g, '')
  if (codePattern.test(token)) {
    const response = await admin('POST', 'tokens', JSON.stringify({ code: token }))
    if (response.status !== 201) return messageOf(response)
    token = JSON.parse(response.text).token
  }
  useToken(token, true)
  const response = await admin('GET', 'info')
  const [, reason] = /error_description="([^"]*)"/.exec(response.headers.get('www-authenticate') ?? '') ?? []
  if (response.status === 401) return `The service rejects this token. ${reason ?? ''}`
  if (response.status === 403) return 'This token is not for this page: create it with --scope control.'
  if (response.status !== 200) return messageOf(response)
  follow()
  return ''
}

/** Removes the code from the address, such as `#/connect?code=K7M2P-XW9QD` of a QR code, because it works only once. */
function takeCode(): string {
  const [view, query] = location.hash.split('?')
  const parameters = new URLSearchParams(query)
  const code = parameters.get('code') ?? ''
  parameters.delete('code')
  if (code) history.replaceState(null, '', `${view}${parameters.size > 0 ? `?${parameters}` : ''}`)
  return code
}

let code = takeCode()

/** Uses the code from the address; asks for a token if there is none, or the code is rejected. */
async function authorize() {
  const sentCode = code
  code = ''
  const message = sentCode ? await enter(sentCode) : ''
  if (!sentCode || message) askForToken(message)
}

window.addEventListener('hashchange', () => {
  code = takeCode()
  if (code && main.querySelector('.token')) authorize()
  else route()
})

const keys = {
  '/': 'Filter the requests',
  '↓ ↑': 'Next or previous request',
  Home: 'Oldest request',
  End: 'Newest request',
  Enter: 'Open a request, save what is edited',
  Esc: 'Close a request, leave what is edited',
  '?': 'These keys',
}

function showKeys() {
  const texts = Object.entries(keys).flatMap(([key, text]) => [h('dt', h('kbd', key)), h('dd', text)])
  openDialog('Keys', [h('dl', texts)], 'Close')
}

byId('keys').addEventListener('click', showKeys)
document.addEventListener('keydown', ({ key, target }) => {
  const isTyping = target instanceof Element && target.matches('input:not([type=checkbox]), textarea, select')
  if (key === '?' && !isTyping && !document.querySelector('dialog[open]')) showKeys()
})

/** Renews the short-lived token from the service. After the page was hidden, `synchronize` gets a new one. */
setInterval(async () => {
  if (!app?.info.token || document.hidden) return
  const info = await read<Info>('info')
  if (info) useToken(info.token ?? '', false)
}, 20 * 60_000)

follow()
