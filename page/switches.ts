import type { FaultRule, UsedRule } from '../src/control/schema.ts'
import { admin, base, messageOf } from './client.ts'
import { field, h, type Option, select } from './dom.ts'
import type { App, View } from './view.ts'

const connectionFaults: readonly (readonly [NonNullable<FaultRule['fault']>, string])[] = [
  ['reset', 'connection reset'],
  ['truncate', 'half of the response'],
  ['lost', 'executed, no response'],
]
const outcomeNames: Partial<Record<string, string>> = Object.fromEntries(connectionFaults)

const outcomeOf = ({ code, fault, delay, bytesPerSecond: rate }: FaultRule) =>
  code !== undefined ? `status ${code}` : fault ? outcomeNames[fault] : (delay ?? rate) === undefined ? 'failure' : ''

/** A rule as a sentence. */
export function describeRule(rule: FaultRule & Partial<Pick<UsedRule, 'used'>>): string {
  const { method, path, times, share, delay, maxDelay, bytesPerSecond, used = 0 } = rule
  const requests = method || path ? `${method ?? 'every method'} ${path ?? ''}`.trim() : 'every request'
  const time = maxDelay ? `${delay} to ${maxDelay}` : delay
  const rate = bytesPerSecond && `${bytesPerSecond} bytes per second`
  const what = [rate, outcomeOf(rule), time ? `${time} ms delay` : ''].filter(Boolean).join(' after ')
  const which = [
    share === undefined ? '' : `${Number((100 * share).toFixed(1))} % of the requests`,
    timesLeft(times, used),
  ]
  return `${requests}: ${what}${which.filter(Boolean).length > 0 ? `, ${which.filter(Boolean).join(', ')}` : ''}`
}

const timesLeft = (times: number | undefined, used: number) =>
  times === undefined ? '' : used >= times ? `used up (${times})` : `the next ${times - used} of ${times}`

/** The form as the address has it, so that a link can be shared. Nothing is switched on before somebody presses Apply. */
const defaults = { delay: '', next: '', nextFor: '', nextAs: '', share: '', shareFor: '', shareAs: '' }

type Values = typeof defaults

