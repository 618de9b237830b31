type Listeners = {
  readonly [Name in keyof HTMLElementEventMap as `on${Name}`]?: (event: HTMLElementEventMap[Name]) => unknown
}

/** Attributes by name, without those that are false or undefined, and listeners such as `onclick`. */
interface Properties extends Listeners {
  readonly [name: string]: string | number | boolean | undefined | ((event: never) => unknown)
}

type Child = Node | string | false | undefined
type Children = Child | readonly Child[]

/**
 * Creates an element with classes, such as `h('p.hint', 'text')`. An object before the children sets attributes and
 * listeners. Strings become text nodes, so nothing that a client sends is parsed as HTML.
 */
export function h<Name extends keyof HTMLElementTagNameMap>(
  selector: Name | `${Name}.${string}`,
  first?: Properties | Children,
  ...others: readonly Children[]
): HTMLElementTagNameMap[Name] {
  const [name, ...classes] = selector.split('.')
  const element = document.createElement(name as Name)
  if (classes.length > 0) element.className = classes.join(' ')
  const hasProperties = isProperties(first)
  if (hasProperties) setProperties(element, first)
  const children = hasProperties ? others : [first, ...others]
  element.append(...children.flat().filter((child): child is Node | string => Boolean(child)))
  return element
}

const isProperties = (value: Properties | Children): value is Properties =>
  typeof value === 'object' && !(value instanceof Node) && !Array.isArray(value)

function setProperties(element: HTMLElement, properties: Properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === 'function') element.addEventListener(key.slice(2), value as EventListener)
    else if (value === true) element.setAttribute(key, '')
    else if (value !== undefined && value !== false) element.setAttribute(key, `${value}`)
  }
}

/** Replaces the children. Those that are already in their place are not moved, because one may have the focus. */
export function setChildren(parent: HTMLElement, elements: readonly HTMLElement[]): void {
  const kept = new Set<Element>(elements)
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove()
  let next = parent.firstElementChild
  for (const element of elements)
    if (element === next) next = next.nextElementSibling
    else parent.insertBefore(element, next)
}

/** Returns a function that calls `action` at once, but again only after this time, however often it is called. */
export function atMostEvery(milliseconds: number, action: () => unknown): () => void {
  let isWaiting = false
  let isWanted = false
  function run() {
    isWanted = false
    isWaiting = true
    setTimeout(() => {
      isWaiting = false
      if (isWanted) run()
    }, milliseconds)
    action()
  }
  return () => {
    if (isWaiting) isWanted = true
    else run()
  }
}

/** Rows up to this many pixels above and below the visible part of a list are in the document, too. */
const overscan = 400

/**
 * A list with only some of its rows in the document: those that are visible, and one that has the focus or is edited.
 * The visible part does not move when rows above it are added, removed or change their height.
 */
export class VirtualList<Key> {
  keys: readonly Key[] = []
  readonly element: HTMLElement
  readonly #scroller: HTMLElement
  readonly #rowOf: (key: Key) => HTMLElement
  /** Estimates the height of a row that was not measured yet. */
  readonly #estimate: () => number
  readonly #drawn = new Map<Key, HTMLElement>()
  readonly #heights = new Map<Key, number>()
  readonly #observer = new ResizeObserver(() => this.draw())
  #tops: number[] = [0]
  #width = 0

  constructor(scroller: HTMLElement, element: HTMLElement, rowOf: (key: Key) => HTMLElement, estimate: () => number) {
    this.#scroller = scroller
    this.element = element
    this.#rowOf = rowOf
    this.#estimate = estimate
    scroller.addEventListener('scroll', () => this.#draw())
    this.#observer.observe(scroller)
  }

  /** Shows the rows with these keys. */
  draw(keys: readonly Key[] = this.keys): void {
    if (this.#scroller.clientHeight === 0) {
      this.keys = keys
      return
    }
    const { offsetWidth } = this.element
    if (offsetWidth !== this.#width) this.#heights.clear()
    this.#width = offsetWidth
    const from = this.#visibleFrom()
    // If the list is scrolled, the first visible row must stay in its place.
    const first = from > 0 ? this.keys[this.#indexAt(from)] : undefined
    const distance = first === undefined ? 0 : this.#topOf(first) - from
    this.keys = keys
    this.#layOut()
    if (first !== undefined && keys.includes(first)) this.#scrollBy(this.#topOf(first) - distance - from)
    this.#draw()
  }

  /** Scrolls a row into view. */
  reveal(key: Key, block: 'nearest' | 'center' = 'nearest'): void {
    if (!this.#drawn.has(key)) this.#scrollBy(this.#topOf(key) - this.#visibleFrom() - this.#scroller.clientHeight / 2)
    this.#draw()
    this.#drawn.get(key)?.scrollIntoView({ block })
  }

  #scrollBy(distance: number) {
    if (Math.abs(distance) >= 1) this.#scroller.scrollTop += distance
  }

  /** The distance from the top of the list to its visible part. */
  #visibleFrom(): number {
    return this.#scroller.getBoundingClientRect().top - this.element.getBoundingClientRect().top
  }

  #heightOf(key: Key): number {
    return this.#heights.get(key) ?? this.#estimate()
  }

  #topOf(key: Key): number {
    return this.#tops[this.keys.indexOf(key)] ?? 0
  }

