import type { Info } from '../src/control/schema.ts'
import { type Answer, admin, isSuccess, messageOf, parseExact } from './client.ts'
import { ask, button, download, h, setText } from './dom.ts'
import { counted } from './format.ts'
import type { App } from './view.ts'

/** An item of either profile. An id of Profile A is a string of digits, because a number would round it. */
export interface ShownItem {
  readonly id: string
  readonly name: string | null
  readonly notes?: string | null
  readonly isComplete?: boolean
  readonly done?: boolean
}

/** A snapshot of all items: as JSON, with its entity tag, and parsed. */
interface ItemsSnapshot {
  readonly text: string
  readonly etag: string
  readonly items: readonly ShownItem[]
}

/** A change that can be undone while the page is open. */
interface Step {
  readonly name: 'reset' | 'load' | 'delete' | 'undo'
  /** Describes the items that Undo brings back. */
  readonly lost: string
  /** Undoes the change. Returns the message to show; undefined if the user decided against it. */
  undo(): Promise<string | undefined>
}

interface Replacement {
  readonly name: Step['name']
  readonly title: string
  /** The end of the question to the user, whose beginning says which items are lost. */
  readonly consequence: string
  readonly action: 'Delete' | 'Replace'
  /** The message after the replacement. */
  readonly done: string
  /** The entity tag of a list of items that may be replaced without a question. */
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

/** The buttons Reset, Save, Load and Undo. They ask before they replace items, and Undo brings these back. */
export function itemTools(app: App, toJson: (item: ShownItem) => string) {
  /** The steps that can be undone, the newest last, each with a function that removes its message. */
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

  /** Runs an action and shows its error; does nothing while another action is running. */
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
    setText(undoButton, last ? `Undo ${last.name}: bring back ${last.lost}` : '')
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

  /** Whether a replacement would lose items that are not the starting items. */
  async function hasOwnItems({ items, etag }: ItemsSnapshot, known: string | undefined): Promise<boolean> {
    if (items.length === 0 || etag === known) return false
    const { isPersistent, hasChanged }: Info = JSON.parse(check(await admin('GET', 'info')).text)
    return isPersistent || hasChanged
  }

  /** Replaces all items; asks before some are lost. Returns the message to show; empty if it is already shown. */
  async function replace(replacement: Replacement): Promise<string | undefined> {
    const { name, title, consequence, action, done, known, send } = replacement
    for (;;) {
      const before = await readItems()
      const itemCount = counted(before.items.length, 'item')
      const isLoss = await hasOwnItems(before, known)
      if (isLoss) {
        const loss = `${itemCount} in ${app.info.store} ${before.items.length === 1 ? 'is' : 'are'} deleted.`
        if (!(await ask(title, `${loss} ${consequence}`, `${action} ${itemCount}`))) return undefined
        if ((await readItems()).etag !== before.etag) continue
      }
      const response = await send(before.etag)
      if (response.status === 412) continue
      check(response)
      if (!isLoss) return done
      const { etag } = await readItems()
      offer({ name, lost: itemCount, undo: () => restore(before, etag) }, `${done} ${itemCount} deleted.`)
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

  /** Offers to undo the deletion of an item. Undo inserts it before the first item of `following` that still exists. */
  function deleted(item: ShownItem, following: readonly string[]) {
    const lost = name(item)
    offer({ name: 'delete', lost, undo: () => bringBack(item, following) }, `${lost} deleted.`)
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
