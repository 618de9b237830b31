import type { VerifyToken } from './http/auth.ts'
import { type Api, type DispatchSettings, type HttpHandler, httpHandler } from './http/dispatch.ts'
import { healthRoutes } from './http/health.ts'
import type { Route } from './http/router.ts'
import { enterCallerSpace } from './http/spaces.ts'
import { documentRoute } from './pages/openapi.ts'
import { swaggerPageRoutes } from './pages/pages.ts'
import { profileA } from './profiles/a.ts'
import { profileB } from './profiles/b.ts'
import type { Profile, ProfileName } from './profiles/profile.ts'
import { samples } from './profiles/samples.ts'
import { defaultSpace, type Spaces } from './store/store.ts'

export const profiles = { a: profileA, b: profileB }

export interface ApiSettings {
  readonly now: () => Date
  readonly random: () => number
  /** S7: whether the to-do endpoints require a token too. */
  readonly requireAuth: boolean
}

export interface AppSettings extends ApiSettings, Omit<DispatchSettings, 'space'> {
  /** Whether each caller has a space of its own. */
  readonly spaces: 'caller' | 'path' | 'none'
  /** B12: on this or another port of the profile. */
  readonly redirectsToHttps: boolean
  /** The control API accepts no other tokens; undefined in production. */
  readonly verifyDevToken?: VerifyToken | undefined
  /** S5: makes the token that the page contains; undefined where there is no page. */
  readonly newPageToken: ((request?: { readonly scopes: readonly string[] }) => Promise<string>) | undefined
  /** Whether the control API and its page are served, too. */
  readonly hasApp?: boolean
  /** Why the instance should get no requests; undefined where it is ready. */
  readonly unreadyReason: () => Promise<string | undefined>
}

/** What the OpenAPI document describes: the profile's to-do endpoints, then the samples. */
export function profileApi(profile: Profile<ProfileName>, settings: ApiSettings): Api {
  const { name, title, description, errorResponse } = profile
  const secured = settings.requireAuth
  const items = profile.routes.map((route): Route => ({ ...route, secured, isSecurable: true }))
  return { name, title, description, errorResponse, routes: [...items, ...samples(settings.now, settings.random)] }
}

/** Serves everything of a profile in these spaces. */
export function app(profile: Profile<ProfileName>, spaces: Spaces, settings: AppSettings): HttpHandler {
  const open = (name: string) => ({ name, stores: spaces.space(name) })
  return httpHandler(appApi(profile, settings), {
    ...settings,
    space: open(defaultSpace),
    enterSpace: settings.spaces === 'caller' ? enterCallerSpace(open) : undefined,
  })
}

export function appApi(profile: Profile<ProfileName>, settings: AppSettings): Api {
  const api = profileApi(profile, settings)
  const routes = [
    ...api.routes,
    documentRoute(api, {
      isRateLimited: settings.allowRequest !== undefined,
      redirectsToHttps: settings.redirectsToHttps,
    }),
    ...healthRoutes(settings.unreadyReason),
    ...(settings.newPageToken ? swaggerPageRoutes(settings.newPageToken, settings.hasApp ?? false) : []),
  ]
  return { ...api, routes }
}
