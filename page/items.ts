import { type Answer, admin, baseUrl, isSuccess, messageOf, parseExact, send } from './client.ts'
import { button, copyButton, copyLine, field, h, setText, VirtualList } from './dom.ts'
import { counted, describeStatus, formatBody, formatCount, methodMark, outcomeClass, toCurl } from './format.ts'
import { itemTools, readItems, type ShownItem } from './item-tools.ts'
import type { App, View } from './view.ts'

const path = '/api/todoitems'

type ItemWrite = readonly [method: string, target: string, body?: string]

interface ItemShape {
  readonly done: 'isComplete' | 'done'
  readonly hasNotes: boolean
  readonly create: (item: ShownItem) => ItemWrite
  readonly update: (item: ShownItem) => ItemWrite
  readonly toJson: (item: ShownItem) => string
}

interface ItemRow {
  readonly element: HTMLElement
  update(item: ShownItem): void
}

/** A new item that is not in the list yet. */
interface Created {
  readonly element: HTMLElement
  readonly name: string | null
  /** The ids of the items that existed before. */
  readonly before: ReadonlySet<string>
  isFinished: boolean
}

/** Writes the id, a string of digits, as a JSON number. */
const toJsonA = ({ id, name, isComplete }: ShownItem) =>
  `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`
const toJsonB = ({ id, name, notes, done }: ShownItem) => JSON.stringify({ id, name, notes, done })

/** The members of an item and the requests that change it, by profile. */
const shapes: Readonly<Record<'a' | 'b', ItemShape>> = {
  a: {
    done: 'isComplete',
    hasNotes: false,
    create: ({ name }) => ['POST', path, JSON.stringify({ name, isComplete: false })],
    update: (item) => ['PUT', `${path}/${item.id}`, toJsonA(item)],
    toJson: toJsonA,
  },
  b: {
    done: 'done',
    hasNotes: true,
    create: ({ id, name, notes }) => ['POST', path, JSON.stringify({ id, name, notes, done: false })],
    update: (item) => ['PUT', path, toJsonB(item)],
    toJson: toJsonB,
  },
}

/** The list is loaded at most once in this time, however many items clients change. */
const refreshIntervalMs = 150

/** Returns a version 4 UUID. crypto.randomUUID exists in secure contexts only. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const samples = [
  ['Buy milk', 'two litres'],
  ['Call the dentist', 'in the morning'],
  ['Water the plants', 'every Friday'],
] as const

/** The search field appears with this many items. */
const minSearched = 10

/** How long to wait for the event about a request after its response. */
const entryTimeoutMs = 5000

