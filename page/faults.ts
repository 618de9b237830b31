import type { ActiveFault, Fault } from '../src/control/schema.ts'
import { type Answer, admin, baseUrl, currentToken, messageOf } from './client.ts'
import { button, copyButton, h, select, setChildren, setText, tabs } from './dom.ts'
import { counted, toCurl } from './format.ts'
import type { App, View } from './view.ts'

const kinds = { fail: 'Fail', delay: 'Delay', slow: 'Slow down', drop: 'Drop the connection' }
type FaultKind = keyof typeof kinds
/** The first words of the sentence that describes a fault, by kind. */
const verbs = { fail: 'Fail', delay: 'Delay', slow: 'Send', drop: 'Drop the connection of' }

const drops: Readonly<Record<NonNullable<Fault['connection']>, string>> = {
  reset: 'without any effect',
  lost: 'after the request took effect',
  truncate: 'after half of the response',
}

/** Presets fill in the form; nothing is added until it is submitted. */
const presets: readonly (readonly [name: string, faults: readonly Fault[]])[] = [
  ['Slow network', [{ delay: 200, maxDelay: 800 }, { bytesPerSecond: 20_000 }]],
  ['Flaky', [{ share: 0.2 }]],
  ['Down', [{}]],
  ['Lost answers', [{ method: 'POST', times: 1, connection: 'lost' }]],
  ['Slow body', [{ bytesPerSecond: 2000 }]],
  ['Expired tokens', [{ code: 401 }]],
]

const isKind = (name: string): name is FaultKind => Object.hasOwn(kinds, name)

type ShownFault = Fault & Partial<Pick<ActiveFault, 'used'>>

export const isUsedUp = ({ times = Number.POSITIVE_INFINITY, used = 0 }: ShownFault) => used >= times

const kindOf = ({ code, connection, delay, bytesPerSecond }: Fault): FaultKind => {
  if (connection) return 'drop'
  if (code !== undefined || (delay ?? bytesPerSecond) === undefined) return 'fail'
  return delay === undefined ? 'slow' : 'delay'
}

/** Returns the requests of a fault as text: `POST /api/todoitems`, `POST`, `* /api/todoitems` or an empty text. */
const requestsOf = ({ method, path }: Fault) => [method ?? (path && '*'), path].filter(Boolean).join(' ')

const splitRequests = (requests: string) => {
  const [, method = '', path = ''] = /^(\S*) ?(.*)$/s.exec(requests) ?? []
  return { method: method === '*' ? '' : method, path }
}

function nounOf(kind: FaultKind, requests: string, isPlural: boolean): string {
  const s = isPlural ? 's' : ''
  const { method, path } = splitRequests(requests)
  if (kind === 'slow') return `response${s}${requests && ` to ${method} ${path}`.trimEnd().replace(/ +/g, ' ')}`
  if (method && path) return requests
  return method ? `${method} request${s}` : path ? `request${s} to ${path}` : `request${s}`
}

const percent = (share: number) => Number((100 * share).toFixed(4))
const timeOf = ({ delay, maxDelay }: Fault) => (maxDelay === undefined ? `${delay}` : `${delay} to ${maxDelay}`)
const rateOf = (bytesPerSecond: number) => `${bytesPerSecond / 1000} kB/s`

/** Describes the effects of a fault that do not follow from its kind. */
function additionsOf(fault: Fault): string {
  const { times, share, delay, bytesPerSecond } = fault
  const kind = kindOf(fault)
  const parts = [
    kind !== 'delay' && delay !== undefined && `after ${timeOf(fault)} ms`,
    kind !== 'slow' && bytesPerSecond !== undefined && `sent at ${rateOf(bytesPerSecond)}`,
    times !== undefined && share !== undefined && `at most ${counted(times, 'time')}`,
  ]
  return parts.filter(Boolean).join(', ')
}

