import type { FaultRule, UsedRule } from '../src/control/schema.ts'
import { type Answer, admin, baseUrl, currentToken, messageOf } from './client.ts'
import { copyButton, h, type SelectOption, select, setText, tabs } from './dom.ts'
import { toCurl } from './format.ts'
import type { App, View } from './view.ts'

type SwitchKind = 'fail' | 'delay' | 'slow' | 'drop'

const kinds: readonly (readonly [kind: SwitchKind, tab: string, verb: string])[] = [
  ['fail', 'Fail', 'Fail'],
  ['delay', 'Delay', 'Delay'],
  ['slow', 'Slow down', 'Send'],
  ['drop', 'Drop the connection', 'Drop the connection of'],
]

const drops: readonly (readonly [NonNullable<FaultRule['fault']>, string])[] = [
  ['reset', 'without any effect'],
  ['lost', 'after the request took effect'],
  ['truncate', 'after half of the response'],
]
const dropNames: Partial<Record<string, string>> = Object.fromEntries(drops)

/** They are sentences that are filled in. */
const presets: readonly (readonly [name: string, rules: readonly FaultRule[]])[] = [
  ['Slow network', [{ delay: 200, maxDelay: 800 }, { bytesPerSecond: 20_000 }]],
  ['Flaky', [{ share: 0.2 }]],
  ['Down', [{}]],
  ['Lost answers', [{ method: 'POST', times: 1, fault: 'lost' }]],
  ['Slow body', [{ bytesPerSecond: 2000 }]],
  ['Expired tokens', [{ code: 401 }]],
]

type ShownRule = FaultRule & Partial<Pick<UsedRule, 'used'>>

export const isUsedUp = ({ times = Number.POSITIVE_INFINITY, used = 0 }: ShownRule) => used >= times

const kindOf = ({ code, fault, delay, bytesPerSecond }: FaultRule): SwitchKind => {
  if (fault) return 'drop'
  if (code !== undefined || (delay ?? bytesPerSecond) === undefined) return 'fail'
  return delay === undefined ? 'slow' : 'delay'
}

/** `POST /api/todoitems`, `POST`, `* /api/todoitems` or nothing. */
const requestsOf = ({ method, path }: FaultRule) => [method ?? (path && '*'), path].filter(Boolean).join(' ')

const splitRequests = (requests: string) => {
  const [, method = '', path = ''] = /^(\S*) ?(.*)$/s.exec(requests) ?? []
  return { method: method === '*' ? '' : method, path }
}

function nounOf(kind: SwitchKind, requests: string, isPlural: boolean): string {
  const s = isPlural ? 's' : ''
  const { method, path } = splitRequests(requests)
  if (kind === 'slow') return `response${s}${requests && ` to ${method} ${path}`.trimEnd().replace(/ +/g, ' ')}`
  if (method && path) return requests
  return method ? `${method} request${s}` : path ? `request${s} to ${path}` : `request${s}`
}

const percent = (share: number) => Number((100 * share).toFixed(4))
const timeOf = ({ delay, maxDelay }: FaultRule) => (maxDelay === undefined ? `${delay}` : `${delay} to ${maxDelay}`)
const rateOf = (bytesPerSecond: number) => `${bytesPerSecond / 1000} kB/s`

/** What a rule does in addition to what its kind says. */
function additionsOf(rule: FaultRule): string {
  const { times, share, delay, bytesPerSecond } = rule
  const kind = kindOf(rule)
  const parts = [
    kind !== 'delay' && delay !== undefined && `after ${timeOf(rule)} ms`,
    kind !== 'slow' && bytesPerSecond !== undefined && `sent at ${rateOf(bytesPerSecond)}`,
    times !== undefined && share !== undefined && `at most ${times} ${times === 1 ? 'time' : 'times'}`,
  ]
  return parts.filter(Boolean).join(', ')
}

