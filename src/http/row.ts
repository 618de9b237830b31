/** Things that are done one after the other: each is begun when the one before it is done, at once or later. */
export class Row<Thing> {
  readonly #begin: (thing: Thing, done: () => void) => void
  #waiting: Thing[] = []
  #isBusy = false

  constructor(begin: (thing: Thing, done: () => void) => void) {
    this.#begin = begin
  }

  get isBusy(): boolean {
    return this.#isBusy
  }

  /** What came behind the one that is begun. */
  get waiting(): readonly Thing[] {
    return this.#waiting
  }

  add(thing: Thing): void {
    if (this.#isBusy) this.#waiting.push(thing)
    else this.#work(thing)
  }

  /** What waits is never begun. */
  drop(): void {
    this.#waiting = []
  }

  /** Goes through it until one is done later. */
  #work(first: Thing): void {
    this.#isBusy = true
    let next: Thing | undefined = first
    while (next !== undefined && this.#isDoneAtOnce(next)) next = this.#waiting.shift()
    this.#isBusy = next !== undefined
  }

  #isDoneAtOnce(thing: Thing): boolean {
    let [isDone, isLater] = [false, false]
    this.#begin(thing, () => {
      if (!isDone && isLater) queueMicrotask(() => this.#goOn())
      isDone = true
    })
    isLater = true
    return isDone
  }

  #goOn(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) this.#work(next)
    else this.#isBusy = false
  }
}