/** Turns the operation in a sentence into a `code` element. */
const marked = (sentence: string) =>
  sentence
    .split(/([A-Z]+ \/\S*)/)
    .map((part, index) =>
      index % 2 === 1 ? h('code', { class: `method ${part.split(' ')[0]?.toLowerCase()}` }, part) : part,
    )

/**
 * The values of the form, which are also parameters in the address; `code` is not among them, because the view Connect
 * uses it. `also` is JSON with the members of a fault for which the form has no field.
 */
type Values = Readonly<Record<'kind' | 'how' | 'requests' | Field | 'also', string>>
type Field = 'next' | 'share' | 'status' | 'connection' | 'delay' | 'maxDelay' | 'rate'

const defaultsOf = (kind: string): Values => ({
  kind,
  how: kind === 'delay' || kind === 'slow' ? 'every' : 'next',
  requests: '',
  next: '2',
  share: '20',
  status: '',
  connection: 'lost',
  delay: '300',
  maxDelay: '',
  rate: '2',
  also: '',
})

const isShown = ({ kind, how }: Values, name: string) =>
  ({
    next: how === 'next',
    share: how === 'share',
    status: kind === 'fail',
    connection: kind === 'drop',
    delay: kind === 'delay',
    maxDelay: kind === 'delay',
    rate: kind === 'slow',
  })[name] ?? true

function valuesOf(fault: ShownFault): Values {
  const { times, share, code, connection, delay, maxDelay, bytesPerSecond, used = 0 } = fault
  const kind = kindOf(fault)
  const defaults = defaultsOf(kind)
  // Changing a fault sets `used` to 0, so the form shows how many requests are left.
  const left = times === undefined || isUsedUp(fault) ? times : times - used
  const also: Fault = {
    ...(share !== undefined && left !== undefined && { times: left }),
    ...(kind !== 'delay' && delay !== undefined && { delay, ...(maxDelay !== undefined && { maxDelay }) }),
    ...(kind !== 'slow' && bytesPerSecond !== undefined && { bytesPerSecond }),
  }
  return {
    kind,
    how: share !== undefined ? 'share' : times !== undefined ? 'next' : 'every',
    requests: requestsOf(fault),
    next: `${left ?? defaults.next}`,
    share: share === undefined ? defaults.share : `${percent(share)}`,
    status: `${code ?? ''}`,
    connection: connection ?? defaults.connection,
    delay: `${delay ?? defaults.delay}`,
    maxDelay: `${maxDelay ?? ''}`,
    rate: bytesPerSecond === undefined ? defaults.rate : `${bytesPerSecond / 1000}`,
    also: Object.keys(also).length > 0 ? JSON.stringify(also) : '',
  }
}

function readAdditions({ also }: Values): Fault {
  try {
    return Object(JSON.parse(also || '{}'))
  } catch {
    return {}
  }
}

function faultOf(values: Values): Fault {
  const { kind, how, requests, next, share, status, connection, delay, maxDelay, rate } = values
  const { method, path } = splitRequests(requests)
  const { times, ...also } = readAdditions(values)
  return {
    ...(method && { method }),
    ...(path && { path }),
    ...(how === 'next' && { times: Number(next) }),
    ...(how === 'share' && times !== undefined && { times }),
    ...(how === 'share' && { share: Number((Number(share) / 100).toFixed(6)) }),
    ...(kind === 'fail' && status && { code: Number(status) }),
    ...(kind === 'drop' && { connection: connection as NonNullable<Fault['connection']> }),
    ...(kind === 'delay' && { delay: Number(delay), ...(maxDelay && { maxDelay: Number(maxDelay) }) }),
    ...(kind === 'slow' && { bytesPerSecond: Math.round(1000 * Number(rate)) }),
    ...also,
  }
}

const maxDelayMs = 60_000
const isWithin = (text: string, min: number, max: number, isWhole = true) =>
  text !== '' && Number(text) >= min && Number(text) <= max && (!isWhole || Number.isInteger(Number(text)))

