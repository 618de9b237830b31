import { type Answer, admin, base, messageOf, parseExact, send } from './client.ts'
import { copyButton, field, h, setText } from './dom.ts'
import { describeStatus, toCurl } from './format.ts'
import type { App, View } from './view.ts'

const path = '/api/todoitems'

/** An item of either profile. Ids of profile A are digits in a string: a number would round them. */
interface Item {
  readonly id: string
  readonly name: string | null
  readonly notes?: string | null
  readonly isComplete?: boolean
  readonly done?: boolean
}

type Write = readonly [method: string, target: string, body?: string]

interface Shape {
  readonly done: 'isComplete' | 'done'
  readonly hasNotes: boolean
  readonly create: (item: Item) => Write
  readonly update: (item: Item) => Write
}

interface Row {
  readonly element: HTMLElement
  update(item: Item): void
}

/** How each profile says it. */
const shapes: Partial<Record<string, Shape>> = {
  a: {
    done: 'isComplete',
    hasNotes: false,
    create: ({ name }) => ['POST', path, JSON.stringify({ name, isComplete: false })],
    update: ({ id, name, isComplete }) => [
      'PUT',
      `${path}/${id}`,
      `{"id":${id},"name":${JSON.stringify(name)},"isComplete":${isComplete}}`,
    ],
  },
  b: {
    done: 'done',
    hasNotes: true,
    create: ({ id, name, notes }) => ['POST', path, JSON.stringify({ id, name, notes, done: false })],
    update: ({ id, name, notes, done }) => ['PUT', path, JSON.stringify({ id, name, notes, done })],
  },
}

/** Clients that change many items must not make this page load the list for each. */
const refreshIntervalMs = 150

