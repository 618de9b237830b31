import type { SpaceUse } from '../src/control/schema.ts'
import { messageOf, pageOf, read, send } from './client.ts'
import { qrImage, urlsFor } from './connect.ts'
import { button, copyLine, field, h, named, select, setChildren, setText } from './dom.ts'
import { formatDate, formatTime } from './format.ts'
import type { App, View } from './view.ts'

const refreshIntervalMs = 2_000
const maxStudents = 100
/** How long a code is valid: a school day. */
const codeSeconds = 8 * 3_600

/** The columns after the name of the space. */
const columns: readonly (readonly [title: string, text: (use: SpaceUse) => string])[] = [
  ['Items', ({ items }) => `${items}`],
  ['Last seen', ({ lastUsed }) => (lastUsed ? formatTime(lastUsed) : 'never')],
  ['Requests', ({ requests }) => `${requests}`],
  ['Rejected', ({ rejected }) => `${rejected}`],
  ['Rules met', ({ met }) => `${met.length}`],
  ['Rules broken', ({ broken }) => broken.join(', ')],
  [
    'Newest mistake',
    ({ mistake }) =>
      mistake
        ? `${mistake.method} ${mistake.path} ${mistake.status}${mistake.reason ? `: ${mistake.reason}` : ''}`
        : '',
  ],
]

/** The view Class: lists all spaces with what their students do, and creates addresses for new ones. */
export function classView(app: App): View {
  const rows = new Map<string, HTMLTableRowElement>()
  const body = h('tbody')
  const names = h('textarea', { rows: '4', spellcheck: 'false', required: true })
  const choice = h('div')
  const message = h('p', { role: 'alert', class: 'error' })
  const sheet = h('div.sheet')
  const print = button('Print', () => window.print(), { hidden: true })
  const form = h(
    'form.card.stack',
    { onsubmit: handOut },
    h('h2', 'Hand out addresses'),
    field('The names of the students, one in each line, or how many there are', names),
    choice,
    message,
    h('p.line', h('button.primary', 'Make addresses'), print),
  )
  const element = h(
    'section.view.wide.stack.class',
    { 'aria-label': 'Class' },
    h('h1', 'Class'),
    h(
      'div.card',
      h(
        'table.cells',
        h(
          'thead',
          h('tr', [h('th', { scope: 'col' }, 'Who'), ...columns.map(([title]) => h('th', { scope: 'col' }, title))]),
        ),
        body,
      ),
    ),
    form,
    sheet,
  )
  const timer = setInterval(() => {
    if (!element.isConnected) clearInterval(timer)
    else if (!element.hidden && !document.hidden && app.isOnline) refresh()
  }, refreshIntervalMs)

  async function refresh() {
    const uses = await read<SpaceUse[]>('spaces')
    if (!uses) return
    const sorted = [...uses].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }))
    setChildren(body, sorted.map(rowOf))
  }

  function rowOf(use: SpaceUse): HTMLElement {
    const row = rows.get(use.name) ?? newRow(use.name)
    rows.set(use.name, row)
    for (const [index, [, text]] of columns.entries()) setText(row.cells[index + 1] as HTMLElement, text(use))
    return row
  }

  function newRow(name: string) {
    const link = h('a', { href: pageOf(name, '#/traffic') }, name || 'Default space')
    return h(
      'tr',
      h('th', { scope: 'row' }, link),
      columns.map(() => h('td')),
    )
  }

  /** The URL at which other machines reach the service: the one chosen in the form, if there are several. */
  function address(): string | undefined {
    return choice.querySelector('select')?.value ?? urlsFor('phone', app.info)[0]
  }

  function drawChoice() {
    const urls = urlsFor('phone', app.info)
    form.hidden = app.info.spaces !== 'path'
    if (choice.dataset.urls === `${urls}`) return
    choice.dataset.urls = `${urls}`
    choice.replaceChildren(
      urls.length > 0
        ? field('The students reach this machine at', select({}, named(urls)))
        : h(
            'div.stack',
            h('p.callout', 'The service listens on this machine only. For a class, start it with:'),
            copyLine('npm start -- --data class.db --host 0.0.0.0'),
          ),
    )
  }

  async function handOut(event: Event) {
    event.preventDefault()
    const origin = address()
    const students = studentsOf(names.value)
    setText(message, problemOf(students))
    if (!origin || message.textContent) return
    const cards: HTMLElement[] = []
    for (const name of students) cards.push(await cardOf(origin, name))
    sheet.replaceChildren(...cards)
    print.hidden = false
    refresh()
  }

  return {
    element,
    show() {
      drawChoice()
      refresh()
    },
    faultsChanged: drawChoice,
  }
}

/** Turns the input (names of students, or their number) into names of spaces. */
function studentsOf(text: string): readonly string[] {
  const count = /^\s*(\d{1,3})\s*$/.exec(text)?.[1]
  const names =
    count === undefined
      ? text.split('\n').map((line) =>
          line
            .normalize('NFKD')
            .replace(/\p{M}/gu, '')
            .trim()
            .replace(/[^\w-]+/g, '-'),
        )
      : Array.from({ length: Number(count) }, (_, index) => `student-${index + 1}`)
  return names.filter((name) => name !== '')
}

function problemOf(students: readonly string[]): string {
  const twice = students.find((name, index) => students.indexOf(name) !== index)
  const bad = students.find((name) => !/^[\w-]{1,64}$/.test(name) || /^-+$/.test(name))
  if (students.length === 0 || students.length > maxStudents) return `Enter 1 to ${maxStudents} students.`
  if (bad !== undefined) return `An address has letters from a to z, digits, - and _, at most 64: not ${bad}.`
  return twice === undefined ? '' : `There are two of ${twice}.`
}

/** The card for a student: the base address of the space for a client, its /app, and a code that opens /app once. */
async function cardOf(origin: string, name: string): Promise<HTMLElement> {
  const url = `${origin}/~${name}`
  const answer = await send('POST', `~${name}/__admin/codes?validForSeconds=${codeSeconds}`)
  const { code = '', expiresAt = '' } = answer.status === 201 ? JSON.parse(answer.text) : {}
  const page = `${url}/app`
  return h(
    'section',
    { 'aria-label': name },
    h('h3', name),
    h('p', 'Base address of your client'),
    h('p', h('code', url)),
    qrImage(code ? `${page}#/connect?code=${code}` : page),
    h('p', 'Your requests, and what was wrong with them: scan, or open'),
    h('p', h('code', page)),
    code
      ? h('p', 'with the code ', h('b.mono', code), `, once, until ${formatDate(expiresAt)}`)
      : h('p.error', `There is no code: ${messageOf(answer)}`),
  )
}