type InfoOperations = App['info']['operations']

/** Finds the operations of a path, also of the path of an item. G1, G2: case and one trailing slash do not matter. */
function operationsOf(requests: string, operations: InfoOperations): InfoOperations {
  const { method, path } = splitRequests(requests)
  const paths = [path, path.replace(/[^/]+\/?$/, '{id}')].map((text) => text.toLowerCase().replace(/(?<=.)\/$/, ''))
  return operations.filter(
    (operation) => (!method || operation.method === method) && (!path || paths.includes(operation.path.toLowerCase())),
  )
}

const statusesOf = (operations: InfoOperations) => [...new Set(operations.flatMap(({ statuses }) => statuses))].sort()

/** Returns error messages by field, for values that are missing or impossible. */
function problemsOf(values: Values, operations: InfoOperations): Partial<Record<string, string | false>> {
  const { next, share, requests, status, delay, maxDelay, rate } = values
  const matching = operationsOf(requests, operations)
  const statuses = statusesOf(matching)
  const { delay: addedDelay, bytesPerSecond } = readAdditions(values)
  const problems = {
    next: !isWithin(next, 1, Number.MAX_SAFE_INTEGER) && 'How many? Enter a whole number, 1 or more.',
    share: !(isWithin(share, 0, 100, false) && Number(share) > 0) && 'How many percent? Enter more than 0, up to 100.',
    requests: matching.length === 0 && 'This service has no such operation.',
    status: status
      ? statuses.length > 0 &&
        !statuses.includes(Number(status)) &&
        `These requests can only have ${statuses.join(', ')}.`
      : (addedDelay ?? bytesPerSecond) !== undefined && 'Together with a delay or a rate, choose a status.',
    delay: !isWithin(delay, 0, maxDelayMs) && 'How long? Enter milliseconds, 0 to 60000.',
    maxDelay:
      maxDelay !== '' &&
      !isWithin(maxDelay, Number(delay), maxDelayMs) &&
      `Enter ${Number(delay)} to 60000, or nothing for a fixed time.`,
    rate: !isWithin(rate, 0.001, 10_000, false) && 'How fast? Enter 0.001 to 10000.',
  }
  return Object.fromEntries(Object.entries(problems).filter(([name, text]) => text && isShown(values, name)))
}

const invalid = '[aria-invalid=true]'
let lastProblem = 0

/** Fills a select. A value that is not offered becomes an option, too, so that it is not replaced silently. */
function fillOptions(
  target: HTMLSelectElement,
  offered: readonly string[],
  value: string,
  textOf: (value: string) => string,
) {
  const all = [...new Set([...offered, value])]
  target.replaceChildren(...all.map((option) => h('option', { value: option }, textOf(option))))
  target.value = value
}

/** A control with the words around it, and an error message for its value. */
function sentencePart<Input extends HTMLElement>(input: Input, before = '', after = '') {
  const message = h('small.problem', { id: `problem-${++lastProblem}` })
  input.setAttribute('aria-describedby', message.id)
  return { input, message, element: h('span.slot', h('span', before, input, after), message) }
}

function sentenceParts() {
  const number = (label: string, properties = {}) =>
    h('input', { type: 'number', min: '0', step: 'any', inputmode: 'decimal', 'aria-label': label, ...properties })
  return {
    next: sentencePart(number('Number of requests')),
    share: sentencePart(number('Percent'), '', '% of'),
    requests: sentencePart(h('select', { 'aria-label': 'Which requests' })),
    status: sentencePart(h('select', { 'aria-label': 'With' }), 'with'),
    connection: sentencePart(select({ 'aria-label': 'When' }, drops)),
    delay: sentencePart(number('Milliseconds'), 'by', 'to'),
    maxDelay: sentencePart(number('At most, in milliseconds', { placeholder: 'same' }), '', 'ms'),
    rate: sentencePart(number('kB/s', { list: 'rates' }), 'at', 'kB/s'),
  }
}