/** A rule as a sentence. */
export function describeRule(rule: ShownRule): string {
  const { times, share, code, fault = '', bytesPerSecond = 0, used = 0 } = rule
  const kind = kindOf(rule)
  const requests = requestsOf(rule)
  const noun = (isPlural: boolean) => nounOf(kind, requests, isPlural)
  const next = (count: number) => {
    if (isUsedUp(rule)) return `${count} ${noun(count > 1)}`
    if (used > 0) return `the next ${count - used} of ${count} ${noun(true)}`
    return count === 1 ? `the next ${noun(false)}` : `the next ${count} ${noun(true)}`
  }
  const which =
    share !== undefined
      ? `${percent(share)} % of ${requests ? '' : 'all '}${noun(true)}`
      : times === undefined
        ? `every ${noun(false)}`
        : next(times)
  // A switch for all requests applies a status only to operations that have it.
  const status = code === undefined ? '' : ` with ${code}${requests.includes('/') ? '' : ' where possible'}`
  const sentence = {
    fail: `Fail ${which}${status}`,
    delay: `Delay ${which} by ${timeOf(rule)} ms`,
    slow: `Send ${which} at ${rateOf(bytesPerSecond)}`,
    drop: `Drop the connection of ${which} ${dropNames[fault]}`,
  }[kind]
  return [sentence, additionsOf(rule)].filter(Boolean).join(', ')
}

/** A sentence with its operation as code. */
const marked = (sentence: string) =>
  sentence
    .split(/([A-Z]+ \/\S*)/)
    .map((part, index) =>
      index % 2 === 1 ? h('code', { class: `method ${part.split(' ')[0]?.toLowerCase()}` }, part) : part,
    )

/**
 * The form of a sentence, as the address has it too, where `code` would be the one of the view Connect. `also` has the members of
 * a rule for which there is no field.
 */
type Values = Readonly<Record<'kind' | 'how' | 'requests' | Field | 'also', string>>
type Field = 'next' | 'share' | 'status' | 'fault' | 'delay' | 'maxDelay' | 'rate'

const defaultsOf = (kind: string): Values => ({
  kind,
  how: kind === 'delay' || kind === 'slow' ? 'every' : 'next',
  requests: '',
  next: '2',
  share: '20',
  status: '',
  fault: 'lost',
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
    fault: kind === 'drop',
    delay: kind === 'delay',
    maxDelay: kind === 'delay',
    rate: kind === 'slow',
  })[name] ?? true

function valuesOf(rule: ShownRule): Values {
  const { times, share, code, fault, delay, maxDelay, bytesPerSecond, used = 0 } = rule
  const kind = kindOf(rule)
  const defaults = defaultsOf(kind)
  // Changing a rule sets `used` to 0, so the number is that of the requests that are left.
  const left = times === undefined || isUsedUp(rule) ? times : times - used
  const also: FaultRule = {
    ...(share !== undefined && left !== undefined && { times: left }),
    ...(kind !== 'delay' && delay !== undefined && { delay, ...(maxDelay !== undefined && { maxDelay }) }),
    ...(kind !== 'slow' && bytesPerSecond !== undefined && { bytesPerSecond }),
  }
  return {
    kind,
    how: share !== undefined ? 'share' : times !== undefined ? 'next' : 'every',
    requests: requestsOf(rule),
    next: `${left ?? defaults.next}`,
    share: share === undefined ? defaults.share : `${percent(share)}`,
    status: `${code ?? ''}`,
    fault: fault ?? defaults.fault,
    delay: `${delay ?? defaults.delay}`,
    maxDelay: `${maxDelay ?? ''}`,
    rate: bytesPerSecond === undefined ? defaults.rate : `${bytesPerSecond / 1000}`,
    also: Object.keys(also).length > 0 ? JSON.stringify(also) : '',
  }
}

function readAdditions({ also }: Values): FaultRule {
  try {
    return Object(JSON.parse(also || '{}'))
  } catch {
    return {}
  }
}

function ruleOf(values: Values): FaultRule {
  const { kind, how, requests, next, share, status, fault, delay, maxDelay, rate } = values
  const { method, path } = splitRequests(requests)
  const { times, ...also } = readAdditions(values)
  return {
    ...(method && { method }),
    ...(path && { path }),
    ...(how === 'next' && { times: Number(next) }),
    ...(how === 'share' && times !== undefined && { times }),
    ...(how === 'share' && { share: Number((Number(share) / 100).toFixed(6)) }),
    ...(kind === 'fail' && status && { code: Number(status) }),
    ...(kind === 'drop' && { fault: fault as NonNullable<FaultRule['fault']> }),
    ...(kind === 'delay' && { delay: Number(delay), ...(maxDelay && { maxDelay: Number(maxDelay) }) }),
    ...(kind === 'slow' && { bytesPerSecond: Math.round(1000 * Number(rate)) }),
    ...also,
  }
}

