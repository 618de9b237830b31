/** Prints a line for the operator of the service; the level is `error` if something begins to fail. */
export type Notice = (message: string, level?: 'error') => void

const intervalMs = 60_000
const maxPerInterval = 6

/** Returns a notice for a state that may keep changing: prints a few lines a minute, then the number of others. */
export function limitNotices(print: Notice, monotonicNow: () => number): Notice {
  let endsAt = Number.NEGATIVE_INFINITY
  let printed = 0
  let suppressed = 0
  let last = ''
  function summarize(): void {
    print(`More changes of the state of the database in the last minute: ${suppressed}. Now: ${last}`)
    suppressed = 0
  }
  return (message, level) => {
    const now = monotonicNow()
    if (now >= endsAt && suppressed === 0) {
      endsAt = now + intervalMs
      printed = 0
    }
    if (printed < maxPerInterval) {
      printed++
      print(message, level)
      return
    }
    last = message
    suppressed++
    if (suppressed === 1) setTimeout(summarize, endsAt - now).unref()
  }
}

export type Failures = ReturnType<typeof failuresOf>

/** Prints one line when reads or writes begin to fail, and one when they succeed again. */
export function failuresOf(what: 'Reads' | 'Writes', notice: Notice) {
  let isFailing = false
  return {
    get isFailing(): boolean {
      return isFailing
    },
    /** The reason is a sentence. */
    failed(reason: string): void {
      if (!isFailing) notice(`${what} fail: ${reason}`, 'error')
      isFailing = true
    },
    succeeded(): void {
      if (isFailing) notice(`${what} succeed again.`)
      isFailing = false
    },
  }
}