/** The form of a fault, which reads as a sentence: tabs for its kind, then words and controls. */
function sentenceForm(app: App, initial: Values, onChange: () => void) {
  let kind = isKind(initial.kind) ? initial.kind : 'fail'
  let { also } = initial
  const how = select({ 'aria-label': 'How many' }, { every: 'every', next: 'the next', share: 'a share of' })
  const parts = sentenceParts()
  const verb = h('span')
  const kindTabs = tabs('Kind', kinds, choose)
  const addition = h('span')
  const additions = h('p.line', addition, button('Remove', removeAdditions, { class: 'quiet small' }))
  const note = h('p.hint')
  const words = Object.values(parts).map((part) => part.element)
  const element = h(
    'fieldset.stack.sentence',
    { 'aria-label': 'Sentence', oninput: update },
    kindTabs.element,
    h('div.line.words', verb, how, words),
    additions,
    note,
  )

  const values = () => {
    const entries = Object.entries(parts).map(([name, { input }]) => [name, input.value])
    return { how: how.value, ...Object.fromEntries(entries), kind, also } as Values
  }

  function choose(chosen: string) {
    if (chosen === kind || !isKind(chosen)) return
    kind = chosen
    also = ''
    how.value = defaultsOf(kind).how
    update()
  }

  function removeAdditions() {
    also = ''
    how.focus()
    update()
  }

  function fill(to: Values) {
    const { operations } = app.info
    const matching = operationsOf(to.requests, operations)
    const isPlural = to.how === 'share' || (to.how === 'next' && to.next !== '1')
    const all = to.how === 'share' ? 'all ' : ''
    const noun = (requests: string) => `${requests ? '' : all}${nounOf(kind, requests, isPlural)}`
    fillOptions(parts.requests.input, ['', ...operations.map(requestsOf)], to.requests, noun)
    const statuses = ['', ...statusesOf(matching).map(String)]
    fillOptions(parts.status.input, statuses, to.status, (status) => status || 'the failure of the store')
    how.value = to.how
    for (const name of ['next', 'share', 'connection', 'delay', 'maxDelay', 'rate'] as const) {
      const { input } = parts[name]
      if (input.value !== to[name]) input.value = to[name]
    }
    for (const choice of [how, parts.connection.input]) if (choice.selectedIndex < 0) choice.selectedIndex = 0
    kindTabs.choose(kind)
    setText(verb, verbs[kind])
    showProblems()
    showNotes(matching, to.status)
  }

  function showProblems() {
    const current = values()
    const problems = problemsOf(current, app.info.operations)
    for (const [name, part] of Object.entries(parts)) {
      part.element.hidden = !isShown(current, name)
      setText(part.message, problems[name] || '')
      part.input.ariaInvalid = `${Boolean(problems[name])}`
    }
  }

  function showNotes(matching: InfoOperations, status: string) {
    const extra = also ? additionsOf(faultOf(values())) : ''
    additions.hidden = !extra
    setText(addition, `Also: ${extra}.`)
    const having = matching.filter(({ statuses }) => statuses.includes(Number(status)))
    note.hidden = kind !== 'fail' || !status || having.length === 0 || having.length === matching.length
    setText(note, `Only these can have ${status}: ${having.map(requestsOf).join(', ')}.`)
  }

  function update() {
    fill(values())
    onChange()
  }

  fill({ ...initial, kind })

  return {
    element,
    values,
    isComplete: () => !element.querySelector(invalid),
    focus: () => (element.querySelector<HTMLElement>(invalid) ?? how).focus(),
  }
}

const strip = ({ id: _, used: _used, flag: _flag, description: _description, ...fault }: ActiveFault): Fault => fault