  #layOut() {
    const estimate = this.#estimate()
    let top = 0
    this.#tops = [top]
    for (const key of this.keys) {
      top += this.#heights.get(key) ?? estimate
      this.#tops.push(top)
    }
    this.element.style.height = `${top}px`
  }

  /** The index of the row at this distance from the top of the list. */
  #indexAt(distance: number): number {
    const index = this.#tops.findLastIndex((top) => top <= distance)
    return Math.max(0, Math.min(this.keys.length - 1, index))
  }

  #draw() {
    // Draws again if rows that came into view have another height than estimated.
    for (let attempt = 0; attempt < 4; attempt++) if (!this.#drawOnce()) return
  }

  /** Draws the visible rows. Returns whether the height of a row was wrongly estimated. */
  #drawOnce(): boolean {
    const from = this.#visibleFrom()
    const start = this.#indexAt(from - overscan)
    const end = this.#indexAt(from + this.#scroller.clientHeight + overscan)
    const isInUse = (element: HTMLElement | undefined) =>
      element?.contains(document.activeElement) || element?.classList.contains('is-edited')
    const before = new Map(this.#drawn)
    this.#drawn.clear()
    for (const [index, key] of this.keys.entries()) {
      if ((index < start || index > end) && !isInUse(before.get(key))) continue
      const element = this.#rowOf(key)
      this.#drawn.set(key, element)
      if (before.get(key) !== element) this.#observer.observe(element)
      element.style.top = `${this.#tops[index]}px`
      element.ariaPosInSet = `${index + 1}`
      element.ariaSetSize = `${this.keys.length}`
    }
    for (const [key, element] of before) if (this.#drawn.get(key) !== element) this.#observer.unobserve(element)
    setChildren(this.element, [...this.#drawn.values()])
    let isChanged = false
    for (const [key, { offsetHeight }] of this.#drawn) {
      if (offsetHeight === this.#heightOf(key)) continue
      this.#heights.set(key, offsetHeight)
      isChanged = true
    }
    if (isChanged) this.#layOut()
    return isChanged
  }
}

/** Sets a text only if it differs, because setting the same text would cost a layout. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** Wraps a field in its label. */
export const field = (label: string, input: HTMLElement) => h('label.field', h('span', label), input)

/** Creates a button that does not submit a form. */
export const button = (label: string, onclick: (event: MouseEvent) => unknown, properties: Properties = {}) =>
  h('button', { type: 'button', ...properties, onclick }, label)

/** Turns text between backticks into `code` elements. */
export const withCode = (text: string): (string | HTMLElement)[] =>
  text.split('`').map((part, index) => (index % 2 === 1 ? h('code', part) : part))

/** The texts of options by value. */
export type Options = Readonly<Record<string, string>>
/** Options whose texts are their values. */
export const named = (values: readonly string[]): Options => Object.fromEntries(values.map((value) => [value, value]))

export const select = (properties: Properties, options: Options) =>
  h(
    'select',
    properties,
    Object.entries(options).map(([value, text]) => h('option', { value }, text)),
  )

const copiedForMs = 1500

/** Creates a button that copies a text, and then says so. */
export function copyButton(label: string, text: () => string, properties: Properties = {}): HTMLButtonElement {
  const element = button(label, click, properties)
  async function click() {
    const isCopied = await copy(text())
    element.textContent = isCopied ? 'Copied' : 'Press Ctrl+C'
    // A label would hide the new text from screen readers.
    element.ariaLabel = null
    setTimeout(() => {
      element.textContent = label
      const name = properties['aria-label']
      if (name) element.ariaLabel = `${name}`
    }, copiedForMs)
  }
  return element
}

/** A line of code with a button that copies it, or copies another text. */
export const copyLine = (text: string, name = `Copy ${text}`, copied = text) =>
  h(
    'p.line.copyable',
    h('code', text),
    copyButton('Copy', () => copied, { class: 'small', 'aria-label': name }),
  )

/** Copies a text. The clipboard API exists in secure contexts only: not for a phone that uses plain HTTP. */
async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard)
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  const area = h('textarea.offscreen', { 'aria-hidden': 'true' })
  area.value = text
  const focused = document.activeElement
  document.body.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}

/** Lets the browser save a file. */
export function download(fileName: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  h('a', { href: url, download: fileName }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

/** Asks the user before something is lost. Returns whether to go on. */
export const ask = (title: string, text: string, action: string): Promise<boolean> =>
  new Promise((resolve) => {
    const goOn = h('button.danger', action)
    openDialog(title, [h('p', text)], 'Cancel', goOn, () => resolve(true)).onclose = () => resolve(false)
  })

/** Shows a dialog. `action` is the button that submits it. */
export function openDialog(
  title: string,
  content: readonly HTMLElement[],
  cancel: string,
  action?: HTMLElement,
  submit?: () => unknown,
): HTMLDialogElement {
  const onsubmit = (event: Event) => {
    event.preventDefault()
    dialog.close()
    submit?.()
  }
  const actions = h(
    'p.line.actions',
    button(cancel, () => dialog.close()),
    action,
  )
  const form = h('form.stack', { onsubmit }, h('h2', title), content, actions)
  const dialog: HTMLDialogElement = h('dialog', { 'aria-label': title }, form)
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

/** A group of buttons, of which one is pressed. `onChoose` reports a click; the caller calls `choose` to press one. */
export function tabs(label: string, options: Options, onChoose: (value: string) => unknown) {
  const buttons = Object.entries(options).map(([value, text]) =>
    button(text, () => onChoose(value), { 'data-value': value }),
  )
  return {
    element: h('div.tabs', { role: 'group', 'aria-label': label }, buttons),
    choose(value: string) {
      for (const button of buttons) button.ariaPressed = `${button.dataset.value === value}`
    },
  }
}
