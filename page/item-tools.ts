import type { Info } from '../src/control/schema.ts'
import { type Answer, admin, isSuccess, messageOf, parseExact } from './client.ts'
import { ask, button, download, h, setText } from './dom.ts'
import { counted } from './format.ts'
import type { App } from './view.ts'

/** An item of either profile. Ids of profile A are digits in a string: a number would round them. */
export interface ShownItem {
  readonly id: string
  readonly name: string | null
  readonly notes?: string | null
  readonly isComplete?: boolean
  readonly done?: boolean
}

/** All items at one time. */
interface ItemsSnapshot {
  readonly text: string
  readonly etag: string
  readonly items: readonly ShownItem[]
}

/** A change that can be taken back for as long as the page is open. */
interface Step {
  readonly name: 'reset' | 'load' | 'delete' | 'undo'
  /** What comes back. */
  readonly what: string
  /** Returns what to say then; undefined where somebody decided against it. */
  undo(): Promise<string | undefined>
}

interface Replacement {
  readonly name: Step['name']
  readonly title: string
  /** What is lost is said in front of this. */
  readonly consequence: string
  readonly action: 'Delete' | 'Replace'
  /** The message when it has been done. */
  readonly done: string
  /** The entity tag of items that may go without a question. */
  readonly known?: string
  send(etag: string): Promise<Answer>
}

const name = (item: ShownItem) => (item.name ? `“${item.name}”` : `Item ${item.id}`)

function check(response: Answer): Answer {
  if (!isSuccess(response)) throw new Error(messageOf(response))
  return response
}

export async function readItems(): Promise<ItemsSnapshot> {
  const { text, headers } = check(await admin('GET', 'items'))
  return { text, etag: headers.get('etag') ?? '', items: parseExact(text) as ShownItem[] }
}

const putItems = (text: string, etag: string) => admin('PUT', 'items', text, { 'if-match': etag })

/** What replaces many items, or brings deleted ones back. Nothing is lost without a question, and nothing for good. */
export function itemTools(app: App, toJson: (item: ShownItem) => string) {
  /** The newest last, each with what removes its message. There is one button, which undoes the newest. */
  const steps = new Map<Step, () => void>()
  const error = h('p.error', { role: 'alert' })
  const undoButton = button('', () => undo([...steps.keys()].at(-1)), { class: 'small', hidden: true })
  const file = h('input', {
    type: 'file',
    accept: '.json,application/json',
    class: 'offscreen',
    tabindex: '-1',
    'aria-label': 'JSON file with items',
    onchange: () => attempt(load),
  })
  const tool = (label: string, onclick: () => unknown) => button(label, onclick, { class: 'small' })
  const element = h(
    'div.line.tools',
    { role: 'toolbar', 'aria-label': 'All items' },
    undoButton,
    tool('Reset', () => attempt(reset)),
    tool('Save', () => attempt(save)),
    tool('Load', () => file.click()),
    file,
  )

  /** One at a time. */
  async function attempt(action: () => Promise<unknown>) {
    if (element.ariaBusy === 'true') return
    element.ariaBusy = 'true'
    error.textContent = ''
    await action().catch(({ message }: Error) => setText(error, message))
    element.ariaBusy = 'false'
  }

  function offer(step: Step, text: string) {
    steps.set(step, app.notify(text))
    showSteps()
  }

  function showSteps() {
    const last = [...steps.keys()].at(-1)
    undoButton.hidden = !last
    setText(undoButton, last ? `Undo ${last.name}: bring back ${last.what}` : '')
  }

  const undo = (step: Step | undefined) =>
    attempt(async () => {
      const message = step && steps.has(step) ? await step.undo() : undefined
      if (!step || message === undefined) return
      steps.get(step)?.()
      steps.delete(step)
      showSteps()
      say(message)
    })

  /** Whether others than the items of the start would be lost. */
  async function hasOwnItems({ items, etag }: ItemsSnapshot, known: string | undefined): Promise<boolean> {
    if (items.length === 0 || etag === known) return false
    const { isPersistent, hasChanged }: Info = JSON.parse(check(await admin('GET', 'info')).text)
    return isPersistent || hasChanged
  }

  /** Asks about the items that there are at that moment. Returns what to say, unless it has said it. */
  async function replace(replacement: Replacement): Promise<string | undefined> {
    const { name, title, consequence, action, done, known, send } = replacement
    for (;;) {
      const before = await readItems()
      const what = counted(before.items.length, 'item')
      const isLoss = await hasOwnItems(before, known)
      if (isLoss) {
        const loss = `${what} in ${app.info.store} ${before.items.length === 1 ? 'is' : 'are'} deleted.`
        if (!(await ask(title, `${loss} ${consequence}`, `${action} ${what}`))) return undefined
        if ((await readItems()).etag !== before.etag) continue
      }
      const response = await send(before.etag)
      if (response.status === 412) continue
      check(response)
      if (!isLoss) return done
      const { etag } = await readItems()
      offer({ name, what, undo: () => restore(before, etag) }, `${done} ${what} deleted.`)
      return ''
    }
  }

  const restore = (before: ItemsSnapshot, known: string) =>
    replace({
      name: 'undo',
      title: 'Items have changed since',
      consequence: `${counted(before.items.length, 'item')} of before come back.`,
      action: 'Replace',
      done: `${counted(before.items.length, 'item')} brought back.`,
      known,
      send: (etag) => putItems(before.text, etag),
    })

  const say = (message = '') => message && app.notify(message)

  const reset = async () =>
    say(
      await replace({
        name: 'reset',
        title: 'Reset the service?',
        consequence: 'The items of the start come back, the faults are removed and the traffic is emptied.',
        action: 'Delete',
        done: 'Items, faults and traffic are as at the start.',
        send: () => admin('POST', 'reset'),
      }),
    )

  async function save() {
    download('items.json', (await readItems()).text, 'application/json')
  }

  async function load() {
    const [chosen] = file.files ?? []
    if (!chosen) return
    const text = await chosen.text()
    file.value = ''
    say(
      await replace({
        name: 'load',
        title: `Load ${chosen.name}?`,
        consequence: `The items of ${chosen.name} take their place.`,
        action: 'Replace',
        done: `The items are those of ${chosen.name}.`,
        send: (etag) => putItems(text, etag),
      }),
    )
  }

  /** Offers to bring back an item in front of the first of the `following` ones that is still there. */
  function deleted(item: ShownItem, following: readonly string[]) {
    const what = name(item)
    offer({ name: 'delete', what, undo: () => bringBack(item, following) }, `${what} deleted.`)
  }

  async function bringBack(item: ShownItem, following: readonly string[]): Promise<string> {
    for (;;) {
      const { items, etag } = await readItems()
      const ids = new Map(items.map(({ id }, index) => [id, index]))
      if (ids.has(item.id)) return `Nothing was changed: there is an item with the id ${item.id} again.`
      const next = following.find((id) => ids.has(id))
      const all = items.map(toJson)
      all.splice(next === undefined ? all.length : (ids.get(next) ?? 0), 0, toJson(item))
      const response = await putItems(`[${all.join(',')}]`, etag)
      if (response.status === 412) continue
      check(response)
      return `${name(item)} brought back.`
    }
  }

  return { element, error, deleted }
}