/** Returns the faults that are not used up, with the remaining number of requests, so that they can be added again. */
const remaining = (faults: readonly ActiveFault[]) =>
  faults
    .filter((fault) => !isUsedUp(fault))
    .map((fault) => ({ ...strip(fault), ...(fault.times !== undefined && { times: fault.times - fault.used }) }))

/** Adds and removes faults, and offers to undo that. Errors are shown in the form or below the list. */
function createFaultChanges(app: App) {
  const formError = h('p.error', { role: 'alert' })
  const listError = h('p.error', { role: 'alert' })
  let dismiss = () => {}

  /** Shows a message in place of the previous one, which is no longer true. */
  function say(text: string, undo?: () => unknown) {
    dismiss()
    dismiss = app.notify(text, undo && { label: 'Undo', run: undo })
  }

  /** Adds faults after those that exist. */
  async function add(faults: readonly Fault[], what: string) {
    const added: ActiveFault[] = []
    for (const fault of faults) {
      const response = await admin('POST', 'faults', JSON.stringify(fault))
      setText(formError, response.status === 201 ? '' : messageOf(response))
      if (response.status !== 201) break
      added.push(JSON.parse(response.text))
    }
    if (added.length > 0) say(`${what}: ${added.map(({ description }) => description).join('; ')}`, () => remove(added))
  }

  const remove = async (faults: readonly ActiveFault[]) =>
    report(...(await Promise.all(faults.map(({ id }) => admin('DELETE', `faults/${id}`)))))

  /** Shows the first error. A fault that is already gone (404) is not an error. */
  function report(...responses: readonly Answer[]) {
    const failed = responses.find(({ status }) => status !== 204 && status !== 404)
    setText(listError, failed ? messageOf(failed) : '')
    return !failed
  }

  function sayRemoved(text: string, faults: readonly ActiveFault[]) {
    const left = remaining(faults)
    say(text, left.length > 0 ? () => add(left, 'Added again') : undefined)
  }

  async function removeOne(fault: ActiveFault) {
    if (await remove([fault])) sayRemoved(`Removed: ${fault.description}`, [fault])
  }

  async function removeAll() {
    const { faults } = app
    const flags = faults.filter(({ flag }) => flag)
    if (report(await admin('DELETE', 'faults')) && (await remove(flags))) sayRemoved('All faults are removed.', faults)
  }

  return { formError, listError, add, removeOne, removeAll }
}
type FaultChanges = ReturnType<typeof createFaultChanges>

function faultRow(changes: FaultChanges, edit: (fault: ActiveFault) => void) {
  let current: ActiveFault
  const sentence = h('p')
  const state = h('small')
  const editButton = button('Edit', () => edit(current), { class: 'quiet small' })
  const removal = button('Remove', () => changes.removeOne(current), { class: 'small' })
  const element = h('li', sentence, state, editButton, removal)
  return {
    element,
    update(fault: ActiveFault) {
      current = fault
      const text = fault.description
      if (sentence.textContent !== text) sentence.replaceChildren(...marked(text))
      editButton.ariaLabel = `Edit: ${text}`
      removal.ariaLabel = `Remove: ${text}`
      element.classList.toggle('used-up', isUsedUp(fault))
      const count = fault.used === 0 ? 'not used yet' : `used ${counted(fault.used, 'time')}`
      setText(
        state,
        [fault.flag && `by ${fault.flag}`, isUsedUp(fault) ? 'used up' : count].filter(Boolean).join(' · '),
      )
    },
  }
}

type FaultRow = ReturnType<typeof faultRow>

