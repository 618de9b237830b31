import { h, withCode } from './dom.ts'
import type { App, View } from './view.ts'

export function contractView(app: App): View {
  const rows = app.info.rules.map(({ id, basis, sentence }) =>
    h(
      'li',
      { id: `rule-${id}`, tabindex: '-1' },
      h('h2', {}, id, h('small', {}, basis === 'spec' ? 'specified' : 'our choice')),
      h('p', {}, withCode(sentence)),
    ),
  )
  const element = h(
    'section',
    { class: 'view narrow', 'aria-label': 'Contract' },
    h('h1', {}, `The contract, ${app.info.title}`),
    h(
      'p',
      { class: 'hint' },
      'Specified: the specification says so. Our choice: it is silent, and this is what we answer.',
    ),
    h('ol', { class: 'contract' }, rows),
  )
  return {
    title: 'Contract',
    element,
    show({ rule }) {
      for (const row of rows) row.classList.toggle('is-current', row.id === `rule-${rule}`)
      const row = rows.find(({ id }) => id === `rule-${rule}`)
      row?.scrollIntoView({ block: 'center' })
      row?.focus({ preventScroll: true })
    },
  }
}
