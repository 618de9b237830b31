import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { forecast } from '../src/profiles/forecast.ts'
import { cleanUp } from './support/cleanup.ts'

const noon = new Date('2026-06-15T12:00:00Z')
const daysFrom = (now: string) => forecast(new Date(now), () => 0).map(({ date }) => date)

/** A random source that repeats these values. */
const sequence = (...values: number[]) => {
  let index = 0
  return () => values[index++ % values.length] as number
}

suite('S1 forecast', () => {
  test('covers every temperature from -20 to 54 °C, with temperatureF', () => {
    for (let c = -20; c <= 54; c++) {
      const [entry] = forecast(noon, sequence((c + 20 + 0.5) / 75, 0))
      assert.equal(entry?.temperatureC, c)
      assert.equal(entry.temperatureF, 32 + Math.trunc(c / 0.5556))
    }
  })

  test('truncates temperatureF', () => {
    const fahrenheit = (c: number) => forecast(noon, sequence((c + 20 + 0.5) / 75, 0))[0]?.temperatureF
    assert.deepEqual([-20, -1, 0, 1, 10, 54].map(fahrenheit), [-3, 31, 32, 33, 49, 129])
  })

  test('stays in range at the ends of the random source', () => {
    const lowest = forecast(noon, () => 0)
    const highest = forecast(noon, () => 1 - Number.EPSILON / 2)
    assert.deepEqual([lowest[0]?.temperatureC, lowest[0]?.summary], [-20, 'Freezing'])
    assert.deepEqual([highest[0]?.temperatureC, highest[0]?.summary], [54, 'Scorching'])
  })

  test('has each of the ten summaries', () => {
    const summaries = Array.from({ length: 10 }, (_, index) => forecast(noon, () => (index + 0.5) / 10)[0]?.summary)
    assert.deepEqual(summaries, 'Freezing Bracing Chilly Cool Mild Warm Balmy Hot Sweltering Scorching'.split(' '))
  })

  test('depends only on the clock and the random source', () => {
    assert.deepEqual(forecast(noon, sequence(0.1, 0.7)), forecast(noon, sequence(0.1, 0.7)))
  })

  test('continues after the end of a month, a year and February', () => {
    const ends = [
      ['2026-04-28T08:30:15.250Z', '29 30 01 02 03'],
      ['2026-12-29T23:59:59.999Z', '30 31 01 02 03'],
      ['2028-02-27T00:00:00.000Z', '28 29 01 02 03'],
      ['2027-02-27T00:00:00.000Z', '28 01 02 03 04'],
    ] as const
    for (const [now, days] of ends)
      assert.equal(
        daysFrom(now)
          .map((date) => date.slice(8, 10))
          .join(' '),
        days,
      )
    assert.equal(daysFrom('2026-12-29T23:59:59.999Z')[2], '2027-01-01T23:59:59.999+00:00')
  })

  test('has successive days across daylight-saving changes of the local time zone', (t) => {
    const { TZ } = process.env
    cleanUp(t, () => {
      if (TZ === undefined) delete process.env.TZ
      else process.env.TZ = TZ
    })
    for (const zone of ['America/New_York', 'Europe/Berlin', 'Australia/Lord_Howe', 'Pacific/Apia']) {
      process.env.TZ = zone
      for (const now of [
        '2026-03-06T23:30:00Z',
        '2026-03-27T23:30:00Z',
        '2026-10-23T00:30:00Z',
        '2026-10-30T05:30:00Z',
      ]) {
        const time = now.slice(10, -1)
        const midnight = Date.parse(`${now.slice(0, 10)}T00:00:00Z`)
        const days = [1, 2, 3, 4, 5].map((day) => new Date(midnight + day * 86_400_000).toISOString().slice(0, 10))
        assert.deepEqual(
          daysFrom(now),
          days.map((day) => `${day}${time}.000+00:00`),
          `${zone} ${now}`,
        )
      }
    }
  })
})
