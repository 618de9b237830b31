import { choice, spec } from './check.ts'
import { expectArray, expectStatus, expectThat, expectType } from './expect.ts'
import type { Service } from './service.ts'

interface Entry {
  date: string
  temperatureC: number
  temperatureF: number
  summary: string | null
}

const summaries = 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' ')
const dateTime = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d$/

/** Temperatures and summaries are random: what must hold for each entry is looked at over many. */
async function manyEntries(service: Service): Promise<Entry[]> {
  const answers = await Promise.all(Array.from({ length: 20 }, () => service.send('GET', '/weatherforecast')))
  return answers.flatMap((answer) => expectArray(answer) as Entry[])
}

const dayOf = (date: string) => Date.parse(`${date.slice(0, 10)}T00:00:00Z`) / 86_400_000

export const sampleChecks = [
  spec('S1', 'the forecast has five entries with the four members', async (service) => {
    const answer = await service.send('GET', '/weatherforecast')
    const entries = expectArray(answer)
    expectThat(entries.length === 5, 'five entries', answer)
    for (const entry of entries) {
      const members = Object.keys(entry as object).sort()
      expectThat(members.join() === 'date,summary,temperatureC,temperatureF', 'exactly the four members', answer)
    }
  }),
  spec('S1', 'dates are date-times with an offset, on successive days from tomorrow', async (service) => {
    const answer = await service.send('GET', '/weatherforecast')
    const dates = (expectArray(answer) as Entry[]).map(({ date }) => date)
    expectThat(
      dates.every((date) => dateTime.test(date)),
      'date-times with an offset',
      answer,
    )
    const [first = Number.NaN] = dates.map(dayOf)
    expectThat(
      dates.every((date, at) => dayOf(date) === first + at),
      'successive days',
      answer,
    )
    const [, sign = '+', hours = '0', minutes = '0'] = /([+-])(\d\d):(\d\d)$/.exec(dates[0] ?? '') ?? []
    const offset = (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000
    const now = Date.parse(answer.headers.date ?? '') || Date.now()
    const today = Math.floor((now + offset) / 86_400_000)
    expectThat(first === today + 1, 'the first day to be tomorrow', answer)
  }),
  choice('S1', 'the offset is +00:00', async (service) => {
    const answer = await service.send('GET', '/weatherforecast')
    expectThat(
      (expectArray(answer) as Entry[]).every(({ date }) => date.endsWith('+00:00')),
      'offsets of +00:00',
      answer,
    )
  }),
  spec('S1', 'temperatureC is a whole number from -20 to 54', async (service) => {
    for (const { temperatureC: c } of await manyEntries(service))
      expectThat(Number.isInteger(c) && c >= -20 && c <= 54, 'a temperatureC from -20 to 54')
  }),
  spec('S1', 'temperatureF is 32 + truncate(temperatureC / 0.5556)', async (service) => {
    for (const { temperatureC: c, temperatureF: f } of await manyEntries(service))
      expectThat(
        f === 32 + Math.trunc(c / 0.5556),
        `temperatureF of ${Number(c)} °C to be ${32 + Math.trunc(Number(c) / 0.5556)}`,
      )
  }),
  spec('S1', 'summary is one of the ten', async (service) => {
    for (const { summary } of await manyEntries(service))
      expectThat(summary === null || summaries.includes(summary), 'one of the ten summaries')
  }),
  spec('S2', 'the root greets in plain text', async (service) => {
    const answer = await service.send('GET', '/')
    expectStatus(answer, 200)
    expectThat(/^text\/plain\b/i.test(answer.headers['content-type'] ?? ''), 'content-type text/plain', answer)
    expectThat(answer.text.trim() !== '', 'a greeting', answer)
  }),
  choice('S2', 'the greeting is UTF-8', async (service) => {
    expectType(await service.send('GET', '/'), 'text/plain; charset=utf-8')
  }),
]
