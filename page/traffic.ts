import type { ActiveFault, JournalEntry, Message } from '../src/control/schema.ts'
import { admin, baseUrl, currentToken, maxEntries, messageOf, originOf } from './client.ts'
import {
  button,
  copyButton,
  copyLine,
  download,
  field,
  h,
  named,
  type Options,
  openDialog,
  select,
  setText,
  tabs,
  VirtualList,
  withCode,
} from './dom.ts'
import {
  counted,
  describeStatus,
  formatBody,
  formatCount,
  formatDuration,
  formatExactTime,
  methodMark,
  outcomeClass,
  outcomeGroup,
  outcomeOf,
  preflight,
  programName,
  repeatedHeaders,
  toCSharp,
  toCurl,
  toFetch,
  toHar,
} from './format.ts'
import type { App, View } from './view.ts'

const clockIntervalMs = 200
/** No request is pending for longer: if one seems to be, the clock of the service differs from that of the page. */
const maxPendingMs = 600_000

const ownKinds: Partial<Record<string, string>> = { page: 'this page', command: 'commands' }
const ownClient = ({ request }: JournalEntry) => ownKinds[request.headers['x-todo-client'] ?? '']
/** The kind of a request that is hidden by default; undefined for a request of a client. */
const ownKind = (entry: JournalEntry) =>
  ownClient(entry) ?? (/^\/health\//i.test(entry.path) ? 'health checks' : undefined)

function clientName(entry: JournalEntry): string {
  const userAgent = entry.request.headers['user-agent']
  return ownClient(entry) ?? (userAgent ? programName(userAgent) : entry.client)
}

/** Returns the fault or preference that caused the response. */
const simulatedBy = ({ reason = '' }: JournalEntry) => reason.replace(/^simulated by /, '')

/** A row of the list. Its button is kept when the entry changes, because it may have the focus. */
class RequestRow {
  entry: JournalEntry
  readonly own: string | undefined
  /** Whether the request matches the filter. */
  isShown = false
  readonly button = h('button', { type: 'button', tabindex: '-1' })
  readonly #element = h('li', this.button)
  readonly #duration = h('span.of-duration')
  /** When the request began, by the clock of the service; `#startedAt` is the same by the clock of the page. */
  readonly begin: number
  readonly #startedAt: number
  /** The entry that the element shows. */
  #drawn: JournalEntry | undefined

  constructor(entry: JournalEntry) {
    this.begin = Date.parse(entry.time)
    const age = Date.now() - this.begin
    this.#startedAt = Date.now() - (age >= 0 && age < maxPendingMs ? age : 0)
    this.entry = entry
    this.own = ownKind(entry)
    this.button.dataset.id = `${entry.id}`
  }

  get isPending(): boolean {
    return this.entry.state === 'pending'
  }

  get elapsed(): number {
    return this.isPending ? Math.max(0, Date.now() - this.#startedAt) : this.entry.milliseconds
  }

  formatElapsed(): string {
    return this.isPending ? `${(this.elapsed / 1000).toFixed(1)} s` : formatDuration(this.entry.milliseconds)
  }

  /** The text that the filter searches. */
  get text(): string {
    const { method, path, query, request, response, client } = this.entry
    const note = noteOf(this.entry)?.textContent
    return [`${method} ${path}${query}`, outcomeOf(this.entry), note, clientName(this.entry), client]
      .concat(request.body ?? '', response.body ?? '')
      .join('\n')
  }

  /** The element, drawn again if the entry has changed. */
  get element(): HTMLElement {
    const { entry } = this
    if (this.#drawn !== entry) {
      this.#drawn = entry
      const isWrong = (entry.rules.length > 0 || entry.blockedOrigin !== undefined) && !entry.isSimulated
      this.button.className = `row ${outcomeClass(entry)}${isWrong ? ' is-wrong' : ''}`
      this.button.replaceChildren(
        h('span.of-time', formatExactTime(entry.time)),
        methodMark(entry.method),
        h('b', `${entry.path}${entry.query}`),
        noteOf(entry) ?? h('i'),
        h('span.of-status', outcomeOf(entry)),
        this.#duration,
        h('span.of-client', clientName(entry)),
      )
      this.showElapsed()
    }
    return this.#element
  }

  showElapsed(): void {
    setText(this.#duration, this.formatElapsed())
  }
}

const marksOf = ({ isPreflight, isSimulated, blockedOrigin }: JournalEntry) => [
  blockedOrigin !== undefined && h('span.badge.none', 'blocked by CORS'),
  isPreflight && h('span.badge', preflight),
  isSimulated && h('span.badge.simulated', 'simulated'),
]

/** Explains an entry: its reason, the fault that was applied, the rules that it broke. */
function noteOf(entry: JournalEntry): HTMLElement | undefined {
  const { reason, fault, rules, isSimulated, isPreflight, state } = entry
  const note = isSimulated ? simulatedBy(entry) : (reason ?? fault)
  if (!note && !isPreflight) return undefined
  const isSlowed = !isSimulated && fault && state !== 'aborted'
  return h(
    'i',
    marksOf(entry),
    isSlowed && h('span.badge.warning', 'slowed'),
    rules.length > 0 && h('span.cited', rules.join(' ')),
    note,
  )
}

const filterSelect = (name: string, title: string, options: Options = {}) =>
  select({ 'aria-label': `Filter by ${name}` }, { '': title, ...options })
const statuses = { ...named(['2xx', '3xx', '4xx', '5xx']), pending: 'Pending', none: 'No response' }
const methods = named(['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'])

function addOption(field: HTMLSelectElement, value: string) {
  if (![...field.options].some((option) => option.value === value)) field.append(h('option', { value }, value))
}

type FilterField = HTMLInputElement | HTMLSelectElement

function readField(field: FilterField): string {
  if (field.type !== 'checkbox') return field.value
  return field.matches(':checked') ? '1' : ''
}

function fillField(field: FilterField, value: string) {
  if (field instanceof HTMLSelectElement) addOption(field, value)
  if (field instanceof HTMLInputElement && field.type === 'checkbox') field.checked = value !== ''
  else if (field.value !== value) field.value = value
}

const noFilter = { text: '', status: '', method: '', client: '', rule: '', simulated: '' }
type TrafficParameters = typeof noFilter & { own: string; open: string }

/** The filter of the list, with its fields. */
class RequestFilter {
  /** The parameters of the view in the address: the filter, and the request whose details are open. */
  parameters: TrafficParameters = { ...noFilter, own: '', open: '' }
  readonly fields = {
    text: h('input', {
      type: 'search',
      placeholder: 'Filter: path, body, reason',
      'aria-label': 'Filter by text',
      'aria-keyshortcuts': '/',
    }),
    status: filterSelect('status', 'Status', statuses),
    method: filterSelect('method', 'Method', methods),
    client: filterSelect('client', 'Client'),
    rule: filterSelect('rule', 'Rule broken'),
    simulated: h('input', { type: 'checkbox' }),
    own: h('input', { type: 'checkbox' }),
  }

  /** Reads the filter from the fields. */
  read(): Partial<TrafficParameters> {
    return Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, readField(field)]))
  }

  set(parameters: Partial<TrafficParameters>): void {
    this.parameters = { ...this.parameters, ...noFilter, ...parameters }
    for (const [name, field] of Object.entries(this.fields))
      fillField(field, this.parameters[name as keyof typeof this.fields])
  }

  /** How many fields are set, not counting the text field. */
  get count(): number {
    const { status, method, client, rule, simulated } = this.parameters
    return [status, method, client, rule, simulated].filter(Boolean).length
  }

  /** Offers the clients and rules of these entries as options, and keeps the selected ones. */
  offer(entries: readonly JournalEntry[]): void {
    const clients = new Set(entries.map(clientName))
    const rules = new Set(entries.flatMap((entry) => entry.rules))
    for (const [field, values] of [
      [this.fields.client, clients],
      [this.fields.rule, rules],
    ] as const) {
      for (const option of [...field.options])
        if (option.value && !option.selected && !values.has(option.value)) option.remove()
      for (const value of values) addOption(field, value)
    }
  }

  includes(kind: string | undefined): boolean {
    return this.parameters.own !== '' || kind === undefined
  }

  matches(row: RequestRow): boolean {
    const { entry, own } = row
    const { text, status, method, client, rule, simulated } = this.parameters
    return (
      this.includes(own) &&
      (method === '' || entry.method === method) &&
      (status === '' || outcomeGroup(entry) === status) &&
      (client === '' || clientName(entry) === client) &&
      (rule === '' || entry.rules.includes(rule)) &&
      (simulated === '' || entry.fault !== undefined) &&
      (text === '' || row.text.toLowerCase().includes(text.toLowerCase()))
    )
  }
}

