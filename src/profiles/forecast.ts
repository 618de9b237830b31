export const summaries = [
  'Freezing',
  'Bracing',
  'Chilly',
  'Cool',
  'Mild',
  'Warm',
  'Balmy',
  'Hot',
  'Sweltering',
  'Scorching',
] as const

const dayMs = 24 * 60 * 60 * 1000

/** S1: returns five successive days from tomorrow, counted in UTC, where each has 24 hours. `random` is in [0, 1). */
export function forecast(now: Date, random: () => number) {
  const below = (limit: number) => Math.floor(random() * limit)
  return [1, 2, 3, 4, 5].map((days) => {
    const temperatureC = below(75) - 20
    return {
      date: new Date(now.getTime() + days * dayMs).toISOString().replace('Z', '+00:00'),
      temperatureC,
      temperatureF: 32 + Math.trunc(temperatureC / 0.5556),
      summary: summaries[below(summaries.length)],
    }
  })
}
