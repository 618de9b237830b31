import { handlerOf, type Settings } from './http/handler.ts'
import type { Handler } from './http/server.ts'
import { profileA } from './profiles/a.ts'
import { profileB } from './profiles/b.ts'
import type { Profile, ProfileName } from './profiles/profile.ts'
import { samples } from './profiles/samples.ts'
import type { Stores } from './store/store.ts'

export const profiles = { a: profileA, b: profileB }

export interface AppSettings extends Settings {
  readonly now: () => Date
  readonly random: () => number
  /** S7: whether the items ask for a token too. */
  readonly requireAuth: boolean
}

/** What one profile serves: its items, then the samples. */
export function app<Name extends ProfileName>(profile: Profile<Name>, stores: Stores, settings: AppSettings): Handler {
  const items = profile.routes(stores[profile.name]).map((route) => ({ ...route, secured: settings.requireAuth }))
  const routes = [...items, ...samples(settings.now, settings.random)]
  return handlerOf({ name: profile.name, routes, refuse: profile.refuse }, settings)
}