/** The list of the faults of the space. */
function faultList(changes: FaultChanges, edit: (fault: ActiveFault) => void) {
  const rows = new Map<number, FaultRow>()
  const list = h('ul.faults', { 'aria-label': 'Active faults' })
  const none = h('p.hint', 'No faults: requests get their normal responses.')
  const several = h(
    'p.hint',
    'A request gets the first failure, the first delay and the first rate of those that are about it.',
  )
  const clear = button('Remove all', changes.removeAll, { class: 'small' })
  const title = h('h2', { tabindex: '-1' }, 'Active faults')

  function removeRow(id: number, { element }: FaultRow) {
    const hadFocus = element.contains(document.activeElement)
    const next = element.nextElementSibling ?? element.previousElementSibling
    element.remove()
    rows.delete(id)
    if (hadFocus) (next?.querySelector<HTMLElement>('button:last-child') ?? title).focus()
  }

  return {
    element: h('div.card.stack', h('div.line', title, clear), none, list, several, changes.listError),
    update(faults: readonly ActiveFault[]) {
      for (const [id, row] of rows) if (!faults.some((fault) => fault.id === id)) removeRow(id, row)
      for (const fault of faults) {
        const row = rows.get(fault.id) ?? faultRow(changes, edit)
        rows.set(fault.id, row)
        row.update(fault)
      }
      setChildren(
        list,
        faults.flatMap(({ id }) => rows.get(id)?.element ?? []),
      )
      none.hidden = faults.length > 0
      several.hidden = faults.length < 2
      clear.hidden = faults.length === 0
    },
    mark(editedId: number | undefined) {
      for (const [id, { element }] of rows) element.classList.toggle('edited', id === editedId)
    },
  }
}

const faultsPath = '/__admin/faults'

/** Shows the command that sends the same requests as the form. */
function commandBox(app: App) {
  const command = h('pre.command', { tabindex: '0', 'aria-label': 'Command' })
  const hint = h('p.hint')
  const copy = copyButton('Copy', () => `${command.textContent}`, { class: 'small' })
  return {
    element: h('div.terminal.stack', h('div.line', hint, copy), command),
    /** `faults` is empty if a sentence is not complete. */
    show(faults: readonly Fault[], editedId: number | undefined) {
      const [method, path] = editedId === undefined ? ['POST', faultsPath] : ['PUT', `${faultsPath}/${editedId}`]
      const headers = { 'content-type': 'application/json' }
      const isSecured = currentToken() !== '' && !app.info.token
      const commands = faults.map((fault) =>
        toCurl(baseUrl, { method, path, query: '', headers, body: JSON.stringify(fault) }, isSecured),
      )
      setText(command, commands.join('\n'))
      const isComplete = faults.length > 0
      setText(
        hint,
        isComplete ? 'From a terminal' : 'The command for a terminal is here when the sentence is complete.',
      )
      command.hidden = copy.hidden = !isComplete
    },
  }
}

const firstDraft = [defaultsOf('fail')]

