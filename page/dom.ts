type PropertyValue = string | number | boolean | undefined

type Listeners = {
  readonly [Name in keyof HTMLElementEventMap as `on${Name}`]?: (event: HTMLElementEventMap[Name]) => unknown
}

/** Attributes by name; false and undefined leave one out. */
interface Properties extends Listeners {
  readonly [name: `aria-${string}` | `data-${string}`]: PropertyValue
  readonly accept?: PropertyValue
  readonly autocomplete?: PropertyValue
  readonly class?: PropertyValue
  readonly download?: PropertyValue
  readonly hidden?: PropertyValue
  readonly href?: PropertyValue
  readonly id?: PropertyValue
  readonly inputmode?: PropertyValue
  readonly list?: PropertyValue
  readonly max?: PropertyValue
  readonly maxlength?: PropertyValue
  readonly min?: PropertyValue
  readonly name?: PropertyValue
  readonly novalidate?: PropertyValue
  readonly pattern?: PropertyValue
  readonly placeholder?: PropertyValue
  readonly required?: PropertyValue
  readonly role?: PropertyValue
  readonly rows?: PropertyValue
  readonly scope?: PropertyValue
  readonly spellcheck?: PropertyValue
  readonly step?: PropertyValue
  readonly tabindex?: PropertyValue
  readonly title?: PropertyValue
  readonly type?: PropertyValue
  readonly value?: PropertyValue
}

type Child = Node | string | false | undefined

/** An element. Strings become text nodes, so nothing that a client sends is ever read as HTML. */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Properties = {},
  ...children: readonly (Child | readonly Child[])[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === 'function') element.addEventListener(key.slice(2), value)
    else if (value === true) element.setAttribute(key, '')
    else if (value !== undefined && value !== false) element.setAttribute(key, `${value}`)
  }
  element.append(...children.flat().filter((child): child is Node | string => Boolean(child)))
  return element
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
export const field = (label: string, input: HTMLElement, hint?: string) =>
  h('label', { class: 'field' }, h('span', {}, label), input, hint && h('small', {}, hint))

/** The value of an option, and its text. */
export type SelectOption = readonly [value: string, text: string]

export function select(properties: Properties, options: readonly SelectOption[], value?: string): HTMLSelectElement {
  const element = h(
    'select',
    properties,
    options.map(([key, text]) => h('option', { value: key }, text)),
  )
  element.value = value ?? options[0]?.[0] ?? ''
  if (element.selectedIndex < 0) element.selectedIndex = 0
  return element
}

const copiedForMs = 1500

/** A button that copies what `text` returns, and says so. */
export function copyButton(label: string, text: () => string, properties: Properties = {}): HTMLButtonElement {
  const button = h('button', { type: 'button', ...properties, onclick: click }, label)
  async function click() {
    const isCopied = await copy(text())
    button.textContent = isCopied ? 'Copied' : 'Press Ctrl+C'
    // It would hide the text.
    button.removeAttribute('aria-label')
    setTimeout(() => {
      button.textContent = label
      const name = properties['aria-label']
      if (name) button.setAttribute('aria-label', `${name}`)
    }, copiedForMs)
  }
  return button
}

/** The clipboard API exists in secure contexts only, which a phone that uses plain HTTP has not. */
async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard)
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    )
  const area = h('textarea', { class: 'offscreen', 'aria-hidden': 'true' })
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
  const cancel = h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel')
  const goOn = h('button', { type: 'button', class: 'danger', onclick: () => dialog.close(action) }, action)
  const dialog: HTMLDialogElement = h(
    'dialog',
    { class: 'stack', 'aria-label': title },
    h('h2', {}, title),
    h('p', {}, text),
    h('p', { class: 'actions' }, cancel, goOn),
  )
  document.body.append(dialog)
  dialog.showModal()
  cancel.focus()
  return new Promise((resolve) => {
    dialog.onclose = () => {
      dialog.remove()
      resolve(dialog.returnValue === action)
    }
  })
}

/** Text in which backticks enclose code. */
export const withCode = (text: string): (string | HTMLElement)[] =>
  text.split('`').map((part, index) => (index % 2 === 1 ? h('code', {}, part) : part))

/** Buttons in a group, of which one is pressed; the caller calls `choose` to press another. */
export function tabs(label: string, options: readonly SelectOption[], onChoose: (value: string) => unknown) {
  const buttons = options.map(([value, text]) =>
    h('button', { type: 'button', 'data-value': value, onclick: () => onChoose(value) }, text),
  )
  return {
    element: h('div', { class: 'tabs', role: 'group', 'aria-label': label }, buttons),
    choose(value: string) {
      for (const button of buttons) button.setAttribute('aria-pressed', `${button.dataset.value === value}`)
    },
  }
}
