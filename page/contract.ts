import { h, setText, tabs, withCode } from './dom.ts'
import type { App, View } from './view.ts'

/** What the requests say about a rule. */
interface Evidence {
  met: number
  broken: number
  /** The id of the newest request that broke it. */
  brokenBy: number
}

const groupTitles: Partial<Record<string, string>> = { G: 'General', S: 'Samples' }
const times = (count: number) => (count === 1 ? 'once' : `${count} times`)
const stateOf = ({ met, broken }: Evidence) => (broken > 0 ? 'broken' : met > 0 ? 'met' : 'unseen')

export function contractView(app: App): View {
  let shown: Partial<Record<string, string>> = {}
  const filter: HTMLInputElement = h('input', {
    type: 'search',
    placeholder: 'Filter by id or words',
    'aria-label': 'Filter rules',
    spellcheck: 'false',
    oninput: () => choose({ q: filter.value.trim() }),
  })
  const basisTabs = tabs(
    'Basis',
    [
      ['', 'All'],
      ['spec', 'Specified'],
      ['choice', 'Our choices'],
    ],
    (basis) => choose({ basis }),
  )
  const stateTabs = tabs(
    'State',
    [
      ['', 'All'],
      ['met', 'Met'],
      ['broken', 'Broken'],
      ['unseen', 'Not seen'],
    ],
    (state) => choose({ state }),
  )

  const rows = app.info.rules.map(({ id, basis, sentence }) => {
    const state = h('p', { class: 'evidence' })
    const evidence: Evidence = { met: 0, broken: 0, brokenBy: 0 }
    const element = h(
      'li',
      { id: `rule-${id}`, tabindex: '-1' },
      h('h3', { class: 'mono' }, id),
      h('p', { class: 'text' }, withCode(sentence)),
      h('small', { class: basis === 'spec' ? 'basis' : 'basis badge' }, basis === 'spec' ? 'specified' : 'our choice'),
      state,
    )
    const text = `${id} ${sentence}`.toLowerCase()
    return { id, basis, text, element, state, evidence }
  })
  type Row = (typeof rows)[number]
  const groups = [...new Set(rows.map(({ id }) => id.charAt(0)))].map((letter) => {
    const members = rows.filter(({ id }) => id.startsWith(letter))
    const title = groupTitles[letter] ?? 'To-do items'
    const list = h(
      'ol',
      {},
      members.map(({ element }) => element),
    )
    return { members, element: h('section', { class: 'card', 'aria-label': title }, h('h2', {}, title), list) }
  })
  const nothing = h('p', { class: 'empty', hidden: true }, 'No rule matches these filters.')

  const summary = h('p', { class: 'summary', role: 'status' })
  const metPart = h('span', { class: 's2xx' })
  const brokenPart = h('span', { class: 's4xx' })
  const element = h(
    'section',
    { class: 'view wide contract', 'aria-label': 'Contract' },
    h('h1', {}, `The contract, ${app.info.title}`),
    h(
      'div',
      { class: 'card progress' },
      summary,
      h('div', { class: 'progress-bar', 'aria-hidden': 'true' }, metPart, brokenPart),
      h(
        'p',
        { class: 'hint' },
        'A live check of your own client, by the requests in ',
        h('a', { href: '#/traffic' }, 'Traffic'),
        ' without simulated ones; it proves nothing about a server, which ',
        h('code', {}, 'todo-service verify'),
        ' does.',
      ),
    ),
    h('div', { class: 'line filters' }, filter, basisTabs.element, stateTabs.element),
    groups.map((group) => group.element),
    nothing,
    h(
      'p',
      { class: 'hint' },
      'Specified: the specification says so. Our choice: it is silent, and this is what we answer.',
    ),
  )

  function choose(chosen: Readonly<Record<string, string>>) {
    const { q = '', basis = '', state = '' } = { ...shown, ...chosen }
    shown = { q, basis, state }
    app.setParameters('contract', { q, basis, state })
    applyFilters()
  }

  function applyFilters() {
    const { q = '', basis = '', state = '', rule } = shown
    if (filter.value.trim() !== q) filter.value = q
    basisTabs.choose(basis)
    stateTabs.choose(state)
    const words = q.toLowerCase().split(/\s+/)
    const isShown = (row: Row) =>
      words.every((word) => row.text.includes(word)) &&
      (!basis || row.basis === basis) &&
      (!state || stateOf(row.evidence) === state)
    for (const row of rows) {
      row.element.hidden = !isShown(row)
      row.element.classList.toggle('is-current', row.id === rule)
    }
    for (const { members, element: card } of groups) card.hidden = members.every((row) => row.element.hidden)
    nothing.hidden = groups.some(({ element: card }) => !card.hidden)
  }

  function count() {
    const found = new Map(rows.map(({ id }): [string, Evidence] => [id, { met: 0, broken: 0, brokenBy: 0 }]))
    let requests = 0
    for (const { id, state, met, rules, isSimulated, request } of app.entries.values()) {
      if (state !== 'sent' || isSimulated || request.headers['x-todo-client']) continue
      requests++
      for (const rule of met) {
        const evidence = found.get(rule)
        if (evidence) evidence.met++
      }
      for (const rule of rules) {
        const evidence = found.get(rule)
        if (!evidence) continue
        evidence.broken++
        evidence.brokenBy = Math.max(evidence.brokenBy, id)
      }
    }
    for (const row of rows) showEvidence(row, found.get(row.id) ?? row.evidence)
    const inState = (state: string) => rows.filter(({ evidence }) => stateOf(evidence) === state).length
    const [met, broken] = [inState('met'), inState('broken')]
    const by = requests === 1 ? '1 request' : `${requests} requests`
    setText(summary, `${met} of ${rows.length} rules met, ${broken} broken, by ${by}`)
    metPart.style.width = `${(100 * met) / rows.length}%`
    brokenPart.style.width = `${(100 * broken) / rows.length}%`
    applyFilters()
  }

  function showEvidence(row: Row, { met, broken, brokenBy }: Evidence) {
    const { evidence, state, id } = row
    const isSame = evidence.met === met && evidence.broken === broken && evidence.brokenBy === brokenBy
    if (isSame && state.firstChild) return
    Object.assign(evidence, { met, broken, brokenBy })
    const isBroken = broken > 0
    const link = h(
      'a',
      { class: 'badge s4xx', href: `#/traffic?open=${brokenBy}`, title: `Open the newest request that broke ${id}` },
      `broken ${times(broken)}`,
    )
    state.replaceChildren(
      ...(isBroken ? [link] : []),
      ...(met > 0 ? [h('span', { class: 'badge s2xx' }, `met ${times(met)}`)] : []),
      ...(isBroken || met > 0 ? [] : [h('span', { class: 'hint' }, 'not seen')]),
    )
  }

  return {
    title: 'Contract',
    element,
    show(parameters) {
      shown = parameters
      count()
      const row = rows.find(({ id }) => id === parameters.rule)
      row?.element.scrollIntoView({ block: 'center' })
      row?.element.focus({ preventScroll: true })
    },
    entriesChanged() {
      if (!element.hidden) count()
    },
  }
}