/**
 * The list of requests. While it is paused, no row is added, and rows stay even if the journal has removed their
 * entries; but not those of pending requests, because no event will say how they ended.
 */
class RequestList {
  readonly element = h('ul.rows', { 'aria-label': 'Requests, newest last' })
  readonly filter = new RequestFilter()
  /** The rows, the oldest request first. */
  rows: RequestRow[] = []
  isPaused = false
  #tabStop: RequestRow | undefined

  get visible(): RequestRow[] {
    return this.rows.filter(({ isShown }) => isShown)
  }

  /** Returns the entries without a row. */
  missing(entries: App['entries']): JournalEntry[] {
    const known = new Set(this.rows.map(({ entry }) => entry.id))
    return [...entries.values()].filter(({ id }) => !known.has(id))
  }

  update(entries: App['entries']): void {
    this.rows = this.rows.filter((row) => this.#isKept(row, entries.get(row.entry.id)))
    if (!this.isPaused) for (const entry of this.missing(entries)) this.#add(entry)
    this.filter.offer(this.rows.map(({ entry }) => entry))
  }

  #isKept(row: RequestRow, entry: JournalEntry | undefined): boolean {
    if (entry === row.entry) return true
    if (entry?.time === row.entry.time) {
      this.#show(row, entry)
      return true
    }
    return this.isPaused && !row.isPending
  }

