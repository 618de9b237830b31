import { h, setChildren, setText, tabs, withCode } from './dom.ts'
import { counted } from './format.ts'
import type { App, View } from './view.ts'

/** How many requests met a rule, and the ids of those that broke it. */
interface Evidence {
  readonly met: number
  readonly broken: readonly number[]
}

const groupTitles: Partial<Record<string, string>> = { G: 'General', S: 'Samples' }
const times = (count: number) => (count === 1 ? 'once' : `${count} times`)

export function contractView(app: App): View {
  let shown: Partial<Record<string, string>> = {}
  const filter: HTMLInputElement = h('input', {
    type: 'search',
    placeholder: 'Filter by id or words',
    'aria-label': 'Filter rules',
    spellcheck: 'false',
    oninput: () => choose({ q: filter.value.trim() }),
  })
  const bases = { '': 'All', spec: 'Specified', choice: 'Our choices' }
  const basisTabs = tabs('Basis', bases, (basis) => choose({ basis }))
  const states = { '': 'All', met: 'Met', broken: 'Broken', unseen: 'Not seen' }
  const stateTabs = tabs('State', states, (state) => choose({ state }))

  const rows = app.info.rules.map(({ id, basis, sentence, canBeMet }) => {
    const state = h('p.evidence')
    const evidence: Evidence = { met: 0, broken: [] }
    const element = h(
      'li',
      { id: `rule-${id}`, tabindex: '-1' },
      h('h3.mono', id),
      h('p.text', withCode(sentence)),
      h('small', { class: basis === 'spec' ? 'basis' : 'basis badge' }, basis === 'spec' ? 'specified' : 'our choice'),
      state,
    )
    const text = `${id} ${sentence}`.toLowerCase()
    return { id, basis, canBeMet, text, element, state, evidence }
  })
  type Row = (typeof rows)[number]
  const stateOf = ({ evidence, canBeMet }: Row) => {
    if (evidence.broken.length > 0) return 'broken'
    if (evidence.met > 0) return 'met'
    return canBeMet ? 'unseen' : 'service'
  }
  const groups = [...new Set(rows.map(({ id }) => id.charAt(0)))].map((letter) => {
    const members = rows.filter(({ id }) => id.startsWith(letter))
    const title = groupTitles[letter] ?? 'To-do items'
    const list = h(
      'ol',
      members.map(({ element }) => element),
    )
    return { members, list, element: h('section.card', { 'aria-label': title }, h('h2', title), list) }
  })
  const brokenList = h('ol')
  const brokenCard = h('section.card', { 'aria-label': 'Broken', hidden: true }, h('h2', 'Broken'), brokenList)
  const nothing = h('p.empty', { hidden: true }, 'No rule matches these filters.')

  const summary = h('p.summary', { role: 'status' })
  const metPart = h('span.s2xx')
  const brokenPart = h('span.s4xx')
  const element = h(
    'section.view.wide.stack.contract',
    { 'aria-label': 'Contract' },
    h('h1', `The contract, ${app.info.title}`),
    h(
      'div.card.stack.progress',
      summary,
      h('div.progress-bar', { 'aria-hidden': 'true' }, metPart, brokenPart),
      h(
        'p.hint',
        'A live check of your own client, by the requests in ',
        h('a', { href: '#/traffic' }, 'Traffic'),
        withCode(' without simulated ones; it proves nothing about a server, which `todo-service verify` does.'),
      ),
    ),
    h(
      'div.line.filters',
      filter,
      h('div.line', h('span.hint', 'Basis'), basisTabs.element),
      h('div.line', h('span.hint', 'Your requests'), stateTabs.element),
    ),
    brokenCard,
    groups.map((group) => group.element),
    nothing,
    h('p.hint', 'Specified: the specification says so. Our choice: it is silent, and this is what we answer.'),
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
      (!state || stateOf(row) === state)
    for (const row of rows) {
      row.element.hidden = !isShown(row)
      row.element.classList.toggle('is-current', row.id === rule)
    }
    const isEmpty = (list: Element) => !list.querySelector('li:not([hidden])')
    for (const { list, element: card } of groups) card.hidden = isEmpty(list)
    brokenCard.hidden = isEmpty(brokenList)
    nothing.hidden = rows.some(({ element: row }) => !row.hidden)
  }

  /** Moves broken rules from their groups to the list at the top. */
  function arrange() {
    const isBroken = (row: Row) => stateOf(row) === 'broken'
    const elementsOf = (list: readonly Row[]) => list.map(({ element: row }) => row)
    setChildren(brokenList, elementsOf(rows.filter(isBroken)))
    for (const { list, members } of groups) setChildren(list, elementsOf(members.filter((row) => !isBroken(row))))
  }

  function count() {
    const requests = [...app.entries.values()].filter(
      ({ state, isSimulated, request }) => state === 'sent' && !isSimulated && !request.headers['x-todo-client'],
    )
    for (const row of rows) {
      const broken = requests.filter(({ rules }) => rules.includes(row.id)).map(({ id }) => id)
      showEvidence(row, { met: requests.filter(({ met }) => met.includes(row.id)).length, broken })
    }
    arrange()
    const inState = (state: string) => rows.filter((row) => stateOf(row) === state).length
    const [met, broken] = [inState('met'), inState('broken')]
    const all = met + broken + inState('unseen')
    const toMeet = rows.filter(({ canBeMet }) => canBeMet).length
    setText(summary, `${met} of ${toMeet} rules met, ${broken} broken, by ${counted(requests.length, 'request')}`)
    metPart.style.width = `${(100 * met) / all}%`
    brokenPart.style.width = `${(100 * broken) / all}%`
    applyFilters()
  }

  function showEvidence(row: Row, evidence: Evidence) {
    if (JSON.stringify(row.evidence) === JSON.stringify(evidence) && row.state.firstChild) return
    row.evidence = evidence
    const { met, broken } = evidence
    row.state.replaceChildren()
    if (broken.length > 0) {
      const href = `#/traffic?open=${Math.max(...broken)}`
      const title = `Open the newest request that broke ${row.id}`
      row.state.append(h('a.badge.s4xx', { href, title }, `broken ${times(broken.length)}`))
    }
    if (met > 0) row.state.append(h('span.badge.s2xx', `met ${times(met)}`))
    if (!row.state.firstChild) row.state.append(h('span.hint', row.canBeMet ? 'not seen' : 'met by the service'))
  }

  return {
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
