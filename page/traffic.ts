import type { JournalEntry, Message } from '../src/control/schema.ts'
import { admin, baseUrl, messageOf } from './client.ts'
import { copyButton, download, h, perFrame, type SelectOption, select, setText, tabs, withCode } from './dom.ts'
import {
  clientName,
  describeStatus,
  formatBody,
  formatDuration,
  formatTime,
  outcomeClass,
  outcomeGroup,
  outcomeOf,
  preflight,
  toCSharp,
  toCurl,
  toFetch,
  toHar,
} from './format.ts'
import type { App, View } from './view.ts'

/** The service keeps as many. */
const maxEntries = 1000
const clockIntervalMs = 200
/** No request is pending for longer. An older one is from a service with another clock. */
const maxPendingMs = 600_000

const statusOptions: readonly SelectOption[] = [
  ['', 'Status'],
  ['2xx', '2xx'],
  ['3xx', '3xx'],
  ['4xx', '4xx'],
  ['5xx', '5xx'],
  ['pending', 'Pending'],
  ['none', 'No response'],
]
const methodOptions = ['', 'GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'].map(
  (name): SelectOption => [name, name || 'Method'],
)

interface TrafficRow {
  entry: JournalEntry
  /** When the request began, by the clock of this page. */
  startedAt: number
  /** Where it is one that is left out unless asked for. */
  own: string | undefined
  readonly row: HTMLElement
  readonly button: HTMLButtonElement
  duration: HTMLElement
}