  /** Inserts a row by id, because entries arrive in the order of events: a request may end before an older one. */
  #add(entry: JournalEntry): void {
    const row = new RequestRow(entry)
    this.#show(row, entry)
    const index = 1 + this.rows.findLastIndex((known) => known.entry.id < entry.id)
    this.rows.splice(index, 0, row)
  }

  #show(row: RequestRow, entry: JournalEntry): void {
    row.entry = entry
    row.isShown = this.filter.matches(row)
  }

  setFilter(parameters: Partial<TrafficParameters>): void {
    this.filter.set(parameters)
    for (const row of this.rows) row.isShown = this.filter.matches(row)
  }

  /** Makes a row the only one in the list that the tab key reaches. */
  setTabStop(row: RequestRow): void {
    this.#tabStop?.button.setAttribute('tabindex', '-1')
    this.#tabStop = row
    row.button.setAttribute('tabindex', '0')
  }

  /** Makes the first row the tab stop if the previous one is hidden or gone. */
  keepTabStop(visible: readonly RequestRow[]): void {
    const [first] = visible
    if (first && !(this.#tabStop && visible.includes(this.#tabStop))) this.setTabStop(first)
  }

  /** Returns the row that is `step` rows after the one with the focus. */
  rowAt(step: number): RequestRow | undefined {
    const { visible } = this
    const at = visible.findIndex(({ button }) => button === document.activeElement)
    return visible[Math.max(0, Math.min(visible.length - 1, at + step))]
  }
}

const focusSteps: Partial<Record<string, number>> = {
  ArrowDown: 1,
  ArrowUp: -1,
  Home: -maxEntries,
  End: maxEntries,
  PageDown: 10,
  PageUp: -10,
}

/** The content of the view before the first request. */
const welcomeOf = ({ profiles, space }: App['info']) =>
  h(
    'div.empty.stack',
    h('h2', 'No requests yet'),
    h(
      'p',
      'This page shows each request that a client sends to this service as it comes, what was wrong with it, and the rule of the contract behind that. Point a client at',
    ),
    profiles.map((profile) => {
      const url = `${originOf(profile)}${space ? `/~${space}` : ''}`
      return h('div.address', h('span', profile.title), copyLine(url, `Copy the address of ${profile.title}`))
    }),
    h('p', 'or try it from a terminal:'),
    copyLine(`curl -i ${baseUrl}/api/todoitems`, 'Copy'),
  )

const columns = ['Time', 'Method', 'Status', 'Path', 'Note', 'Client', 'Duration']
const maxPathLength = 60

export function trafficView(app: App): View {
  const list = new RequestList()
  const { filter } = list
  const { text, status, method, client, rule, simulated, own } = filter.fields
  let clock: ReturnType<typeof setInterval> | undefined
  const filters = button('Filters', unfold, { class: 'filters', 'aria-expanded': 'false' })
  const pause = button('Pause', togglePause, { 'aria-pressed': 'false' })
  const count = h('p.count')
  const hiddenCount = h('span.count')
  const noMatch = h(
    'div.empty.stack',
    h('p', 'No request matches the filter.'),
    h('p', button('Remove the filter', removeFilter)),
  )
  const welcome = welcomeOf(app.info)
  const scroller = h('div.scroller', list.element, noMatch, welcome)
  const virtual = new VirtualList<RequestRow>(
    scroller,
    list.element,
    (row) => row.element,
    () => (scroller.offsetWidth > 760 ? 37 : 57),
  )
  const timeline = new Timeline(open)
  const details = new RequestDetails(app, close)
  const toolbar = h(
    'div.toolbar',
    { role: 'group', 'aria-label': 'Filter and control', oninput: () => setFilter(filter.read()) },
    text,
    filters,
    h('div.line.choices', status, method, client, rule, h('label.line', simulated, 'Simulated, slowed')),
    h(
      'div.line.actions',
      pause,
      button('Clear', clearAll),
      button('Save as HAR', saveHar, { title: 'The requests that are shown' }),
    ),
    h('div.line.counts', count, h('label.line', own, 'Show own requests'), hiddenCount),
  )
  const head = h(
    'div.row.head',
    { 'aria-hidden': 'true' },
    columns.map((name) => h('span', { class: `of-${name.toLowerCase()}` }, name)),
  )
  const element = h(
    'section.view.traffic',
    { 'aria-label': 'Traffic' },
    h('h1.offscreen', 'Traffic'),
    toolbar,
    timeline.element,
    h('div.split', h('div.table', head, scroller), details.element),
  )
  list.element.addEventListener('click', openClicked)
  list.element.addEventListener('keydown', moveFocus)
  text.addEventListener('keydown', (event) => event.key === 'ArrowDown' && moveFocus(event))
  document.addEventListener('keydown', onShortcut)

  function onShortcut(event: KeyboardEvent) {
    if (element.hidden || event.defaultPrevented || document.querySelector('dialog[open]')) return
    const { activeElement } = document
    // In a search field with text, Escape empties the field instead.
    if (event.key === 'Escape' && details.row && !(activeElement === text && text.value)) close()
    if (event.key !== '/' || activeElement?.matches('input:not([type=checkbox]), textarea, select')) return
    event.preventDefault()
    text.focus()
  }

  function update() {
    const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40
    list.update(app.entries)
    if (details.row && !list.isPaused && !list.rows.includes(details.row)) close()
    details.update()
    showState()
    if (isAtEnd) scroller.scrollTop = scroller.scrollHeight
    const { open: id } = filter.parameters
    if (id && details.row?.entry.id !== Number(id)) open(Number(id))
  }

  function setFilter(parameters: Partial<TrafficParameters>) {
    list.setFilter(parameters)
    app.setParameters('traffic', filter.parameters)
    setText(filters, filter.count > 0 ? `Filters (${filter.count})` : 'Filters')
    showState()
  }

  /** Shows or hides the fields of the filter that do not fit on a narrow screen. */
  function unfold() {
    filters.ariaExpanded = `${filters.ariaExpanded !== 'true'}`
  }

  function setOpen(id: string) {
    filter.parameters.open = id
    app.setParameters('traffic', filter.parameters)
  }

  function showState() {
    const { rows, visible, isPaused } = list
    virtual.draw(visible)
    timeline.draw(visible, details.row)
    const longest = Math.max(8, ...visible.map(({ entry: { path, query } }) => path.length + query.length))
    element.style.setProperty('--path', `${Math.min(maxPathLength, longest)}`)
    const hidden = rows.flatMap(({ own }) => (filter.includes(own) ? [] : (own ?? [])))
    const total = rows.length - hidden.length
    const all = counted(total, 'request')
    const isCut = rows.length >= maxEntries && app.total > total
    const shown = isCut
      ? `${formatCount(visible.length)} of ${counted(app.total, 'request')}, older ones are not kept`
      : visible.length === total
        ? all
        : `${visible.length} of ${all}`
    const added = isPaused ? list.missing(app.entries).filter((entry) => filter.includes(ownKind(entry))) : []
    setText(count, added.length > 0 ? `${shown}, ${added.length} new` : shown)
    setText(hiddenCount, hidden.length > 0 ? `${hidden.length} hidden: ${[...new Set(hidden)].join(', ')}` : '')
    noMatch.hidden = visible.length > 0 || total === 0
    welcome.hidden = visible.length > 0 || total > 0
    list.keepTabStop(visible)
    showTimes()
  }

  function removeFilter() {
    setFilter({})
    text.focus()
  }

  /** Updates the times of pending requests, and runs a timer while any of them is visible. */
  function showTimes() {
    const pending = list.rows.filter((row) => row.isPending && (row.isShown || row === details.row))
    for (const row of pending) row.showElapsed()
    if (details.row && pending.includes(details.row)) details.showOutcome()
    clearInterval(clock)
    if (pending.length === 0 || element.hidden || document.hidden) return
    // While the service does not respond, it is not known whether a request is still pending.
    clock = setInterval(() => app.isOnline && showTimes(), clockIntervalMs)
  }

  function togglePause() {
    list.isPaused = !list.isPaused
    pause.ariaPressed = `${list.isPaused}`
    setText(pause, list.isPaused ? 'Resume' : 'Pause')
    update()
  }

  async function clearAll() {
    const response = await admin('DELETE', 'requests')
    if (response.status !== 204) app.notify(messageOf(response))
    else if (list.isPaused) {
      list.rows = []
      if (details.row) close()
      update()
    }
  }

  function saveHar() {
    const entries = list.visible.map(({ entry }) => entry)
    const har = toHar(baseUrl, app.info.version, entries)
    download('traffic.har', JSON.stringify(har, null, 2), 'application/json')
  }

  function openClicked({ target }: Event) {
    const clicked = target instanceof Element && target.closest('button')
    if (!clicked) return
    open(Number(clicked.dataset.id))
    // On a narrow screen the details replace the list.
    if (list.element.offsetParent === null) details.element.querySelector('button')?.focus()
  }

  function open(id: number) {
    const row = list.rows.find(({ entry }) => entry.id === id)
    if (!row) return
    list.setTabStop(row)
    details.open(row)
    virtual.draw()
    virtual.reveal(row)
    timeline.draw(list.visible, row)
    setOpen(`${id}`)
    showTimes()
  }

  function close() {
    const closed = details.row
    details.close()
    setOpen('')
    closed?.button.focus()
  }

  function moveFocus(event: KeyboardEvent) {
    const step = focusSteps[event.key]
    if (step === undefined) return
    event.preventDefault()
    const row = list.rowAt(step)
    if (!row) return
    list.setTabStop(row)
    virtual.reveal(row)
    row.button.focus()
    if (details.row) open(row.entry.id)
  }

  return {
    element,
    show(parameters) {
      filter.parameters.own = ''
      setFilter({ open: '', ...parameters })
      const { open: id } = filter.parameters
      if (id) open(Number(id))
      else if (details.row) close()
      scroller.scrollTop = scroller.scrollHeight
    },
    entriesChanged: update,
  }
}

/** How many of the newest requests the timeline shows. */
const maxBars = 200
/** The height of a bar in pixels. */
const barHeight = 6
const maxLanes = 4

type Bar = readonly [element: HTMLElement, row: RequestRow]

/** Shows requests as bars in time, below each other if they overlap. Long gaps without requests are shortened. */
class Timeline {
  readonly element = h('div.timeline', { 'aria-hidden': 'true' })
  #bars: readonly Bar[] = []

  constructor(open: (id: number) => void) {
    const nearest = ({ clientX, clientY }: MouseEvent) => {
      const distanceOf = ([bar]: Bar) => {
        const { left, right, top, bottom } = bar.getBoundingClientRect()
        return Math.max(left - clientX, clientX - right, 0) + Math.max(top - clientY, clientY - bottom, 0)
      }
      return [...this.#bars].sort((a, b) => distanceOf(a) - distanceOf(b))[0]?.[1]
    }
    this.element.addEventListener('click', (event) => {
      const row = nearest(event)
      if (row) open(row.entry.id)
    })
    this.element.addEventListener('mousemove', (event) => {
      const row = nearest(event)
      if (!row) return
      const { method, path, query } = row.entry
      this.element.title = `${method} ${path}${query}, ${outcomeOf(row.entry)}, ${row.formatElapsed()}`
    })
  }

  draw(visible: readonly RequestRow[], opened: RequestRow | undefined): void {
    const rows = visible.slice(-maxBars)
    this.element.hidden = rows.length === 0
    const durations = rows.map((row) => row.elapsed).sort((a, b) => a - b)
    const longestGap = Math.max(5, 2 * (durations[durations.length >> 1] ?? 0))
    let [cut, busyUntil] = [0, rows[0]?.begin ?? 0]
    const spans = rows.map((row) => {
      cut += Math.max(0, row.begin - busyUntil - longestGap)
      busyUntil = Math.max(busyUntil, row.begin + row.elapsed)
      return { row, start: row.begin - cut, end: row.begin + row.elapsed - cut }
    })
    const from = spans[0]?.start ?? 0
    const scale = (this.element.clientWidth - 2 * barHeight) / Math.max(longestGap, busyUntil - cut - from)
    const lanes: number[] = []
    this.#bars = spans.map(({ row, start, end }, index) => {
      const x = barHeight + (start - from) * scale
      const right = Math.max(x + 3, barHeight + (end - from) * scale)
      const free = lanes.findIndex((until) => until < x)
      const lane = free < 0 ? Math.min(lanes.length, maxLanes - 1) : free
      lanes[lane] = right
      const bar = (this.element.children[index] ?? this.element.appendChild(h('i'))) as HTMLElement
      bar.className = row.entry.isSimulated ? 'simulated' : outcomeClass(row.entry)
      const opacity = !opened || opened === row ? '1' : '0.45'
      Object.assign(bar.style, {
        transform: `translate(${x}px, ${4 + lane * (barHeight + 2)}px)`,
        width: `${right - x - 1}px`,
        opacity,
      })
      return [bar, row]
    })
    for (const bar of [...this.element.children].slice(spans.length)) bar.remove()
  }
}