export function itemsView(app: App): View {
  const shape = shapes[app.info.profile === 'a' ? 'a' : 'b']
  const rows = new Map<string, ItemRow>()
  /** The list of items that was loaded last. */
  let items: readonly ShownItem[] = []
  const count = h('p.count')
  const list = h('ul.items', { 'aria-label': 'To-do items' })
  const search = h('input', {
    type: 'search',
    class: 'search',
    placeholder: 'Search: name, notes, id',
    'aria-label': 'Search items',
    oninput: render,
  })
  const exchange = lastExchange(app)
  const name = h('input', { name: 'name', autocomplete: 'off', placeholder: 'What is to be done?' })
  const notes = h('input', { name: 'notes', autocomplete: 'off', placeholder: 'Notes' })
  const id = h('input', { name: 'id', autocomplete: 'off', class: 'mono', spellcheck: 'false', value: newId() })
  const addButton = h('button.primary', 'Add')
  const form = h(
    'form.add',
    { onsubmit: add, 'aria-label': 'Add an item' },
    field('New item', name),
    shape.hasNotes && field('Notes', notes),
    shape.hasNotes && field('Id', id),
    addButton,
  )
  const tools = itemTools(app, shape.toJson)
  const sampleButton = button('Add three samples', addSamples)
  const [firstName, firstNotes] = samples[0]
  const empty = h(
    'div.empty.stack',
    { hidden: true },
    h('p', 'No items yet. Add one above, or let a client create it:'),
    copyLine(curlOf(app, shape.create({ id: 'milk', name: firstName, notes: firstNotes })), 'Copy'),
    h('p', sampleButton),
  )
  const element = h(
    'section.view.narrow',
    { 'aria-label': 'Items' },
    h('h1.offscreen', 'Items'),
    form,
    exchange.element,
    h('div.line.head', count, search, tools.element),
    tools.error,
    empty,
    list,
  )
  const virtual = new VirtualList<string>(element, list, rowOf, () => (element.offsetWidth > 800 ? 48 : 71))
  let isShown = false
  /** The id in the address; empty once its item has been shown. */
  let wanted = ''
  let isStale = true
  let isLoading = false
  const byId = new Map<string, ShownItem>()
  /** Items that are being created, by a key that cannot be an id. They are removed when the list has them. */
  const created = new Map<string, Created>()
  let lastCreated = 0

  const itemList: ItemList = {
    shape,
    newName: name,
    write,
    refresh,
    idsAfter: (id) => items.slice(items.findIndex((item) => item.id === id) + 1).map((item) => item.id),
    deleted,
  }

  /** Removes a deleted item without waiting for the next list. */
  function deleted(item: ShownItem, following: readonly string[]) {
    items = items.filter(({ id }) => id !== item.id)
    rows.delete(item.id)
    render()
    tools.deleted(item, following)
  }

  /** Creates an item. Its row appears at once. */
  async function create(item: ShownItem): Promise<Answer> {
    const title = h('span.open', h('span.name', item.name ?? ''))
    const state = h('small.id', 'Waiting for the service')
    const element = h('li.pending', { 'aria-busy': 'true' }, h('span'), title, state)
    const key = `\n${++lastCreated}`
    const entry: Created = { element, name: item.name, before: new Set(byId.keys()), isFinished: false }
    created.set(key, entry)
    search.value = ''
    render()
    virtual.reveal(key)
    const response = await write(shape.create(item))
    entry.isFinished = true
    if (!isSuccess(response)) dropCreated(key)
    return response
  }

  function dropCreated(key: string) {
    created.delete(key)
    render()
  }

  async function add(event: Event) {
    event.preventDefault()
    const inputs = [name, notes, id]
    for (const input of inputs) input.readOnly = true
    addButton.disabled = true
    const response = await create({ id: id.value, name: name.value, notes: notes.value })
    addButton.disabled = false
    for (const input of inputs) input.readOnly = false
    if (!isSuccess(response)) return
    name.value = ''
    notes.value = ''
    id.value = newId()
    name.focus()
  }

  async function addSamples() {
    sampleButton.disabled = true
    for (const [sample, text] of samples)
      if (!isSuccess(await create({ id: newId(), name: sample, notes: text }))) break
    sampleButton.disabled = false
  }

  /** Sends a request to the public API, like any client, and shows it with its response. */
  async function write(request: ItemWrite): Promise<Answer> {
    const newest = [...app.entries.keys()].at(-1) ?? 0
    const response = await send(...request)
    exchange.show(request, response, newest)
    refresh()
    return response
  }

  function refresh() {
    isStale = true
    if (isShown && !isLoading) load()
  }

  /** Loads the items from the control API: such requests are not in the journal, and use up no fault. */
  async function load() {
    isLoading = true
    while (isStale && isShown) {
      isStale = false
      const startedAt = Date.now()
      const finished = [...created].filter(([, { isFinished }]) => isFinished)
      const response = await admin('GET', 'items')
      if (response.status === 200) {
        items = parseExact(response.text) as ShownItem[]
        render()
        for (const [key] of finished) dropCreated(key)
      } else if (response.status !== 0) app.notify(messageOf(response))
      // Pauses for longer if there are many items, which take long to load and to show.
      const pause = Math.max(refreshIntervalMs, 4 * (Date.now() - startedAt))
      await new Promise((done) => setTimeout(done, pause))
    }
    isLoading = false
  }

  function rowOf(key: string): HTMLElement {
    const pending = created.get(key)
    if (pending) return pending.element
    const item = byId.get(key)
    const row = rows.get(key) ?? itemRow(item ?? { id: key, name: '' }, itemList)
    rows.set(key, row)
    if (item) row.update(item)
    return row.element
  }

  const isFound = ({ id, name, notes }: ShownItem, text: string) =>
    [id, name, notes].some((part) => part?.toLowerCase().includes(text))

  function render() {
    byId.clear()
    for (const item of items) byId.set(item.id, item)
    const text = search.value.trim().toLowerCase()
    search.hidden = items.length < minSearched && text === ''
    const found = text === '' ? items : items.filter((item) => isFound(item, text))
    const keys = found.map(({ id }) => id)
    // A row that is being edited stays, even if its item was deleted.
    for (const [key, row] of rows)
      if (!byId.has(key)) {
        if (row.element.classList.contains('is-edited')) keys.push(key)
        else rows.delete(key)
      }
    // The list may have the new item before the response arrives; its pending row is hidden then.
    for (const [key, { name, before }] of created)
      if (!items.some((item) => item.name === name && !before.has(item.id))) keys.push(key)
    virtual.draw(keys)
    const done = items.filter((item) => item[shape.done]).length
    if (wanted && byId.has(wanted)) {
      const key = wanted
      wanted = ''
      if (!keys.includes(key)) {
        search.value = ''
        return render()
      }
      virtual.reveal(key, 'center')
      rows.get(key)?.element.querySelector<HTMLElement>('.open')?.focus()
    }
    empty.hidden = items.length + created.size > 0
    const all = items.length === 0 ? '' : `${counted(items.length, 'item')}, ${formatCount(done)} done`
    setText(count, text ? `${formatCount(found.length)} of ${all}` : all)
  }

  return {
    element,
    show({ id = '' }) {
      isShown = true
      wanted = id
      refresh()
    },
    itemsChanged() {
      isShown = !element.hidden
      exchange.itemsChanged()
      refresh()
    },
    entriesChanged: exchange.entriesChanged,
  }
}