/** A version 4 UUID; crypto.randomUUID exists in secure contexts only. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const shapeOf = (profile: string): Shape => {
  const shape = shapes[profile]
  if (!shape) throw new Error(`There is no profile ${profile}.`)
  return shape
}

export function itemsView(app: App): View {
  const shape = shapeOf(app.info.profile)
  const rows = new Map<string, Row>()
  const count = h('p', { class: 'count' })
  const empty = h('p', { class: 'empty', hidden: true }, 'No items yet. Add one above, or let a client create it.')
  const list = h('ul', { class: 'items', 'aria-label': 'To-do items' })
  const last = h('div', { class: 'last' })
  const name = h('input', { name: 'name', autocomplete: 'off', placeholder: 'What is to be done?' })
  const notes = h('input', { name: 'notes', autocomplete: 'off', placeholder: 'Notes' })
  const id = h('input', { name: 'id', autocomplete: 'off', class: 'mono', spellcheck: 'false', value: newId() })
  const form = h(
    'form',
    { class: 'add', onsubmit: add, 'aria-label': 'Add an item' },
    field('New item', name),
    shape.hasNotes && field('Notes', notes),
    shape.hasNotes && field('Id', id),
    h('button', { class: 'primary' }, 'Add'),
  )
  const element = h(
    'section',
    { class: 'view narrow', 'aria-label': 'Items' },
    h('h1', { class: 'offscreen' }, 'Items'),
    form,
    last,
    count,
    empty,
    list,
  )
  let isShown = false
  let isStale = true
  let isLoading = false

  async function add(event: Event) {
    event.preventDefault()
    const { status } = await write(shape.create({ id: id.value, name: name.value, notes: notes.value }))
    if (status < 200 || status >= 300) return
    name.value = ''
    notes.value = ''
    id.value = newId()
    name.focus()
  }

  /** Through the public API, as any client; shows what was sent, and the answer where it is no success. */
  async function write([method, target, body]: Write): Promise<Answer> {
    const response = await send(method, target, body)
    const isSuccess = response.status >= 200 && response.status < 300
    const origin = `${base}`.replace(/\/$/, '')
    const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const curl = () => toCurl(origin, { method, path: target, query: '', headers, body }, app.info.flags.requireAuth)
    last.replaceChildren(
      h(
        'p',
        { class: isSuccess ? 'exchange' : 'exchange failed' },
        h('code', {}, `${method} ${decoded(target)}`),
        h('strong', {}, response.status ? describeStatus(response.status) : 'No response'),
        copyButton('Copy as curl', curl, { class: 'quiet' }),
      ),
    )
    if (!isSuccess) last.append(h('pre', { class: 'body', role: 'alert' }, answerOf(response, app.isOnline)))
    refresh()
    return response
  }

  function refresh() {
    isStale = true
    if (isShown && !isLoading) load()
  }

  /** From the control API, so that looking at the items is no traffic, and uses up no failure. */
  async function load() {
    isLoading = true
    while (isStale && isShown) {
      isStale = false
      const response = await admin('GET', 'items')
      if (response.status === 200) render(parseExact(response.text) as Item[])
      else if (response.status !== 0) app.notify(messageOf(response))
      await new Promise((done) => setTimeout(done, refreshIntervalMs))
    }
    isLoading = false
  }

  function render(items: readonly Item[]) {
    const ids = new Set(items.map((item) => item.id))
    for (const [key, row] of rows)
      if (!ids.has(key)) {
        row.element.remove()
        rows.delete(key)
      }
    let next = list.firstElementChild
    for (const item of items) {
      let row = rows.get(item.id)
      if (row) row.update(item)
      else {
        row = itemRow(item)
        rows.set(item.id, row)
      }
      if (row.element === next) next = next.nextElementSibling
      else list.insertBefore(row.element, next)
    }
    const done = items.filter((item) => item[shape.done]).length
    empty.hidden = items.length > 0
    setText(count, items.length === 0 ? '' : `${items.length} ${items.length === 1 ? 'item' : 'items'}, ${done} done`)
  }

  function itemRow(first: Item): Row {
    let item = first
    let key = JSON.stringify(item)
    const box = h('input', { type: 'checkbox', onchange: tick })
    const title = h('span', { class: 'name' })
    const text = h('span', { class: 'notes' })
    const open = h(
      'button',
      { type: 'button', class: 'open', onclick: edit },
      h('span', { class: 'offscreen' }, 'Edit '),
      title,
      text,
    )
    const remove = h('button', { type: 'button', class: 'quiet remove', onclick: deleteItem }, '✕')
    const element = h('li', {}, box, open, h('code', { class: 'id', title: item.id }, item.id), remove)
    show()

    function show() {
      const label = item.name ?? 'without a name'
      box.checked = item[shape.done] === true
      box.setAttribute('aria-label', `Done: ${label}`)
      remove.setAttribute('aria-label', `Delete ${label}`)
      setText(title, item.name || (item.name === null ? 'no name (null)' : 'empty name'))
      title.classList.toggle('absent', !item.name)
      setText(text, item.notes ?? '')
      element.classList.toggle('done', item[shape.done] === true)
    }

    async function tick() {
      await write(shape.update({ ...item, [shape.done]: box.checked }))
      // Where that was no success, the next list is the same as the last one.
      key = ''
    }

    async function deleteItem() {
      const neighbour = element.nextElementSibling ?? element.previousElementSibling
      const { status } = await write(['DELETE', `${path}/${encodeURIComponent(item.id)}`])
      if (status === 204) (neighbour?.querySelector<HTMLElement>('.remove') ?? name).focus()
    }

    function edit() {
      const newName = h('input', { class: 'rename', autocomplete: 'off', 'aria-label': 'Name' })
      newName.value = item.name ?? ''
      const newNotes = h('textarea', { rows: '2', 'aria-label': 'Notes' })
      newNotes.value = item.notes ?? ''
      const form = h(
        'form',
        { class: 'edit', onsubmit: save, onkeydown: (event) => event.key === 'Escape' && close() },
        newName,
        shape.hasNotes && newNotes,
        h('button', { class: 'primary' }, 'Save'),
        h('button', { type: 'button', onclick: close }, 'Cancel'),
      )
      open.replaceWith(form)
      element.classList.add('is-edited')
      newName.select()

      async function save(event: Event) {
        event.preventDefault()
        const value = newName.value === '' && item.name === null ? null : newName.value
        const { status } = await write(
          shape.update({ ...item, name: value, ...(shape.hasNotes && { notes: newNotes.value }) }),
        )
        if (status === 204) close()
      }

      function close() {
        element.classList.remove('is-edited')
        form.replaceWith(open)
        open.focus()
      }
    }

    return {
      element,
      update(changed: Item) {
        const changedKey = JSON.stringify(changed)
        if (changedKey === key) return
        key = changedKey
        item = changed
        show()
      },
    }
  }

  return {
    title: 'Items',
    element,
    show() {
      isShown = true
      refresh()
    },
    itemsChanged() {
      isShown = !element.hidden
      refresh()
    },
  }
}

function decoded(target: string): string {
  try {
    return decodeURIComponent(target)
  } catch {
    return target
  }
}

/** The server's own words. */
function answerOf({ status, text }: Answer, isOnline: boolean): string {
  if (status === 0 && isOnline) return 'The connection was closed without a response.'
  if (text === '') return `${describeStatus(status)}, without a body.`
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
