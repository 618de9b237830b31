/** An element. Strings become text nodes, so nothing that a client sends is ever read as HTML. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (value === true) element.setAttribute(key, '')
    else if (value !== undefined && value !== false) element.setAttribute(key, value)
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== false && child !== ''))
  return element
}

/** Calls `action` once before the next frame, however often it is called. */
export function perFrame(action) {
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
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** A label around a field. */
export const field = (label, input, hint) =>
  h('label', { class: 'field' }, h('span', {}, label), input, hint && h('small', {}, hint))

export const select = (properties, options, value) => {
  const element = h(
    'select',
    properties,
    options.map(([key, text]) => h('option', { value: key }, text)),
  )
  element.value = value ?? options[0][0]
  if (element.selectedIndex < 0) element.selectedIndex = 0
  return element
}

const copiedForMs = 1500

/** A button that copies what `text` returns, and says so. */
export function copyButton(label, text, properties = {}) {
  const button = h('button', { type: 'button', ...properties, onclick: click }, label)
  async function click() {
    const isCopied = await copy(text())
    button.textContent = isCopied ? 'Copied' : 'Press Ctrl+C'
    setTimeout(() => {
      button.textContent = label
    }, copiedForMs)
  }
  return button
}

/** The clipboard API exists in secure contexts only, which a phone that uses plain HTTP has not. */
async function copy(text) {
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
  focused?.focus()
  return isCopied
}

/** Text in which backticks enclose code. */
export const withCode = (text) => text.split('`').map((part, index) => (index % 2 === 1 ? h('code', {}, part) : part))