const maxDelayMs = 60_000
const isWithin = (text: string, min: number, max: number, isWhole = true) =>
  text !== '' && Number(text) >= min && Number(text) <= max && (!isWhole || Number.isInteger(Number(text)))

type InfoOperations = App['info']['operations']

/** G1, G2: neither case nor one trailing slash of a path matters. It may be that of one item. */
function operationsOf(requests: string, operations: InfoOperations): InfoOperations {
  const { method, path } = splitRequests(requests)
  const paths = [path, path.replace(/[^/]+\/?$/, '{id}')].map((one) => one.toLowerCase().replace(/(?<=.)\/$/, ''))
  return operations.filter(
    (operation) => (!method || operation.method === method) && (!path || paths.includes(operation.path.toLowerCase())),
  )
}

const statusesOf = (operations: InfoOperations) => [...new Set(operations.flatMap(({ statuses }) => statuses))].sort()

/** What is missing in a sentence, or impossible, by field. */
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

/** A sentence as a form: tabs for its kind, then words and controls. */
function sentenceForm(app: App, given: Values, onChange: () => void) {
  let { kind, also } = given
  const parts: [name: Name, part: HTMLElement, message: HTMLElement][] = []
  const number = (label: string, list?: string) =>
    h('input', { type: 'number', min: '0', step: 'any', inputmode: 'decimal', 'aria-label': label, list })
  const inputs = {
    how: select({ 'aria-label': 'How many' }, [
      ['every', 'every'],
      ['next', 'the next'],
      ['share', 'a share of'],
    ]),
    next: number('Number of requests'),
    share: number('Percent'),
    requests: h('select', { 'aria-label': 'Which requests' }),
    status: h('select', { 'aria-label': 'With' }),
    fault: select({ 'aria-label': 'When' }, drops),
    delay: number('Milliseconds'),
    maxDelay: number('At most, in milliseconds'),
    rate: number('kB/s', 'rates'),
  }
  type Name = keyof typeof inputs
  inputs.maxDelay.placeholder = 'same'
  const verb = h('span')
  const kindTabs = tabs(
    'Kind',
    kinds.map(([value, label]) => [value, label]),
    choose,
  )
  const addition = h('span')
  const additions = h(
    'p',
    { class: 'line' },
    addition,
    h('button', { type: 'button', class: 'quiet small', onclick: removeAdditions }, 'Remove'),
  )
  const note = h('p', { class: 'hint' })
  const element = h(
    'fieldset',
    { class: 'sentence', 'aria-label': 'Sentence', oninput: update },
    kindTabs.element,
    h(
      'div',
      { class: 'words' },
      verb,
      inputs.how,
      part('next'),
      part('share', '', '% of'),
      part('requests'),
      part('delay', 'by', 'to'),
      part('maxDelay', '', 'ms'),
      part('status', 'with'),
      part('rate', 'at', 'kB/s'),
      part('fault'),
    ),
    additions,
    note,
  )

  /** A control between its words, and beside it what is wrong with it. */
  function part(name: Name, before = '', after = '') {
    const message = h('small', { class: 'problem', id: `problem-${++lastProblem}` })
    inputs[name].setAttribute('aria-describedby', message.id)
    const all = h('span', { class: 'slot' }, h('span', {}, before, inputs[name], after), message)
    parts.push([name, all, message])
    return all
  }

  const values = () => {
    const entries = Object.entries(inputs).map(([name, { value }]) => [name, value])
    return { ...Object.fromEntries(entries), kind, also } as Values
  }

  function choose(chosen: string) {
    if (chosen === kind) return
    kind = chosen
    also = ''
    inputs.how.value = defaultsOf(kind).how
    update()
  }

  function removeAdditions() {
    also = ''
    inputs.how.focus()
    update()
  }

  /** A value that is not offered stays, with a message, instead of becoming another one. */
  function fillOptions(target: HTMLSelectElement, options: readonly SelectOption[], value: string) {
    const all = options.some(([key]) => key === value) ? options : [...options, [value, value] as const]
    target.replaceChildren(...all.map(([key, text]) => h('option', { value: key }, text)))
    target.value = value
  }

  function fill(to: Values) {
    const { operations } = app.info
    const { how, next } = to
    const isPlural = how === 'share' || (how === 'next' && next !== '1')
    const known = ['', ...operations.map(requestsOf)]
    const requests = known.includes(to.requests) ? known : [...known, to.requests]
    const all = how === 'share' ? 'all ' : ''
    fillOptions(
      inputs.requests,
      requests.map((one) => [one, `${one ? '' : all}${nounOf(kind as SwitchKind, one, isPlural)}`]),
      to.requests,
    )
    const matching = operationsOf(to.requests, operations)
    fillOptions(
      inputs.status,
      [
        ['', 'the failure of the store'],
        ...statusesOf(matching).map((status): SelectOption => [`${status}`, `${status}`]),
      ],
      to.status,
    )
    for (const name of ['how', 'next', 'share', 'fault', 'delay', 'maxDelay', 'rate'] as const)
      if (inputs[name].value !== to[name]) inputs[name].value = to[name]
    for (const name of ['how', 'fault'] as const) if (inputs[name].selectedIndex < 0) inputs[name].selectedIndex = 0
    kindTabs.choose(kind)
    setText(verb, kinds.find(([value]) => value === kind)?.[2] ?? '')
    const current = values()
    const problems = problemsOf(current, operations)
    for (const [name, all, message] of parts) {
      all.hidden = !isShown(current, name)
      setText(message, problems[name] || '')
      inputs[name].setAttribute('aria-invalid', `${Boolean(problems[name])}`)
    }
    const extra = also ? additionsOf(ruleOf(current)) : ''
    additions.hidden = !extra
    setText(addition, `Also: ${extra}.`)
    const having = matching.filter(({ statuses }) => statuses.includes(Number(to.status)))
    note.hidden = kind !== 'fail' || !to.status || having.length === 0 || having.length === matching.length
    setText(note, `Only these can have ${to.status}: ${having.map(requestsOf).join(', ')}.`)
  }

  function update() {
    fill(values())
    onChange()
  }

  if (!kinds.some(([value]) => value === kind)) kind = 'fail'
  fill({ ...given, kind })

  return {
    element,
    values,
    isComplete: () => !element.querySelector(invalid),
    focus: () => (element.querySelector<HTMLElement>(invalid) ?? inputs.how).focus(),
  }
}