const ownKinds: Partial<Record<string, string>> = { page: 'this page', command: 'commands' }
const ownKind = ({ path, request }: JournalEntry) =>
  ownKinds[request.headers['x-todo-client'] ?? ''] ?? (/^\/health\//i.test(path) ? 'health checks' : undefined)

const nameOfClient = ({ request: { headers }, client }: JournalEntry) =>
  ownKinds[headers['x-todo-client'] ?? ''] ?? clientName(headers['user-agent'], client)

/** The rule or preference that made the response. */
const simulatedBy = ({ reason = '' }: JournalEntry) => reason.replace(/^simulated by /, '')

const isPending = ({ entry }: TrafficRow) => entry.state === 'pending'
const elapsed = ({ entry, startedAt }: TrafficRow) =>
  entry.state === 'pending' ? Math.max(0, Date.now() - startedAt) : entry.milliseconds
const formatElapsed = (row: TrafficRow) =>
  isPending(row) ? `${(elapsed(row) / 1000).toFixed(1)} s` : formatDuration(row.entry.milliseconds)
/** Durations differ by orders of magnitude. */
const barLength = (milliseconds: number) => Math.log1p(milliseconds)

const noFilter = { text: '', status: '', method: '', client: '', rule: '', simulated: '' }

export function trafficView(app: App): View {
  const rows = new Map<number, TrafficRow>()
  /** Oldest first. */
  let shown: TrafficRow[] = []
  let isPaused = false
  let opened: TrafficRow | undefined
  let parameters = { ...noFilter, own: '', open: '' }
  let timer: ReturnType<typeof setInterval> | undefined
  /** What the details show, for the next request too. */
  const look: Look = { part: undefined, unfolded: new Set() }

  const text = h('input', {
    type: 'search',
    placeholder: 'Filter: path, body, reason',
    'aria-label': 'Filter by text',
    'aria-keyshortcuts': '/',
    oninput: filter,
    onkeydown: (event) => event.key === 'ArrowDown' && moveFocus(event),
  })
  const filterSelect = (name: string, options: readonly SelectOption[]) =>
    select({ 'aria-label': `Filter by ${name}`, onchange: filter }, options)
  const status = filterSelect('status', statusOptions)
  const method = filterSelect('method', methodOptions)
  const client = filterSelect('client', [['', 'Client']])
  const rule = filterSelect('rule', [['', 'Rule broken']])
  const simulated = h('input', { type: 'checkbox', onchange: filter })
  const own = h('input', { type: 'checkbox', onchange: filter })
  const hiddenCount = h('span', { class: 'count' })
  const filters = h(
    'button',
    { type: 'button', class: 'filters', 'aria-expanded': 'false', onclick: unfold },
    'Filters',
  )
  const pause = h('button', { type: 'button', 'aria-pressed': 'false', onclick: togglePause }, 'Pause')
  const count = h('p', { class: 'count' })
  const list = h('ul', { class: 'rows', 'aria-label': 'Requests, newest last', onkeydown: moveFocus, onclick: openRow })
  const empty = h('div', { class: 'empty stack' })
  const scroller = h('div', { class: 'scroller' }, list, empty)
  const heads = ['Time', 'Method', 'Path', 'Status', 'Duration', 'Client']
  const head = h(
    'div',
    { class: 'row head', 'aria-hidden': 'true' },
    heads.map((name) => h('span', { class: `of-${name.toLowerCase()}` }, name)),
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
      filters,
      h('div', { class: 'line choices' }, status, method, client, rule, h('label', {}, simulated, 'Simulated, slowed')),
      h(
        'div',
        { class: 'line actions' },
        pause,
        h('button', { type: 'button', onclick: clearAll }, 'Clear'),
        h('button', { type: 'button', title: 'The requests that are shown', onclick: saveHar }, 'Save as HAR'),
      ),
      h('div', { class: 'line counts' }, count, h('label', {}, own, 'Show own requests'), hiddenCount),
    ),
    h('div', { class: 'split' }, h('div', { class: 'table' }, head, scroller), details),
  )
  document.addEventListener('keydown', (event) => {
    if (element.hidden || event.defaultPrevented || document.querySelector('dialog[open]')) return
    const { activeElement } = document
    // There, Escape empties the field.
    if (event.key === 'Escape' && opened && !(activeElement === text && text.value)) close()
    if (event.key !== '/' || activeElement?.matches('input:not([type=checkbox]), textarea, select')) return
    event.preventDefault()
    text.focus()
  })

  const update = perFrame(() => {
    const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40
    shown = shown.filter(isKept)
    if (!isPaused) {
      for (const [id, entry] of app.entries) if (!rows.has(id)) add(entry)
      if (opened && !shown.includes(opened)) close()
    }
    showState()
    if (isAtEnd) scroller.scrollTop = scroller.scrollHeight
    if (parameters.open && opened?.entry.id !== Number(parameters.open)) open(Number(parameters.open))
  })

  /** Shows the entry as it is now. Tells whether to keep its row: not where the service has forgotten it. */
  function isKept(row: TrafficRow): boolean {
    const entry = app.entries.get(row.entry.id)
    if (entry === row.entry) return true
    if (entry?.time === row.entry.time) {
      fill(row, entry)
      if (row === opened) showDetails()
      return true
    }
    // Nobody will say how a pending one has ended.
    if (isPaused && !isPending(row)) return true
    rows.delete(row.entry.id)
    row.row.remove()
    return false
  }

  /** Entries come in the order of events: a request may end before an older one is announced. */
  function add(entry: JournalEntry) {
    const button = h('button', { type: 'button', tabindex: '-1', 'data-id': entry.id })
    const age = Date.now() - Date.parse(entry.time)
    const startedAt = Date.now() - (age >= 0 && age < maxPendingMs ? age : 0)
    const row: TrafficRow = {
      entry,
      startedAt,
      own: ownKind(entry),
      row: h('li', {}, button),
      button,
      duration: button,
    }
    fill(row, entry)
    const index = 1 + shown.findLastIndex((one) => one.entry.id < entry.id)
    list.insertBefore(row.row, shown[index]?.row ?? null)
    shown.splice(index, 0, row)
    rows.set(entry.id, row)
    addOption(client, nameOfClient(entry))
  }

  /** The button stays: it may have the focus. */
  function fill(row: TrafficRow, entry: JournalEntry) {
    const { time, method, path, query, reason, fault, rules, isSimulated, isPreflight, state } = entry
    row.entry = entry
    row.duration = h('span', {}, formatElapsed(row))
    const note = isSimulated ? simulatedBy(entry) : (reason ?? fault)
    row.button.className = `row ${outcomeClass(entry)}`
    row.button.replaceChildren(
      h('span', { class: 'of-time' }, formatTime(time)),
      h('span', { class: `method ${method.toLowerCase()}` }, method),
      h(
        'span',
        { class: 'of-path' },
        h('b', {}, `${path}${query}`),
        (note || isPreflight) &&
          h(
            'i',
            {},
            isPreflight && h('span', { class: 'badge' }, preflight),
            isSimulated
              ? h('span', { class: 'badge simulated' }, 'simulated')
              : fault && state !== 'aborted' && h('span', { class: 'badge warning' }, 'slowed'),
            rules.length > 0 && h('span', { class: 'cited' }, rules.join(' ')),
            note,
          ),
      ),
      h('span', { class: 'of-status' }, outcomeOf(entry)),
      h('span', { class: 'of-duration' }, h('span', { class: 'took' }), row.duration),
      h('span', { class: 'of-client' }, nameOfClient(entry)),
    )
    row.button.style.setProperty('--length', `${barLength(elapsed(row))}`)
    for (const id of rules) addOption(rule, id)
    row.row.hidden = !matches(row)
  }

  function showState() {
    const visible = shown.filter(({ row }) => !row.hidden)
    const isIncluded = (kind: string | undefined) => parameters.own !== '' || kind === undefined
    const total = shown.filter((one) => isIncluded(one.own)).length
    const added = isPaused
      ? [...app.entries.values()].filter((one) => !rows.has(one.id) && isIncluded(ownKind(one))).length
      : 0
    setText(
      count,
      `${visible.length === total ? total : `${visible.length} of ${total}`} ${total === 1 ? 'request' : 'requests'}${added > 0 ? `, ${added} new` : ''}`,
    )
    const kinds = shown.flatMap((one) => (isIncluded(one.own) ? [] : (one.own ?? [])))
    setText(hiddenCount, kinds.length > 0 ? `${kinds.length} hidden: ${[...new Set(kinds)].join(', ')}` : '')
    empty.hidden = visible.length > 0
    if (visible.length === 0) showEmpty(total > 0)
    const stop = list.querySelector('[tabindex="0"]')
    if (!stop?.parentElement || stop.parentElement.hidden) if (visible[0]) focusable(visible[0].button)
    showTimes()
  }

  function showEmpty(isFiltered: boolean) {
    if (empty.dataset.filtered === `${isFiltered}`) return
    empty.dataset.filtered = `${isFiltered}`
    const command = `curl -i ${baseUrl}/api/todoitems`
    empty.replaceChildren(
      ...(isFiltered
        ? [
            h('p', {}, 'No request matches the filter.'),
            h('p', {}, h('button', { type: 'button', onclick: removeFilter }, 'Remove the filter')),
          ]
        : [
            h('h2', {}, 'No requests yet'),
            h('p', {}, 'Send one from your client or a terminal, and it appears here at once.'),
            h(
              'div',
              { class: 'copyable' },
              h('code', {}, command),
              copyButton('Copy', () => command, { class: 'small' }),
            ),
          ]),
    )
  }

  /** The clock runs while there is a pending request to look at. */
  function showTimes() {
    let slowest = 0
    let hasPending = false
    for (const row of shown) {
      if (row.row.hidden && row !== opened) continue
      const milliseconds = elapsed(row)
      slowest = Math.max(slowest, milliseconds)
      if (!isPending(row)) continue
      hasPending = true
      setText(row.duration, formatElapsed(row))
      row.button.style.setProperty('--length', `${barLength(milliseconds)}`)
      const badge = row === opened && details.querySelector<HTMLElement>('.outcome')
      if (badge) setText(badge, describeOutcome(row))
    }
    // Each change of it is one of the style of all rows.
    const longest = (Math.ceil(10 * barLength(slowest)) / 10 || 1).toFixed(1)
    if (list.style.getPropertyValue('--longest') !== longest) list.style.setProperty('--longest', longest)
    if (hasPending && !element.hidden && !document.hidden) timer ??= setInterval(tick, clockIntervalMs)
    else stopClock()
  }

  /** Without the service, nobody knows what becomes of a request. */
  function tick() {
    if (element.hidden || document.hidden) stopClock()
    else if (app.isOnline) showTimes()
  }

  function stopClock() {
    clearInterval(timer)
    timer = undefined
  }

  const matches = ({ entry, own, button }: TrafficRow) =>
    (parameters.own !== '' || own === undefined) &&
    (parameters.method === '' || entry.method === parameters.method) &&
    (parameters.status === '' || outcomeGroup(entry) === parameters.status) &&
    (parameters.client === '' || nameOfClient(entry) === parameters.client) &&
    (parameters.rule === '' || entry.rules.includes(parameters.rule)) &&
    (parameters.simulated === '' || entry.fault !== undefined) &&
    (parameters.text === '' || searched(entry, button).includes(parameters.text.toLowerCase()))

  const searched = ({ request, response, client }: JournalEntry, button: HTMLElement) =>
    [button.textContent, request.body, response.body, client].join('\n').toLowerCase()

  function filter() {
    setFilter({
      text: text.value,
      status: status.value,
      method: method.value,
      client: client.value,
      rule: rule.value,
      simulated: simulated.checked ? '1' : '',
      own: own.checked ? '1' : '',
    })
  }

  function setFilter(given: Partial<typeof parameters>) {
    parameters = { ...parameters, ...noFilter, ...given }
    if (text.value !== parameters.text) text.value = parameters.text
    for (const [field, value] of [
      [status, parameters.status],
      [method, parameters.method],
      [client, parameters.client],
      [rule, parameters.rule],
    ] as const) {
      addOption(field, value)
      field.value = value
    }
    simulated.checked = parameters.simulated !== ''
    own.checked = parameters.own !== ''
    const { status: s, method: m, client: c, rule: r, simulated: x } = parameters
    const set = [s, m, c, r, x].filter(Boolean).length
    setText(filters, set > 0 ? `Filters (${set})` : 'Filters')
    app.setParameters('traffic', parameters)
    for (const one of shown) one.row.hidden = !matches(one)
    showState()
  }

  function removeFilter() {
    setFilter({})
    text.focus()
  }

  function unfold() {
    const isUnfolded = element.classList.toggle('has-filters')
    filters.setAttribute('aria-expanded', `${isUnfolded}`)
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
    else if (isPaused) {
      list.replaceChildren()
      rows.clear()
      shown = []
      if (opened) close()
      update()
    }
  }

  function saveHar() {
    const entries = shown.filter(({ row }) => !row.hidden).map(({ entry }) => entry)
    const har = toHar(baseUrl, app.info.version, entries)
    download('traffic.har', JSON.stringify(har, null, 2), 'application/json')
  }

  function openRow({ target }: Event) {
    const button = target instanceof Element && target.closest('button')
    if (!button) return
    open(Number(button.dataset.id))
    // On a narrow screen the details take the place of the list.
    if (list.offsetParent === null) details.querySelector('button')?.focus()
  }

  function open(id: number) {
    const found = rows.get(id)
    if (!found) return
    opened?.button.removeAttribute('aria-current')
    opened = found
    focusable(found.button)
    found.button.setAttribute('aria-current', 'true')
    showDetails()
    details.setAttribute('aria-label', `Request ${id}`)
    details.hidden = false
    details.scrollTop = 0
    element.classList.add('has-details')
    found.button.scrollIntoView({ block: 'nearest' })
    parameters.open = `${id}`
    app.setParameters('traffic', parameters)
    showTimes()
  }

  function showDetails() {
    if (!opened) return
    const focused = [...details.querySelectorAll('button, a, summary')].indexOf(document.activeElement as Element)
    details.replaceChildren(...detailsOf(opened, app, look, close))
    if (focused >= 0) details.querySelectorAll<HTMLElement>('button, a, summary')[focused]?.focus()
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
      parameters.own = ''
      setFilter({ open: '', ...given })
      if (parameters.open) open(Number(parameters.open))
      else if (opened) close()
      scroller.scrollTop = scroller.scrollHeight
    },
    entriesChanged: update,
  }
}

