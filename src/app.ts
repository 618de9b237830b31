import type { Eventually } from './eventually.ts'
import type { Handler } from './http/connection.ts'
import { type Face, handlerOf, type Settings } from './http/handler.ts'
import { healthRoutes } from './http/health.ts'
import { documentRoute } from './http/openapi.ts'
import { pageRoutes } from './http/page.ts'
import { profileA } from './profiles/a.ts'
import { profileB } from './profiles/b.ts'
import type { Profile, ProfileName } from './profiles/profile.ts'
import { samples } from './profiles/samples.ts'
import type { Stores } from './store/store.ts'

export const profiles = { a: profileA, b: profileB }

export interface FaceSettings {
  readonly now: () => Date
  readonly random: () => number
  /** S7: whether the items ask for a token too. */
  readonly requireAuth: boolean
}

export interface AppSettings extends FaceSettings, Settings {
  /** S5: makes the token that the page brings along; undefined where there is no page. */
  readonly pageToken: (() => Promise<string>) | undefined
  /** Why there should be no requests now, if so. */
  readonly unready: () => Eventually<string | undefined>
}

/** What one profile shows: its items, then the samples. */
export function faceOf<Name extends ProfileName>(profile: Profile<Name>, stores: Stores, settings: FaceSettings): Face {
  const { name, title, about, refuse } = profile
  const items = profile.routes(stores[name]).map((route) => ({ ...route, secured: settings.requireAuth }))
  return { name, title, about, refuse, routes: [...items, ...samples(settings.now, settings.random)] }
}

/** The face, the document that describes it and, in development, the page that tries it. */
export function app<Name extends ProfileName>(profile: Profile<Name>, stores: Stores, settings: AppSettings): Handler {
  const face = faceOf(profile, stores, settings)
  const page = settings.pageToken ? pageRoutes(settings.pageToken) : []
  return handlerOf(
    { ...face, routes: [...face.routes, documentRoute(face), ...healthRoutes(settings.unready), ...page] },
    settings,
  )
}
