type Listeners = {
  readonly [Name in keyof HTMLElementEventMap as `on${Name}`]?: (event: HTMLElementEventMap[Name]) => unknown
}

/** Attributes by name, where false and undefined leave one out, and listeners such as `onclick`. */
interface Properties extends Listeners {
  readonly [name: string]: string | number | boolean | undefined | ((event: never) => unknown)
}

type Child = Node | string | false | undefined
type Children = Child | readonly Child[]

/**
 * An element with classes, such as `h('p.hint', 'text')`; attributes and listeners may come first. Strings become text nodes, so
 * nothing that a client sends is ever read as HTML.
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

/** Calls `action` once before the next frame, however often it is called. */
export function perFrame(action: () => unknown): () => void {
  let isPending = false
  return () => {
    if (isPending) return
    isPending = true
    requestAnimationFrame(() => {
      isPending = false
      action()
    })
  }
}

/** Shows text only where it differs: unchanged text needs no layout. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** A label around a field. */
export const field = (label: string, input: HTMLElement) => h('label.field', h('span', label), input)

/** A button that submits no form. */
export const button = (label: string, onclick: (event: MouseEvent) => unknown, properties: Properties = {}) =>
  h('button', { type: 'button', ...properties, onclick }, label)

/** Text in which backticks enclose code. */
export const withCode = (text: string): (string | HTMLElement)[] =>
  text.split('`').map((part, index) => (index % 2 === 1 ? h('code', part) : part))

/** Texts by value, in their order. */
export type Options = Readonly<Record<string, string>>

export const select = (properties: Properties, options: Options) =>
  h(
    'select',
    properties,
    Object.entries(options).map(([value, text]) => h('option', { value }, text)),
  )

const copiedForMs = 1500

/** A button that copies what `text` returns, and says so. */
export function copyButton(label: string, text: () => string, properties: Properties = {}): HTMLButtonElement {
  const element = button(label, click, properties)
  async function click() {
    const isCopied = await copy(text())
    element.textContent = isCopied ? 'Copied' : 'Press Ctrl+C'
    // It would hide the text.
    element.ariaLabel = null
    setTimeout(() => {
      element.textContent = label
      const name = properties['aria-label']
      if (name) element.ariaLabel = `${name}`
    }, copiedForMs)
  }
  return element
}

/** A line of code with a button that copies it, or a text of its own. */
export const copyLine = (text: string, name = `Copy ${text}`, copied = text) =>
  h(
    'p.copyable',
    h('code', text),
    copyButton('Copy', () => copied, { class: 'small', 'aria-label': name }),
  )

/** The clipboard API exists in secure contexts only, which a phone that uses plain HTTP has not. */
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

/** Asks before something is lost, and tells whether to go on. */
export function ask(title: string, text: string, action: string): Promise<boolean> {
  const cancel = button('Cancel', () => dialog.close())
  const goOn = button(action, () => dialog.close(action), { class: 'danger' })
  const dialog: HTMLDialogElement = h(
    'dialog.stack',
    { 'aria-label': title },
    h('h2', title),
    h('p', text),
    h('p.actions', cancel, goOn),
  )
  openDialog(dialog, cancel)
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === action))
  })
}

/** Shows a dialog until it is closed. */
export function openDialog(dialog: HTMLDialogElement, focused: HTMLElement): void {
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  focused.focus()
}

/** Buttons in a group, of which one is pressed; the caller calls `choose` to press another. */
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