function curlOf(app: App, [method, target, body]: ItemWrite): string {
  const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
  return toCurl(baseUrl, { method, path: target, query: '', headers, body }, app.info.flags.requireAuth)
}

/** Shows the last request of this view and its response. */
function lastExchange(app: App) {
  const element = h('div.last.stack')
  /** Called when the journal entries change. */
  let listeners: (() => void)[] = []

  /** Shows the request in a line. After a failure a second line says why, and whether it was simulated. */
  async function show(request: ItemWrite, response: Answer, newest: number) {
    const [method, target, body] = request
    const status = response.status || null
    const badge = h(
      'span',
      { class: `badge ${outcomeClass({ state: status ? 'sent' : 'closed', status })}` },
      status ? describeStatus(status) : 'No response',
    )
    const part = (title: string, text: string | undefined) => [
      h('h3', title),
      text ? formatBody(text) : h('p.hint', 'None'),
    ]
    const why = h('p', { role: 'alert', class: 'callout error', hidden: true })
    const details = h(
      'details.exchange',
      h('summary', methodMark(method), h('code', decodeURIComponent(target)), badge),
      h(
        'div.card.stack',
        ...part('Request body', body),
        ...part('Response body', status ? response.text : undefined),
        h(
          'p',
          copyButton('Copy as curl', () => curlOf(app, request), { class: 'small' }),
        ),
      ),
    )
    element.replaceChildren(details, why)
    if (isSuccess(response)) return
    const entry = status || app.isOnline ? await entryOf(request, newest) : undefined
    if (entry?.isSimulated) {
      why.className = 'callout simulated'
      badge.className = 'badge simulated'
    }
    why.textContent = entry?.isSimulated
      ? `${(entry.reason ?? '').replace(/^s/, 'S')}. The service works.`
      : reasonOf(response, app.isOnline)
    why.classList.toggle('offline', status === null && !app.isOnline)
    why.hidden = false
  }

  /** Waits for the journal entry of a request of this page; returns undefined after `entryTimeoutMs`. */
  async function entryOf([method, target, body]: ItemWrite, newest: number) {
    const timeout = Date.now() + entryTimeoutMs
    for (;;) {
      const found = [...app.entries.values()].find(
        ({ id, state, request, ...entry }) =>
          id > newest &&
          state !== 'pending' &&
          request.headers['x-todo-client'] === 'page' &&
          entry.method === method &&
          entry.path === target &&
          (request.isTruncated || (request.body ?? undefined) === body),
      )
      const remaining = timeout - Date.now()
      if (found || remaining <= 0) return found
      await new Promise<void>((resolve) => {
        listeners.push(resolve)
        setTimeout(resolve, remaining)
      })
    }
  }

  function entriesChanged() {
    for (const listener of listeners) listener()
    listeners = []
  }

  /** Removes the message that the service does not respond, because it responds again. */
  function itemsChanged() {
    element.querySelector('.offline')?.remove()
  }

  return { element, show, entriesChanged, itemsChanged }
}

/** The members of the list that its rows use. */
interface ItemList {
  readonly shape: ItemShape
  /** The field for the name of a new item, which gets the focus when no row is left. */
  readonly newName: HTMLElement
  write(request: ItemWrite): Promise<Answer>
  refresh(): void
  idsAfter(id: string): string[]
  deleted(item: ShownItem, following: readonly string[]): void
}

