import type { JournalEntry, Message } from '../src/control/schema.ts'
import { admin, base, messageOf } from './client.ts'
import { copyButton, h, type Option, perFrame, select, setText, withCode } from './dom.ts'
import { clientName, describeStatus, formatBody, formatDuration, formatTime, statusClass, toCurl } from './format.ts'
import type { App, View } from './view.ts'

/** As many as the service keeps. */
const maxEntries = 1000

const statusOptions: readonly Option[] = [
  ['', 'Status'],
  ['2xx', '2xx'],
  ['3xx', '3xx'],
  ['4xx', '4xx'],
  ['5xx', '5xx'],
  ['none', 'No response'],
]
const methodOptions = ['', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS'].map(
  (name): Option => [name, name || 'Method'],
)

interface Row {
  readonly entry: JournalEntry
  readonly row: HTMLElement
  readonly button: HTMLButtonElement
}

export function trafficView(app: App): View {
  /** Oldest first. */
  let shown: Row[] = []
  let isPaused = false
  let opened: Row | undefined
  let parameters = { text: '', status: '', method: '', open: '' }

  const text = h('input', {
    type: 'search',
    placeholder: 'Filter: path, body, client',
    'aria-label': 'Filter by text',
    oninput: filter,
  })
  const status = select({ 'aria-label': 'Filter by status', onchange: filter }, statusOptions)
  const method = select({ 'aria-label': 'Filter by method', onchange: filter }, methodOptions)
  const pause = h('button', { type: 'button', 'aria-pressed': 'false', onclick: togglePause }, 'Pause')
  const clear = h('button', { type: 'button', onclick: clearAll }, 'Clear')
  const count = h('p', { class: 'count' })
  const list = h('ul', { class: 'rows', 'aria-label': 'Requests, newest last', onkeydown: moveFocus, onclick: openRow })
  const empty = h('p', { class: 'empty' })
  const scroller = h('div', { class: 'scroller' }, list, empty)
  const heads = ['Time', 'Method', 'Path', 'Status', 'Duration', 'Client']
  const head = h(
    'div',
    { class: 'row head', 'aria-hidden': 'true' },
    heads.map((name) => h('span', { class: name.toLowerCase() }, name)),
  )
  const details = h('section', { class: 'details', hidden: true })
  const element = h(
    'section',
    { class: 'view traffic', 'aria-label': 'Traffic' },
    h('h1', { class: 'offscreen' }, 'Traffic'),
    h(
      'div',
      { class: 'toolbar', role: 'group', 'aria-label': 'Filter and control' },
      text,
      status,
      method,
      pause,
      clear,
      count,
    ),
    h('div', { class: 'split' }, h('div', { class: 'table' }, head, scroller), details),
  )
  document.addEventListener('keydown', (event) => {
    if (element.hidden) return
    if (event.key === 'Escape' && opened) close()
    if (event.key !== '/' || /^(?:INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? '')) return
    event.preventDefault()
    text.focus()
  })

  const update = perFrame(() => {
    const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40
    if (!isPaused) {
      shown = shown.flatMap(current)
      const lastId = shown.at(-1)?.entry.id ?? 0
      const added = [...app.entries.values()].filter(({ id }) => id > lastId).map(createRow)
      list.append(...added.map(({ row }) => row))
      shown.push(...added)
      if (opened && !shown.includes(opened)) close()
      if (!list.querySelector('[tabindex="0"]')) list.querySelector('button')?.setAttribute('tabindex', '0')
      if (isAtEnd) scroller.scrollTop = scroller.scrollHeight
    }
    showCounts()
    if (parameters.open && opened?.entry.id !== Number(parameters.open)) open(Number(parameters.open))
  })

  /** The row of the entry as it is now; none where the service has forgotten it. */
  function current(one: Row): Row[] {
    const entry = app.entries.get(one.entry.id)
    if (entry === one.entry) return [one]
    if (!entry || entry.time !== one.entry.time) {
      one.row.remove()
      return []
    }
    const changed = createRow(entry)
    one.row.replaceWith(changed.row)
    if (one === opened) opened = changed
    return [changed]
  }

  function showCounts() {
    const visible = shown.filter(({ row }) => !row.hidden).length
    const newCount = isPaused ? [...app.entries.keys()].filter((id) => id > (shown.at(-1)?.entry.id ?? 0)).length : 0
    const waiting = newCount > 0 ? `, ${newCount} new` : ''
    setText(
      count,
      `${visible === shown.length ? visible : `${visible} of ${shown.length}`} ${shown.length === 1 ? 'request' : 'requests'}${waiting}`,
    )
    empty.hidden = visible > 0
    setText(
      empty,
      shown.length > 0 ? 'No request matches the filter.' : 'No requests yet. Send one, and it appears here:',
    )
    if (shown.length === 0) empty.append(h('code', {}, `curl ${new URL('api/todoitems', base)}`))
  }

  function createRow(entry: JournalEntry): Row {
    const { id, time, method, path, query, status, milliseconds, client, request, reason, fault } = entry
    const button = h(
      'button',
      { type: 'button', class: `row s${statusClass(status)}`, tabindex: '-1', 'data-id': id },
      h('span', { class: 'time' }, formatTime(time)),
      h('span', { class: 'method' }, method),
      h('span', { class: 'path' }, h('b', {}, `${path}${query}`), (reason ?? fault) && h('i', {}, reason ?? fault)),
      h(
        'span',
        { class: 'status' },
        status ? `${status}` : 'none',
        fault && h('span', { class: 'mark', title: fault }, ' ⚡'),
      ),
      h('span', { class: 'duration' }, formatDuration(milliseconds)),
      h('span', { class: 'client' }, clientName(request.headers['user-agent'], client)),
    )
    const created = { entry, row: h('li', {}, button), button }
    created.row.hidden = !matches(created)
    return created
  }

  const matches = ({ entry, row }: Row) =>
    (parameters.method === '' || entry.method === parameters.method) &&
    (parameters.status === '' || statusClass(entry.status) === parameters.status) &&
    (parameters.text === '' || searched(entry, row).includes(parameters.text.toLowerCase()))

  const searched = ({ request, response, client }: JournalEntry, row: HTMLElement) =>
    [row.textContent, request.body, response.body, client].join('\n').toLowerCase()

  function filter() {
    parameters = { ...parameters, text: text.value, status: status.value, method: method.value }
    app.setParameters('traffic', parameters)
    for (const one of shown) one.row.hidden = !matches(one)
    showCounts()
  }

  function togglePause() {
    isPaused = !isPaused
    pause.setAttribute('aria-pressed', `${isPaused}`)
    setText(pause, isPaused ? 'Resume' : 'Pause')
    update()
  }

  async function clearAll() {
    const response = await admin('DELETE', 'requests')
    if (response.status !== 204) app.notify(messageOf(response))
  }

  function openRow({ target }: Event) {
    const button = target instanceof Element && target.closest('button')
    if (!button) return
    open(Number(button.dataset.id))
    // On a narrow screen the details take the place of the list.
    if (list.offsetParent === null) details.querySelector('button')?.focus()
  }

  function open(id: number) {
    const found = shown.find(({ entry }) => entry.id === id)
    if (!found) return
    opened?.button.removeAttribute('aria-current')
    opened = found
    focusable(found.button)
    found.button.setAttribute('aria-current', 'true')
    details.replaceChildren(...detailsOf(found.entry, app, close))
    details.setAttribute('aria-label', `Request ${id}`)
    details.hidden = false
    details.scrollTop = 0
    element.classList.add('has-details')
    parameters.open = `${id}`
    app.setParameters('traffic', parameters)
  }

  function close() {
    const closed = opened
    closed?.button.removeAttribute('aria-current')
    opened = undefined
    details.hidden = true
    element.classList.remove('has-details')
    parameters.open = ''
    app.setParameters('traffic', parameters)
    closed?.button.focus()
  }

  /** One stop for the tab key in the whole list. */
  function focusable(button: HTMLButtonElement) {
    list.querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1')
    button.setAttribute('tabindex', '0')
  }

  const steps: Partial<Record<string, number>> = {
    ArrowDown: 1,
    ArrowUp: -1,
    Home: -maxEntries,
    End: maxEntries,
    PageDown: 10,
    PageUp: -10,
  }
  function moveFocus(event: KeyboardEvent) {
    const step = steps[event.key]
    if (step === undefined) return
    event.preventDefault()
    const visible = shown.filter(({ row }) => !row.hidden)
    const at = visible.findIndex(({ row }) => row.contains(document.activeElement))
    const target = visible[Math.max(0, Math.min(visible.length - 1, at + step))]
    if (!target) return
    focusable(target.button)
    target.button.focus()
    if (opened) open(target.entry.id)
  }

  return {
    title: 'Traffic',
    element,
    show(given) {
      parameters = { text: '', status: '', method: '', open: '', ...given }
      text.value = parameters.text
      status.value = parameters.status
      method.value = parameters.method
      filter()
      if (parameters.open) open(Number(parameters.open))
      else if (opened) close()
      scroller.scrollTop = scroller.scrollHeight
    },
    entriesChanged: update,
  }
}