export function switchesView(app: App): View {
  const { sandbox } = app.info
  const operations = app.info.operations.map(({ method, path }): Option => [`${method} ${path}`, `${method} ${path}`])
  const requestOptions: Option[] = [['', 'every request'], ...operations]
  const number = (name: string, max: number) =>
    h('input', { type: 'number', name, min: '0', max: `${max}`, inputmode: 'numeric', placeholder: '0' })
  const inputs = {
    delay: number('delay', 60_000),
    next: number('next', 1000),
    nextFor: select({ name: 'nextFor' }, requestOptions),
    nextAs: h('select', { name: 'nextAs' }),
    share: number('share', 100),
    shareFor: select({ name: 'shareFor' }, requestOptions),
    shareAs: h('select', { name: 'shareAs' }),
  }
  const error = h('p', { class: 'error', role: 'alert' })
  const active = h('ul', { class: 'active', 'aria-label': 'Switched on' })
  const none = h('p', { class: 'hint' }, 'Nothing is switched on: requests get their normal responses.')
  const off = h('button', { type: 'button', onclick: () => act('DELETE', 'faults') }, 'Switch all off')
  const form = h(
    'form',
    { onsubmit: apply, oninput: remember, 'aria-label': 'Delay and failures', novalidate: true },
    h('fieldset', {}, h('legend', {}, 'Delay'), field('Milliseconds, for every request', inputs.delay)),
    h(
      'fieldset',
      {},
      h('legend', {}, 'Fail the next'),
      field('How many', inputs.next),
      field('Of', inputs.nextFor),
      field('With', inputs.nextAs),
    ),
    h(
      'fieldset',
      {},
      h('legend', {}, 'Fail a share'),
      field('Percent', inputs.share),
      field('Of', inputs.shareFor),
      field('With', inputs.shareAs),
    ),
    error,
    h('p', { class: 'actions' }, h('button', { class: 'primary' }, 'Apply'), off),
  )
  const file = h('input', {
    type: 'file',
    accept: '.json,application/json',
    class: 'offscreen',
    id: 'file',
    onchange: loadItems,
  })
  const itemsError = h('p', { class: 'error', role: 'alert' })
  const name = h('input', {
    name: 'sandbox',
    list: 'sandboxes',
    autocomplete: 'off',
    spellcheck: 'false',
    pattern: '[\\w\\-]{1,64}',
    maxlength: '64',
    placeholder: 'none',
  })
  name.value = sandbox ?? ''
  const names = h('datalist', { id: 'sandboxes' })
  const element = h(
    'section',
    { class: 'view narrow cards', 'aria-label': 'Switches' },
    h('h1', { class: 'offscreen' }, 'Switches'),
    h('div', { class: 'card', id: 'switched-on' }, h('h2', {}, 'Switched on'), none, active),
    h('div', { class: 'card' }, h('h2', {}, 'Delay and failures'), form),
    h(
      'div',
      { class: 'card' },
      h('h2', {}, 'Items'),
      h('p', {}, 'Reset brings back the items of the start, switches everything off and empties the traffic.'),
      h(
        'p',
        { class: 'actions' },
        h('button', { type: 'button', onclick: reset }, 'Reset'),
        h('button', { type: 'button', onclick: saveItems }, 'Save as JSON'),
        h('button', { type: 'button', onclick: () => file.click() }, 'Load JSON'),
        file,
      ),
      itemsError,
    ),
    h(
      'div',
      { class: 'card' },
      h('h2', {}, 'Sandbox'),
      app.info.sandboxes
        ? h(
            'form',
            { onsubmit: openSandbox, class: 'inline', 'aria-label': 'Sandbox' },
            h(
              'p',
              {},
              'A sandbox has items, traffic and switches of its own. A client uses it with ',
              h('code', {}, '/~NAME'),
              ' in front of every path, or with the header ',
              h('code', {}, 'X-Todo-Sandbox: NAME'),
              '.',
            ),
            field('Name', name),
            names,
            h('button', {}, 'Open'),
            sandbox && h('a', { href: `${mainBase()}app#/switches`, class: 'button' }, 'Leave the sandbox'),
            sandbox && h('p', {}, h('code', {}, `${base}`)),
          )
        : h('p', { class: 'hint' }, 'There are no sandboxes: the items are in a database.'),
    ),
  )
  file.setAttribute('aria-label', 'JSON file with items')
  file.setAttribute('tabindex', '-1')

  function mainBase() {
    return `${base}`.replace(/(?:~|%7e)[^/]*\/$/i, '')
  }

  /** An operation has statuses of its own; every request can only fail in its profile's way. */
  function fillOutcomes(target: HTMLSelectElement, chosen: string, value: string) {
    const { statuses = [] } = app.info.operations.find(({ method, path }) => `${method} ${path}` === chosen) ?? {}
    const options: Option[] = [
      ['', 'a failure of the store'],
      ...statuses.filter((status) => status >= 400).map((status): Option => [`${status}`, `status ${status}`]),
      ...connectionFaults,
    ]
    target.replaceChildren(...options.map(([key, text]) => h('option', { value: key }, text)))
    target.value = value
    if (target.selectedIndex < 0) target.selectedIndex = 0
  }

  const values = (): Values => ({
    delay: inputs.delay.value,
    next: inputs.next.value,
    nextFor: inputs.nextFor.value,
    nextAs: inputs.nextAs.value,
    share: inputs.share.value,
    shareFor: inputs.shareFor.value,
    shareAs: inputs.shareAs.value,
  })

  function fill(given: Values) {
    for (const key of ['delay', 'next', 'nextFor', 'share', 'shareFor'] as const) inputs[key].value = given[key]
    for (const key of ['nextFor', 'shareFor'] as const) if (inputs[key].selectedIndex < 0) inputs[key].selectedIndex = 0
    fillOutcomes(inputs.nextAs, inputs.nextFor.value, given.nextAs)
    fillOutcomes(inputs.shareAs, inputs.shareFor.value, given.shareAs)
  }

  function remember() {
    fill(values())
    app.setParameters('switches', values())
  }

  /** The first rule that matches is applied, so a failure has the delay, too. */
  function rulesOf({ delay, next, nextFor, nextAs, share, shareFor, shareAs }: Values) {
    const wait: { delay?: number } = Number(delay) > 0 ? { delay: Number(delay) } : {}
    const rule = (requests: string, outcome: string) => {
      const [method, path] = requests.split(' ')
      const failure = /^\d+$/.test(outcome) ? { code: Number(outcome) } : { fault: outcome }
      // Without code and fault, a delay is all that a rule does.
      return { ...(method && { method, path }), ...(outcome && { ...failure, ...wait }) }
    }
    return [
      ...(Number(next) > 0 ? [{ times: Number(next), ...rule(nextFor, nextAs) }] : []),
      ...(Number(share) > 0 ? [{ share: Number(share) / 100, ...rule(shareFor, shareAs) }] : []),
      ...(wait.delay ? [wait] : []),
    ]
  }

  async function apply(event: Event) {
    event.preventDefault()
    await act('PUT', 'faults', JSON.stringify(rulesOf(values())))
  }

  async function act(method: string, path: string, body?: string) {
    const response = await admin(method, path, body)
    error.textContent = response.status === 204 ? '' : messageOf(response)
  }

  async function reset() {
    const response = await admin('POST', 'reset')
    itemsError.textContent = response.status === 204 ? '' : messageOf(response)
    if (response.status === 204) app.notify('Items, switches and traffic are as at the start.')
  }

  async function saveItems() {
    const response = await admin('GET', 'items')
    itemsError.textContent = response.status === 200 ? '' : messageOf(response)
    if (response.status === 200) download('items.json', response.text, 'application/json')
  }

  async function loadItems() {
    const [chosen] = file.files ?? []
    if (!chosen) return
    const response = await admin('PUT', 'items', await chosen.text())
    file.value = ''
    itemsError.textContent = response.status === 204 ? '' : messageOf(response)
    if (response.status === 204) app.notify(`The items are those of ${chosen.name}.`)
  }

  function openSandbox(event: Event) {
    event.preventDefault()
    if (!name.reportValidity()) return
    location.href = `${mainBase()}${name.value ? `~${name.value}/` : ''}app${location.hash}`
  }

  return {
    title: 'Switches',
    element,
    show(given) {
      fill({ ...defaults, ...given })
      app.setParameters('switches', values())
    },
    rulesChanged() {
      active.replaceChildren(
        ...app.rules.map((rule) =>
          h(
            'li',
            { class: rule.used >= (rule.times ?? Infinity) ? 'used' : '' },
            describeRule(rule),
            rule.flag && h('small', {}, ` by the flag ${rule.flag}`),
            rule.times === undefined && h('small', {}, ` used ${rule.used} ${rule.used === 1 ? 'time' : 'times'}`),
          ),
        ),
      )
      none.hidden = active.childElementCount > 0
      off.disabled = app.rules.every(({ flag }) => flag)
      names.replaceChildren(...(app.info.sandboxes ?? []).map((value) => h('option', { value })))
    },
  }
}

export function download(fileName: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  h('a', { href: url, download: fileName }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