const focusable = 'button, a, summary'

/** The details of the request that is open, beside the list. */
class RequestDetails {
  row: RequestRow | undefined
  readonly element = h('section.details', { hidden: true })
  /** The tab that the user has chosen on a narrow screen, request or response; kept for the next request. */
  part: string | undefined
  /** The parts whose headers are all shown; kept for the next request. */
  readonly unfolded = new Set<string>()
  readonly #app: App
  readonly #onClose: () => void
  #drawn: JournalEntry | undefined

  constructor(app: App, onClose: () => void) {
    this.#app = app
    this.#onClose = onClose
  }

  open(row: RequestRow): void {
    this.close()
    this.row = row
    row.button.ariaCurrent = 'true'
    this.element.ariaLabel = `Request ${row.entry.id}`
    this.element.hidden = false
    this.update()
    this.element.scrollTop = 0
  }

  close(): void {
    if (this.row) this.row.button.ariaCurrent = null
    this.row = undefined
    this.#drawn = undefined
    this.element.hidden = true
  }

  /** Draws the details again if the entry has changed; keeps the focus. */
  update(): void {
    if (!this.row || this.row.entry === this.#drawn) return
    const focused = [...this.element.querySelectorAll(focusable)].indexOf(document.activeElement as Element)
    this.element.replaceChildren(...detailsOf(this.row, this.#app, this, this.#onClose))
    this.#drawn = this.row.entry
    if (focused >= 0) this.element.querySelectorAll<HTMLElement>(focusable)[focused]?.focus()
  }

  showOutcome(): void {
    const outcome = this.element.querySelector<HTMLElement>('.outcome')
    if (this.row && outcome) setText(outcome, describeOutcome(this.row))
  }
}

function detailsOf(row: RequestRow, app: App, look: RequestDetails, close: () => void): HTMLElement[] {
  const { entry } = row
  const { method, path, query, reason, errors, rules, isSimulated, fault, met } = entry
  const isRejected = !isSimulated && (reason || errors || rules.length > 0)
  return [
    h(
      'div.detail-head',
      h('h2', methodMark(method), ` ${path}${query}`),
      button('✕', close, { class: 'quiet small', 'aria-label': 'Close' }),
    ),
    factsOf(row),
    h('div.line.uses', repeatButtons(entry, app), copyButtons(entry, app)),
    isSimulated && simulation(entry),
    !isSimulated && fault && h('div.callout.warning', h('h3', 'Slowed by a fault'), h('p', fault), faultLink(entry)),
    isRejected && wrongWith(entry, app),
    ...exchangeOf(entry, look),
    met.length > 0 && rulesMet(met),
  ].filter((part) => part instanceof HTMLElement)
}

function factsOf(row: RequestRow): HTMLElement {
  const { entry } = row
  const { time, state, milliseconds, client, item } = entry
  return h(
    'p.line.hint.facts',
    h('strong', { class: `badge outcome ${outcomeClass(entry)}` }, describeOutcome(row)),
    marksOf(entry),
    h('span', formatExactTime(time), state !== 'pending' && `, ${formatDuration(milliseconds)}`),
    h('span', `${clientName(entry)} at ${client}`),
    item && changeOf(item),
  )
}

function copyButtons({ method, path, query, status, request }: JournalEntry, app: App): HTMLElement {
  const operation = app.info.operations.find(
    (known) => known.method === method && new RegExp(`^${known.path.replace('{id}', '[^/]+')}/?$`, 'i').test(path),
  )
  const isSecured = operation?.secured === true && status !== 401
  const sent = { method, path, query, headers: request.headers, body: request.body }
  const copyAs = (name: string, format: typeof toCurl) =>
    copyButton(name, () => format(baseUrl, sent, isSecured), { class: 'small', 'aria-label': `Copy as ${name}` })
  return h(
    'div.line',
    h('span.hint', 'Copy as'),
    copyAs('curl', toCurl),
    copyAs('fetch', toFetch),
    copyAs('C#', toCSharp),
    request.isTruncated && h('span.hint', 'The body is longer: the journal, and so this, has its first 16 KiB.'),
  )
}

type RepeatedRequest = Pick<JournalEntry, 'method' | 'path' | 'query'> & { readonly request: Message }

/** Sends a request again, without the header that marks requests of this page, so that the list shows it. */
async function sendAgain(sent: RepeatedRequest, app: App) {
  const { method, path, query, request } = sent
  const headers = new Headers(
    repeatedHeaders({ method, path, query, ...request }).map(([name, value]) => [name, value]),
  )
  if (request.headers.authorization !== undefined) headers.set('authorization', `Bearer ${currentToken()}`)
  const init = { method, headers, ...(request.body !== null && { body: new Blob([request.body]) }) }
  await fetch(`${baseUrl}${path}${query}`, init).catch(() =>
    app.notify(`${method} ${path} was sent and got no response.`),
  )
}

/** The buttons that send a request again, or make the next one like it fail. */
function repeatButtons(entry: JournalEntry, app: App): HTMLElement {
  const { method, path, request } = entry
  async function failNext() {
    const response = await admin('POST', 'faults', JSON.stringify({ method, path, times: 1 }))
    if (response.status !== 201) return app.notify(messageOf(response))
    const { id, description }: ActiveFault = JSON.parse(response.text)
    app.notify(`Added: ${description}`, { label: 'Undo', run: () => admin('DELETE', `faults/${id}`) })
  }
  const isComplete = !request.isTruncated && !noBody(request).startsWith('The service')
  const small = { class: 'small' }
  return h(
    'div.line',
    isComplete && button('Send again', () => sendAgain(entry, app), small),
    button('Edit and send', () => editRequest(entry, app), small),
    button('Fail the next one', failNext, { ...small, title: 'The next request with this method and path fails' }),
  )
}

function editRequest({ method, path, query, request }: JournalEntry, app: App) {
  const verb = h('input', { value: method, class: 'mono', required: true, pattern: '[A-Z]+' })
  const target = h('input', { value: `${path}${query}`, class: 'mono', required: true, pattern: '/.*' })
  const body = h('textarea', { rows: '10', class: 'mono', spellcheck: 'false', autofocus: true }, request.body ?? '')
  const content = [h('div.line', field('Method', verb), field('Path', target)), field('Body', body)]
  openDialog('Edit and send', content, 'Cancel', h('button.primary', 'Send'), () => {
    const [, path = '', query = ''] = /^([^?]*)(.*)$/s.exec(target.value) ?? []
    sendAgain({ method: verb.value, path, query, request: { ...request, body: body.value || null } }, app)
  })
}

/** Shows request and response; on a narrow screen, one of them by tabs. */
function exchangeOf(entry: JournalEntry, look: RequestDetails): HTMLElement[] {
  const { request, response } = entry
  const sides = h(
    'div.sides',
    partOf('Request', request, look, noBody(request), Object.keys(entry.errors ?? {})),
    partOf('Response', response, look, noResponse(entry)),
  )
  const choice = tabs('Part', { Request: 'Request', Response: 'Response' }, (part) => {
    look.part = part
    choose(part)
  })
  function choose(part: string) {
    sides.dataset.part = part
    choice.choose(part)
  }
  choose(look.part ?? (request.body ? 'Request' : 'Response'))
  return [choice.element, sides]
}

function describeOutcome(row: RequestRow): string {
  const { state, status, milliseconds } = row.entry
  if (state === 'sent') return describeStatus(status)
  if (state === 'pending') return `Pending for ${row.formatElapsed()}`
  return state === 'aborted' ? `Client left after ${formatDuration(milliseconds)}` : 'Connection closed'
}

function changeOf({ id, change }: NonNullable<JournalEntry['item']>): HTMLElement {
  const text = `item ${id} ${change}`
  return change === 'deleted' ? h('span', text) : h('a', { href: `#/items?id=${encodeURIComponent(id)}` }, text)
}

/** Says why there is no body to show. The service does not read the body of a request that it rejects by its head. */
function noBody({ body, headers }: Message): string {
  if (body) return ''
  const length = headers['content-length'] ?? '0'
  if (length === '0' && !headers['transfer-encoding']) return 'No body.'
  return `The service did not keep the body${length === '0' ? '' : `, ${length} bytes`}: copies are without it.`
}

function noResponse({ state, response }: JournalEntry): string {
  if (state === 'pending') return 'None so far.'
  if (state === 'aborted') return 'The client did not wait for it.'
  if (state === 'closed') return 'None: the connection was closed.'
  return response.body ? '' : 'No body.'
}

function simulation(entry: JournalEntry): HTMLElement {
  const by = simulatedBy(entry)
  return h(
    'div.callout.simulated',
    h('h3', 'Simulated'),
    h('p', 'What the client got was decided by ', h('code', by), ', not by its request.'),
    entry.fault && entry.fault !== by && h('p', 'In all: ', entry.fault),
    faultLink(entry),
  )
}

const faultLink = ({ faultIds = [] }: JournalEntry) =>
  faultIds.length > 0 && h('p', h('a', { href: `#/faults?id=${faultIds[0]}` }, 'Show the fault'))

function wrongWith({ reason, errors = {}, rules, state, blockedOrigin }: JournalEntry, app: App): HTMLElement {
  const members = Object.entries(errors)
  return h(
    'div.callout.error',
    h('h3', state !== 'sent' ? 'What happened' : blockedOrigin ? 'Blocked by the browser' : 'What was wrong'),
    reason && members.length === 0 && h('p', reason),
    members.length > 0 &&
      h(
        'ul',
        members.flatMap(([name, messages]) =>
          messages.map((message) =>
            name && message.startsWith(`${name} `)
              ? h('li', h('code', name), message.slice(name.length))
              : h('li', name && h('code', name), name && ': ', message),
          ),
        ),
      ),
    rules.map((id) => {
      const { basis, sentence = '' } = app.info.rules.find((rule) => rule.id === id) ?? {}
      return h(
        'p.hint',
        ruleLink(id, `Rule ${id}`),
        basis === 'spec' ? ' (specified): ' : ' (our choice): ',
        withCode(sentence),
      )
    }),
  )
}

const ruleLink = (id: string, text: string) => h('a', { href: `#/contract?rule=${id}` }, text)

const rulesMet = (met: readonly string[]) =>
  h(
    'p.hint',
    'Rules of the contract that this shows: ',
    met.flatMap((id, index) => [index > 0 && ', ', ruleLink(id, id)]),
  )

/** Matches the headers that most often explain a response. */
const tellingHeader =
  /^(?:content-type|location|etag|prefer|preference-applied|retry-after|allow|www-authenticate|if-(?:none-)?match|origin|access-control-.*|x-todo-.*|x-forwarded-.*)$/

function partOf(
  part: string,
  { headers, body, isTruncated }: Message,
  look: RequestDetails,
  remark: string,
  wrong: readonly string[] = [],
): HTMLElement {
  const all = Object.entries(headers)
  const telling = all.filter(([name]) => tellingHeader.test(name))
  const block = body ? formatBody(body, wrong) : h('p.hint', remark)
  if (body) block.ariaLabel = `Body of the ${part.toLowerCase()}`
  if (isTruncated) block.append('…')
  const unfold: HTMLDetailsElement = h(
    'details',
    {
      open: look.unfolded.has(part),
      ontoggle: () => (unfold.open ? look.unfolded.add(part) : look.unfolded.delete(part)),
    },
    h('summary', `All ${all.length} headers`),
    headersTable(all),
  )
  return h(
    'section.side',
    { 'aria-label': part, 'data-part': part },
    h('h3', part),
    block,
    telling.length > 0 && headersTable(telling),
    all.length > telling.length && unfold,
  )
}

const headersTable = (headers: readonly (readonly [string, string])[]) =>
  h(
    'table.cells.headers',
    h(
      'tbody',
      headers.map(([name, value]) => h('tr', h('th', { scope: 'row' }, name), h('td', value))),
    ),
  )