function addOption(field: HTMLSelectElement, value: string) {
  if (![...field.options].some((option) => option.value === value)) field.append(h('option', { value }, value))
}

interface Look {
  /** The chosen one, where there is room for one of them. */
  part: string | undefined
  /** The parts with all headers. */
  readonly unfolded: Set<string>
}

function describeOutcome(row: TrafficRow): string {
  const { state, status, milliseconds } = row.entry
  if (state === 'sent') return describeStatus(status)
  if (state === 'pending') return `Pending for ${formatElapsed(row)}`
  return state === 'aborted' ? `Client left after ${formatDuration(milliseconds)}` : 'Connection closed'
}

function detailsOf(row: TrafficRow, app: App, look: Look, close: () => void): HTMLElement[] {
  const { entry } = row
  const { method, path, query, status, state, request, response, rules, met, errors, reason, fault, item } = entry
  const operation = app.info.operations.find(
    (one) => one.method === method && new RegExp(`^${one.path.replace('{id}', '[^/]+')}/?$`, 'i').test(path),
  )
  const isSecured = operation?.secured === true && status !== 401
  const sent = { method, path, query, headers: request.headers, body: request.body }
  const copyAs = (name: string, format: typeof toCurl) =>
    copyButton(name, () => format(baseUrl, sent, isSecured), { class: 'small', 'aria-label': `Copy as ${name}` })
  const shownPart = look.part ?? (request.body ? 'Request' : 'Response')
  const exchange = h(
    'div',
    { class: 'sides', 'data-part': shownPart },
    partOf('Request', request, look, noBody(request)),
    partOf('Response', response, look, noResponse(entry)),
  )
  const choice = tabs(
    'Part',
    [
      ['Request', 'Request'],
      ['Response', 'Response'],
    ],
    (part) => {
      look.part = part
      exchange.dataset.part = part
      choice.choose(part)
    },
  )
  choice.choose(shownPart)
  return [
    h(
      'div',
      { class: 'detail-head' },
      h('h2', {}, h('span', { class: `method ${method.toLowerCase()}` }, method), ` ${path}${query}`),
      h('button', { type: 'button', class: 'quiet small', 'aria-label': 'Close', onclick: close }, '✕'),
    ),
    h(
      'p',
      { class: 'line facts' },
      h('strong', { class: `badge outcome ${outcomeClass(entry)}` }, describeOutcome(row)),
      entry.isPreflight && h('span', { class: 'badge' }, preflight),
      entry.isSimulated && h('span', { class: 'badge simulated' }, 'simulated'),
      h(
        'span',
        {},
        state === 'pending'
          ? formatTime(entry.time)
          : `${formatTime(entry.time)}, ${formatDuration(entry.milliseconds)}`,
      ),
      h('span', {}, `${nameOfClient(entry)} at ${entry.client}`),
      item &&
        (item.change === 'deleted'
          ? h('span', {}, `item ${item.id} deleted`)
          : h('a', { href: `#/items?id=${encodeURIComponent(item.id)}` }, `item ${item.id} ${item.change}`)),
    ),
    h(
      'div',
      { class: 'line' },
      h('span', { class: 'hint' }, 'Copy as'),
      copyAs('curl', toCurl),
      copyAs('fetch', toFetch),
      copyAs('C#', toCSharp),
      request.isTruncated &&
        h('span', { class: 'hint' }, 'The body is longer: the journal, and so this, has its first 16 KiB.'),
    ),
    entry.isSimulated
      ? simulation(entry)
      : fault && h('div', { class: 'callout warning' }, h('h3', {}, 'Switched on'), h('p', {}, fault)),
    !entry.isSimulated && (reason || errors || rules.length > 0) && wrongWith(entry, app),
    choice.element,
    exchange,
    met.length > 0 &&
      h(
        'p',
        { class: 'hint' },
        'Rules of the contract that this shows: ',
        met.flatMap((id, index) => [index > 0 && ', ', h('a', { href: `#/contract?rule=${id}` }, id)]),
      ),
  ].filter((part) => part instanceof HTMLElement)
}