export function faultsView(app: App): View {
  /** The id of the fault that the form changes; undefined if it adds one. */
  let editedId: number | undefined
  let sentences: ReturnType<typeof sentenceForm>[] = []
  /** The parameters in the address, as JSON. */
  let shown = ''
  const changes = createFaultChanges(app)
  const list = faultList(changes, startEdit)
  const title = h('h2')
  const presetButtons = presets.map(([name, faults]) =>
    button(name, () => draft(faults.map(valuesOf)), { class: 'small' }),
  )
  const presetLine = h(
    'div.line.presets',
    { role: 'group', 'aria-label': 'Presets' },
    h('span.hint', 'Presets'),
    presetButtons,
  )
  const forms = h('div.stack')
  const submit = h('button.primary')
  const cancel = button('Cancel', () => draft(firstDraft))
  const command = commandBox(app)
  const form = h(
    'form.card.stack',
    { onsubmit: save, 'aria-label': 'Fault', novalidate: true },
    title,
    presetLine,
    forms,
    h('div.line', submit, cancel),
    changes.formError,
    command.element,
    h(
      'datalist',
      { id: 'rates' },
      ['2', '20', '100', '1000'].map((value) => h('option', { value })),
    ),
  )
  const element = h(
    'section.view.narrow.stack.faults-view',
    { 'aria-label': 'Faults' },
    h('h1.offscreen', 'Faults'),
    list.element,
    form,
  )

  /** Fills in the form. */
  function draft(all: readonly Values[], id?: number) {
    editedId = id
    sentences = all.map((values) => sentenceForm(app, values, changed))
    forms.replaceChildren(...sentences.map((sentence) => sentence.element))
    setText(changes.formError, '')
    changed()
  }

  const drafted = () => sentences.map((sentence) => faultOf(sentence.values()))

  function changed() {
    const isEdit = editedId !== undefined
    const faults = drafted()
    setText(title, isEdit ? 'Change this fault' : 'Add a fault')
    setText(submit, isEdit ? 'Apply' : sentences.length > 1 ? 'Add both' : 'Add')
    cancel.hidden = !isEdit && sentences.length === 1
    presetLine.hidden = isEdit
    command.show(sentences.every((sentence) => sentence.isComplete()) ? faults : [], editedId)
    const text = JSON.stringify(faults)
    for (const [index, preset] of presetButtons.entries())
      preset.ariaPressed = `${!isEdit && JSON.stringify(presets[index]?.[1]) === text}`
    list.mark(editedId)
    saveParameters()
  }

  function saveParameters() {
    const parameters: Record<string, string> = Object.assign(
      {},
      ...sentences.map((sentence, index) => parametersOf(sentence.values(), index)),
    )
    shown = JSON.stringify(parameters)
    app.setParameters('faults', parameters)
  }

  async function save(event: Event) {
    event.preventDefault()
    const incomplete = sentences.find((sentence) => !sentence.isComplete())
    if (incomplete) return incomplete.focus()
    const faults = drafted()
    if (editedId === undefined) return changes.add(faults, 'Added')
    const response = await admin('PUT', `faults/${editedId}`, JSON.stringify(faults[0]))
    setText(changes.formError, response.status === 204 ? '' : messageOf(response))
    if (response.status === 204) draft(firstDraft)
  }

  function startEdit(fault: ActiveFault) {
    draft([valuesOf(fault)], fault.id)
    sentences[0]?.focus()
    form.scrollIntoView({ block: 'nearest' })
  }

  return {
    element,
    show({ id, ...parameters }) {
      // A link without parameters, such as that in the bar, keeps the sentences in the form.
      if (sentences.length > 0 && ['{}', shown].includes(JSON.stringify(parameters))) changed()
      else {
        const all = [draftIn(parameters, 0)]
        for (let index = 1; parameters[`kind${index + 1}`]; index++) all.push(draftIn(parameters, index))
        draft(all)
      }
      if (id) list.mark(Number(id))
    },
    faultsChanged() {
      list.update(app.faults)
      list.mark(editedId)
      if (editedId === undefined || app.faults.some(({ id }) => id === editedId)) return
      editedId = undefined
      setText(changes.formError, 'The fault that you were changing is gone. Add adds it again.')
      changed()
    },
  }
}

/** Returns the name of a parameter in the address: `next` for the first sentence, `next2` for the second. */
const nameIn = (name: string, index: number) => (index === 0 ? name : `${name}${index + 1}`)

function parametersOf(values: Values, index: number): Record<string, string> {
  const defaults = defaultsOf(values.kind)
  const shown = Object.entries(values).filter(([name, value]) =>
    name === 'kind'
      ? index > 0 || value !== 'fail'
      : value !== '' && isShown(values, name) && value !== defaults[name as keyof Values],
  )
  return Object.fromEntries(shown.map(([name, value]) => [nameIn(name, index), value]))
}

function draftIn(parameters: Readonly<Partial<Record<string, string>>>, index: number): Values {
  const defaults = defaultsOf(parameters[nameIn('kind', index)] ?? 'fail')
  const entries = Object.entries(defaults).map(([name, value]) => [name, parameters[nameIn(name, index)] ?? value])
  return Object.fromEntries(entries)
}