function detailsOf(entry: JournalEntry, app: App, close: () => void): HTMLElement[] {
  const { method, path, query, status, request, response, rules, errors, reason, fault, item } = entry
  const operation = app.info.operations.find(
    (one) => one.method === method && new RegExp(`^${one.path.replace('{id}', '[^/]+')}/?$`, 'i').test(path),
  )
  const isSecured = operation?.secured === true && status !== 401
  const origin = `${base}`.replace(/\/$/, '')
  const curl = () => toCurl(origin, { method, path, query, headers: request.headers, body: request.body }, isSecured)
  return [
    h(
      'div',
      { class: 'detail-head' },
      h('h2', {}, `${method} ${path}${query}`),
      h('button', { type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: close }, '✕'),
    ),
    h(
      'p',
      { class: 'facts' },
      h('strong', { class: `badge s${statusClass(status)}` }, describeStatus(status)),
      h('span', {}, `${formatTime(entry.time)}, ${formatDuration(entry.milliseconds)}`),
      h('span', {}, `from ${entry.client}`),
      item && h('span', {}, `item ${item.id} ${item.change}`),
    ),
    h('p', {}, copyButton('Copy as curl', curl)),
    request.isTruncated &&
      h('p', { class: 'hint' }, 'The body is longer: the journal, and so this command, has its first 16 KiB.'),
    fault && h('div', { class: 'callout warning' }, h('h3', {}, 'Switched on'), h('p', {}, fault)),
    (reason || errors || rules.length > 0) && wrongWith(entry, app),
    h('h3', {}, 'Request'),
    headersTable(request.headers),
    bodyOf(request),
    h('h3', {}, 'Response'),
    status ? headersTable(response.headers) : h('p', { class: 'hint' }, 'None: the connection was closed.'),
    bodyOf(response),
  ].filter((part) => part instanceof HTMLElement)
}