/** A request that is rejected by its head is not read further. */
function noBody({ body, headers }: Message): string {
  if (body) return ''
  const length = headers['content-length'] ?? '0'
  if (length === '0' && !headers['transfer-encoding']) return 'No body.'
  return `The service did not keep the body${length === '0' ? '' : `, ${length} bytes`}: copies are without it.`
}

const noResponse = ({ state, response }: JournalEntry) =>
  state === 'pending'
    ? 'None so far.'
    : state === 'sent'
      ? response.body
        ? ''
        : 'No body.'
      : state === 'aborted'
        ? 'The client did not wait for it.'
        : 'None: the connection was closed.'

function simulation(entry: JournalEntry): HTMLElement {
  const by = simulatedBy(entry)
  return h(
    'div',
    { class: 'callout simulated' },
    h('h3', {}, 'Simulated'),
    h('p', {}, 'What the client got was decided by ', h('code', {}, by), ', not by its request.'),
    entry.fault && !by.startsWith(entry.fault) && h('p', {}, 'Switched on: ', entry.fault),
    !by.startsWith('Prefer') && h('p', {}, h('a', { href: '#/switches' }, 'Show the switches')),
  )
}

function wrongWith({ reason, errors = {}, rules, state }: JournalEntry, app: App): HTMLElement {
  const members = Object.entries(errors)
  return h(
    'div',
    { class: 'callout error' },
    h('h3', {}, state === 'sent' ? 'What was wrong' : 'What happened'),
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
    rules.map((id) => {
      const { basis, sentence = '' } = app.info.rules.find((one) => one.id === id) ?? {}
      return h(
        'p',
        { class: 'hint' },
        h('a', { href: `#/contract?rule=${id}` }, `Rule ${id}`),
        basis === 'spec' ? ' (specified): ' : ' (our choice): ',
        withCode(sentence),
      )
    }),
  )
}

