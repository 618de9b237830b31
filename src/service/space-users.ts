import { randomUUID } from 'node:crypto'
import type { Spaces } from '../store/store.ts'

export type SpaceUsers = ReturnType<typeof spaceUsers>

/** Counts the profiles that use a space. Where spaces are temporary, one that no profile uses any more is deleted. */
export function spaceUsers(spaces: Spaces, areTemporary: boolean) {
  const counts = new Map<string, number>()
  /** The control of each profile. */
  const controls: { forget(space: string): void }[] = []
  /** The id in the tokens for codes of a space, until it is deleted. */
  const grants = new Map<string, string>()
  return {
    areTemporary,
    controls,
    /** Deletes a space with its items, its faults and its journal, in each profile. */
    async delete(space: string): Promise<void> {
      await spaces.deleteSpace(space)
      grants.delete(space)
      for (const control of controls) control.forget(space)
    },
    grantOf(space: string): string {
      const grant = grants.get(space) ?? randomUUID()
      grants.set(space, grant)
      return grant
    },
    isGranted: (space: string, grant: unknown): boolean => grants.get(space) === grant,
    add(space: string): void {
      counts.set(space, (counts.get(space) ?? 0) + 1)
    },
    remove(space: string): void {
      const count = (counts.get(space) ?? 0) - 1
      if (count > 0) counts.set(space, count)
      else {
        counts.delete(space)
        if (!areTemporary) return
        grants.delete(space)
        void spaces.deleteSpace(space)
      }
    },
  }
}
