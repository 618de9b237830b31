import { relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'

const shown = 10

/** A reporter that names the files that took longest. */
export default async function* slowestFiles(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const seconds = new Map<string, number>()
  for await (const { type, data } of events)
    if ((type === 'test:pass' || type === 'test:fail') && data.nesting === 0 && data.file !== undefined)
      seconds.set(data.file, (seconds.get(data.file) ?? 0) + data.details.duration_ms / 1000)
  yield '# slowest files, in seconds:\n'
  const sorted = [...seconds].sort(([, one], [, other]) => other - one)
  for (const [file, time] of sorted.slice(0, shown))
    yield `# ${time.toFixed(1).padStart(6)}  ${relative(process.cwd(), file)}\n`
}