function itemRow(first: ShownItem, list: ItemList): ItemRow {
  const { shape } = list
  let item = first
  let key = JSON.stringify(item)
  const checkbox = h('input', {
    type: 'checkbox',
    onclick: (event) => isPending() && event.preventDefault(),
    onchange: tick,
  })
  const title = h('span.name')
  const text = h('span.notes')
  const open = h(
    'button',
    { type: 'button', class: 'quiet open', onclick: edit },
    h('span.offscreen', 'Edit '),
    title,
    text,
  )
  const remove = button('✕', deleteItem, { class: 'quiet small remove' })
  const element: HTMLElement = h('li', checkbox, open, h('code.id', { title: item.id }, `id ${item.id}`), remove)
  const isPending = () => element.classList.contains('pending')
  show()

  function show() {
    const label = item.name ?? 'without a name'
    checkbox.checked = item[shape.done] === true
    checkbox.ariaLabel = `Done: ${label}`
    remove.ariaLabel = `Delete ${label}`
    setText(title, item.name || (item.name === null ? 'no name (null)' : 'empty name'))
    title.classList.toggle('absent', !item.name)
    setText(text, item.notes ?? '')
    element.classList.toggle('done', item[shape.done] === true)
  }

  /** Saves a change. The row is dimmed until the service responds. */
  async function update(changed: ShownItem): Promise<boolean> {
    element.classList.add('pending')
    element.ariaBusy = 'true'
    const response = await list.write(shape.update(changed))
    element.classList.remove('pending')
    element.ariaBusy = 'false'
    // Lets the next list draw the row even if it is unchanged: after a failure, the checkbox must go back.
    key = ''
    return isSuccess(response)
  }

  async function tick() {
    await update({ ...item, [shape.done]: checkbox.checked })
  }

  async function deleteItem() {
    const neighbour = element.nextElementSibling ?? element.previousElementSibling
    const following = list.idsAfter(item.id)
    element.hidden = true
    ;(neighbour?.querySelector<HTMLElement>('.remove') ?? list.newName).focus()
    const { status } = await list.write(['DELETE', `${path}/${encodeURIComponent(item.id)}`])
    if (status === 204 || (status === 0 && (await isGone()))) list.deleted(item, following)
    else element.hidden = false
  }

  /** Whether the item was deleted, although there was no response. */
  const isGone = () =>
    readItems().then(
      ({ items }) => !items.some(({ id }) => id === item.id),
      () => false,
    )

  function edit() {
    const form = editForm(item, shape.hasNotes, {
      isPending,
      save: (changes) => update({ ...item, ...changes }),
      close(hadFocus) {
        element.classList.remove('is-edited')
        form.replaceWith(open)
        if (hadFocus) open.focus()
        list.refresh()
      },
    })
    open.replaceWith(form)
    element.classList.add('is-edited')
    form.querySelector('input')?.select()
  }

  return {
    element,
    update(changed: ShownItem) {
      const changedKey = JSON.stringify(changed)
      if (changedKey === key || isPending()) return
      key = changedKey
      item = changed
      show()
    },
  }
}

/** The functions that the form of an item calls. */
interface EditHandlers {
  isPending(): boolean
  /** Returns whether the service has saved the changes. */
  save(changes: Partial<ShownItem>): Promise<boolean>
  close(hadFocus: boolean): void
}

function editForm(item: ShownItem, hasNotes: boolean, handlers: EditHandlers): HTMLFormElement {
  const newName = h('input', { autocomplete: 'off', 'aria-label': 'Name' })
  newName.value = item.name ?? ''
  const newNotes = h('textarea', { rows: '2', 'aria-label': 'Notes' })
  newNotes.value = item.notes ?? ''
  const before = [newName.value, newNotes.value]
  let isOpen = true
  // In some browsers a click does not focus a button: the focus would leave the form, which saves it.
  const cancel = button('Cancel', close, { onmousedown: (event) => event.preventDefault() })
  const form = h(
    'form.line.edit',
    { onsubmit: save, onfocusout: leave, onkeydown: (event) => event.key === 'Escape' && close() },
    newName,
    hasNotes && newNotes,
    h('button.primary', 'Save'),
    cancel,
  )

  async function save(event?: Event) {
    event?.preventDefault()
    if (handlers.isPending()) return
    const name = newName.value === '' && item.name === null ? null : newName.value
    if (await handlers.save({ name, ...(hasNotes && { notes: newNotes.value }) })) close()
  }

  /** Saves the changes when the focus leaves the form, unless the user has only switched to another window. */
  function leave({ relatedTarget }: FocusEvent) {
    if (!isOpen || form.contains(relatedTarget as Node | null) || !document.hasFocus()) return
    if (newName.value === before[0] && newNotes.value === before[1]) close()
    else save()
  }

  function close() {
    if (!isOpen) return
    isOpen = false
    handlers.close(form.contains(document.activeElement))
  }

  return form
}

/** Says why a request failed, in the words of the service. */
function reasonOf(response: Answer, isOnline: boolean): string {
  if (response.status === 0 && isOnline) return 'The connection was closed without a response.'
  if (response.text === '') return `${describeStatus(response.status)}, without a body.`
  return messageOf(response)
}