/** Those that most often explain a response. */
const tellingHeader =
  /^(?:content-type|location|etag|prefer|preference-applied|retry-after|allow|www-authenticate|if-(?:none-)?match|origin|access-control-.*|x-todo-.*|x-forwarded-.*)$/

function partOf(part: string, { headers, body, isTruncated }: Message, look: Look, remark: string): HTMLElement {
  const all = Object.entries(headers)
  const telling = all.filter(([name]) => tellingHeader.test(name))
  const block = body ? formatBody(body) : h('p', { class: 'hint' }, remark)
  if (body) block.setAttribute('aria-label', `Body of the ${part.toLowerCase()}`)
  if (isTruncated) block.append('…')
  const unfold: HTMLDetailsElement = h(
    'details',
    {
      ontoggle: () => (unfold.open ? look.unfolded.add(part) : look.unfolded.delete(part)),
    },
    h('summary', {}, `All ${all.length} headers`),
    headersTable(all),
  )
  unfold.open = look.unfolded.has(part)
  return h(
    'section',
    { class: 'side', 'aria-label': part, 'data-part': part },
    h('h3', {}, part),
    block,
    telling.length > 0 && headersTable(telling),
    all.length > telling.length && unfold,
  )
}

const headersTable = (headers: readonly (readonly [string, string])[]) =>
  h(
    'table',
    { class: 'headers' },
    h(
      'tbody',
      {},
      headers.map(([name, value]) => h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, value))),
    ),
  )
