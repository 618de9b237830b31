import { type Spaces, setRecent } from '../store/store.ts'

export type SpaceUsers = ReturnType<typeof spaceUsers>

/** How many deleted spaces are remembered. */
const maxDeletions = 10_000

/** Counts the profiles that use a space. If spaces are temporary, one that no profile uses any more is deleted. */
export function spaceUsers(spaces: Spaces, areTemporary: boolean) {
  const counts = new Map<string, number>()
  /** The control of each profile. */
  const controls: { forget(space: string): void }[] = []
  /** How often each space was deleted: a token for a space ends with it. */
  const deletions = new Map<string, number>()
  const deletionsOf = (space: string) => deletions.get(space) ?? 0
  return {
    areTemporary,
    controls,
    /** Deletes a space with its items, faults and journal in every profile. */
    async delete(space: string): Promise<void> {
      await spaces.deleteSpace(space)
      setRecent(deletions, space, deletionsOf(space) + 1, maxDeletions)
      for (const control of controls) control.forget(space)
    },
    deletionsOf,
    add(space: string): void {
      counts.set(space, (counts.get(space) ?? 0) + 1)
    },
    remove(space: string): void {
      const count = (counts.get(space) ?? 0) - 1
      if (count > 0) counts.set(space, count)
      else {
        counts.delete(space)
        if (areTemporary) void spaces.deleteSpace(space)
      }
    },
  }
}
