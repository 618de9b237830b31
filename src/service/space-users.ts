import type { Spaces } from '../store/store.ts'

/** Counts the profiles that use a space. Where spaces are temporary, one that no profile uses any more is deleted. */
export class SpaceUsers {
  readonly #spaces: Spaces
  readonly areTemporary: boolean
  readonly #counts = new Map<string, number>()
  /** The control of each profile. */
  readonly controls: { forget(space: string): void }[] = []

  constructor(spaces: Spaces, areTemporary: boolean) {
    this.#spaces = spaces
    this.areTemporary = areTemporary
  }

  /** Deletes a space with its items, its rules and its journal, in each profile. */
  async delete(space: string): Promise<void> {
    await this.#spaces.deleteSpace(space)
    for (const control of this.controls) control.forget(space)
  }

  add(space: string): void {
    this.#counts.set(space, (this.#counts.get(space) ?? 0) + 1)
  }

  remove(space: string): void {
    const count = (this.#counts.get(space) ?? 0) - 1
    if (count > 0) this.#counts.set(space, count)
    else {
      this.#counts.delete(space)
      if (this.areTemporary) void this.#spaces.deleteSpace(space)
    }
  }
}