const strip = ({ id: _, used: _used, flag: _flag, ...rule }: UsedRule): FaultRule => rule

/** What is left of rules, to add them again. */
const remaining = (rules: readonly UsedRule[]) =>
  rules
    .filter((rule) => !isUsedUp(rule))
    .map((rule) => ({ ...strip(rule), ...(rule.times !== undefined && { times: rule.times - rule.used }) }))

export function switchesView(app: App): View {
  let dismiss = () => {}
  /** One message at a time: the next one makes it untrue. */
  const say: App['notify'] = (text, action) => {
    dismiss()
    dismiss = app.notify(text, action)
    return dismiss
  }
  /** The rule that the form changes. */
  let editedId: number | undefined
  let sentences: ReturnType<typeof sentenceForm>[] = []
  /** The parameters of the address, as JSON. */
  let shown = ''
  const rows = new Map<number, { readonly element: HTMLElement; update(rule: UsedRule): void }>()

  const list = h('ul', { class: 'rules', 'aria-label': 'Switched on' })
  const none = h('p', { class: 'hint' }, 'Nothing is switched on: requests get their normal responses.')
  const several = h(
    'p',
    { class: 'hint' },
    'A request gets the first failure, the first delay and the first rate of those that are about it.',
  )
  const allOff = h('button', { type: 'button', class: 'small', onclick: switchAllOff }, 'Switch all off')
  const listTitle = h('h2', { tabindex: '-1' }, 'Switched on')
  const listError = h('p', { class: 'error', role: 'alert' })

  const title = h('h2')
  const presetButtons = presets.map(([name, rules]) =>
    h('button', { type: 'button', class: 'small', onclick: () => draft(rules.map(valuesOf)) }, name),
  )
  const presetLine = h(
    'div',
    { class: 'line presets', role: 'group', 'aria-label': 'Presets' },
    h('span', { class: 'hint' }, 'Presets'),
    presetButtons,
  )
  const forms = h('div', { class: 'stack' })
  const error = h('p', { class: 'error', role: 'alert' })
  const submit = h('button', { class: 'primary' })
  const cancel = h('button', { type: 'button', onclick: () => draft([defaultsOf('fail')]) }, 'Cancel')
  const command = h('pre', { class: 'command', tabindex: '0', 'aria-label': 'Command' })
  const commandHint = h('p', { class: 'hint' })
  const copy = copyButton('Copy', () => `${command.textContent}`, { class: 'small' })
  const form = h(
    'form',
    { class: 'card stack', onsubmit: save, 'aria-label': 'Switch', novalidate: true },
    title,
    presetLine,
    forms,
    h('div', { class: 'line' }, submit, cancel),
    error,
    h('div', { class: 'terminal' }, h('div', { class: 'line' }, commandHint, copy), command),
    h(
      'datalist',
      { id: 'rates' },
      ['2', '20', '100', '1000'].map((value) => h('option', { value })),
    ),
  )
  const element = h(
    'section',
    { class: 'view narrow switches', 'aria-label': 'Switches' },
    h('h1', { class: 'offscreen' }, 'Switches'),
    h('div', { class: 'card stack' }, h('div', { class: 'line' }, listTitle, allOff), none, list, several, listError),
    form,
  )

  /** Fills the form. Nothing is switched on before somebody presses the button. */
  function draft(all: readonly Values[], id?: number) {
    editedId = id
    sentences = all.map((values) => sentenceForm(app, values, changed))
    forms.replaceChildren(...sentences.map((sentence) => sentence.element))
    setText(error, '')
    changed()
  }

  const drafted = () => sentences.map((sentence) => ruleOf(sentence.values()))

  function changed() {
    const isEdit = editedId !== undefined
    const isComplete = sentences.every((sentence) => sentence.isComplete())
    setText(title, isEdit ? 'Change this switch' : 'Add a switch')
    setText(submit, isEdit ? 'Apply' : sentences.length > 1 ? 'Add both' : 'Add')
    cancel.hidden = !isEdit && sentences.length === 1
    presetLine.hidden = isEdit
    const headers = { 'content-type': 'application/json' }
    const [method, path] = isEdit ? ['PUT', `/__admin/faults/${editedId}`] : ['POST', '/__admin/faults']
    const isSecured = currentToken() !== '' && !app.info.token
    const rules = drafted()
    const commands = rules.map((rule) =>
      toCurl(baseUrl, { method, path, query: '', headers, body: JSON.stringify(rule) }, isSecured),
    )
    setText(command, isComplete ? commands.join('\n') : '')
    setText(
      commandHint,
      isComplete ? 'From a terminal' : 'The command for a terminal is here when the sentence is complete.',
    )
    command.hidden = copy.hidden = !isComplete
    const text = JSON.stringify(rules)
    for (const [index, [, preset]] of presets.entries())
      presetButtons[index]?.setAttribute('aria-pressed', `${!isEdit && JSON.stringify(preset) === text}`)
    for (const [id, { element: row }] of rows) row.classList.toggle('edited', id === editedId)
    const parameters: Record<string, string> = Object.assign(
      {},
      ...sentences.map((sentence, index) => parametersOf(sentence.values(), index)),
    )
    shown = JSON.stringify(parameters)
    app.setParameters('switches', parameters)
  }

  async function save(event: Event) {
    event.preventDefault()
    const incomplete = sentences.find((sentence) => !sentence.isComplete())
    if (incomplete) return incomplete.focus()
    const rules = drafted()
    if (editedId === undefined) return add(rules, 'Switched on')
    const response = await admin('PUT', `faults/${editedId}`, JSON.stringify(rules[0]))
    setText(error, response.status === 204 ? '' : messageOf(response))
    if (response.status === 204) draft([defaultsOf('fail')])
  }

  /** Behind the others, which stay as they are. */
  async function add(rules: readonly FaultRule[], what: string) {
    const added: UsedRule[] = []
    for (const rule of rules) {
      const response = await admin('POST', 'faults', JSON.stringify(rule))
      if (response.status === 201) added.push(JSON.parse(response.text))
      setText(error, response.status === 201 ? '' : messageOf(response))
      if (response.status !== 201) break
    }
    if (added.length > 0)
      say(`${what}: ${added.map(describeRule).join('; ')}`, { label: 'Undo', run: () => remove(added) })
  }

  /** A rule that is gone already is off as well. */
  const remove = async (rules: readonly UsedRule[]) =>
    report(...(await Promise.all(rules.map(({ id }) => admin('DELETE', `faults/${id}`)))))

  function report(...responses: readonly Answer[]) {
    const failed = responses.find(({ status }) => status !== 204 && status !== 404)
    setText(listError, failed ? messageOf(failed) : '')
    return !failed
  }

  const offerUndo = (text: string, rules: readonly UsedRule[]) => {
    const left = remaining(rules)
    say(text, left.length > 0 ? { label: 'Undo', run: () => add(left, 'Switched on again') } : undefined)
  }

  async function switchOff(rule: UsedRule) {
    if (await remove([rule])) offerUndo(`Switched off: ${describeRule(rule)}`, [rule])
  }

  async function switchAllOff() {
    const { rules } = app
    const flags = rules.filter(({ flag }) => flag)
    if (report(await admin('DELETE', 'faults')) && (await remove(flags)))
      offerUndo('Everything is switched off.', rules)
  }

  function createRow() {
    let current: UsedRule
    const sentence = h('p')
    const state = h('small')
    const edit = h('button', { type: 'button', class: 'quiet small', onclick: () => startEdit(current) }, 'Edit')
    const off = h('button', { type: 'button', class: 'small', onclick: () => switchOff(current) }, 'Switch off')
    return {
      element: h('li', {}, sentence, state, edit, off),
      update(rule: UsedRule) {
        current = rule
        const text = describeRule(rule)
        if (sentence.textContent !== text) sentence.replaceChildren(...marked(text))
        edit.setAttribute('aria-label', `Edit: ${text}`)
        off.setAttribute('aria-label', `Switch off: ${text}`)
        this.element.classList.toggle('used-up', isUsedUp(rule))
        this.element.classList.toggle('edited', rule.id === editedId)
        const count = rule.used === 0 ? 'not used yet' : `used ${rule.used} ${rule.used === 1 ? 'time' : 'times'}`
        setText(state, [rule.flag && `by ${rule.flag}`, isUsedUp(rule) ? 'used up' : count].filter(Boolean).join(' · '))
      },
    }
  }

  function startEdit(rule: UsedRule) {
    draft([valuesOf(rule)], rule.id)
    sentences[0]?.focus()
    form.scrollIntoView({ block: 'nearest' })
  }

  return {
    title: 'Switches',
    element,
    show(given) {
      // A link without a sentence, such as that of the bar, leaves what is being written.
      if (sentences.length > 0 && ['{}', shown].includes(JSON.stringify(given))) return changed()
      const all = [draftIn(given, 0)]
      for (let index = 1; given[`kind${index + 1}`]; index++) all.push(draftIn(given, index))
      draft(all)
    },
    rulesChanged() {
      const ids = new Set(app.rules.map(({ id }) => id))
      for (const [id, row] of rows) {
        if (ids.has(id)) continue
        const hadFocus = row.element.contains(document.activeElement)
        const next = row.element.nextElementSibling ?? row.element.previousElementSibling
        row.element.remove()
        rows.delete(id)
        if (hadFocus) (next?.querySelector<HTMLElement>('button:last-child') ?? listTitle).focus()
      }
      for (const [index, rule] of app.rules.entries()) {
        const row = rows.get(rule.id) ?? createRow()
        rows.set(rule.id, row)
        row.update(rule)
        if (list.children[index] !== row.element) list.insertBefore(row.element, list.children[index] ?? null)
      }
      if (editedId !== undefined && !ids.has(editedId)) {
        editedId = undefined
        setText(error, 'The switch that you were changing is off now. Add switches it on again.')
        changed()
      }
      none.hidden = app.rules.length > 0
      several.hidden = app.rules.length < 2
      allOff.hidden = app.rules.length === 0
    },
  }
}

/** The parameters of a sentence in the address: `next`, of the second sentence `next2`. */
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

function draftIn(given: Readonly<Partial<Record<string, string>>>, index: number): Values {
  const defaults = defaultsOf(given[nameIn('kind', index)] ?? 'fail')
  const entries = Object.entries(defaults).map(([name, value]) => [name, given[nameIn(name, index)] ?? value])
  return Object.fromEntries(entries)
}