function wrongWith({ reason, errors = {}, rules, status }: JournalEntry, app: App): HTMLElement {
  const found = app.info.rules.filter(({ id }) => rules.includes(id))
  const members = Object.entries(errors)
  return h(
    'div',
    { class: Number(status) >= 400 ? 'callout error' : 'callout' },
    h('h3', {}, 'What was wrong'),
    reason && members.length === 0 && h('p', {}, reason),
    members.length > 0 &&
      h(
        'dl',
        { class: 'members' },
        members.flatMap(([name, messages]) => [
          h('dt', {}, h('code', {}, name || 'body')),
          h('dd', {}, messages.join(' ')),
        ]),
      ),
    found.map(({ id, basis, sentence }) =>
      h(
        'p',
        { class: 'rule' },
        h('a', { href: `#/contract?rule=${id}` }, `Rule ${id}`),
        basis === 'spec' ? ' (specified): ' : ' (our choice): ',
        withCode(sentence),
      ),
    ),
  )
}

const headersTable = (headers: Message['headers']) =>
  h(
    'table',
    { class: 'headers' },
    h(
      'tbody',
      {},
      Object.entries(headers).map(([name, value]) => h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, value))),
    ),
  )

function bodyOf({ body, isTruncated }: Message): HTMLElement | undefined {
  if (body === null || body === '') return undefined
  const block = formatBody(body)
  block.setAttribute('aria-label', 'Body')
  if (isTruncated) block.append('…')
  return block
}
