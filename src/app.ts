import type { NewToken } from './common/token-request.ts'
import type { VerifyToken } from './http/auth.ts'
import { type Api, type DispatchSettings, type HttpHandler, httpHandler } from './http/dispatch.ts'
import { healthRoutes } from './http/health.ts'
import type { Route } from './http/router.ts'
import { enterCallerSpace } from './http/spaces.ts'
import { documentRoute, openApiDocument } from './pages/openapi.ts'
import { swaggerPageRoutes } from './pages/pages.ts'
import { profileA } from './profiles/a.ts'
import { profileB } from './profiles/b.ts'
import type { Profile, ProfileName } from './profiles/profile.ts'
import { samples } from './profiles/samples.ts'
import { defaultSpace, type Spaces } from './store/store.ts'

export const profiles = { a: profileA, b: profileB }

export const collectionsOf = (served: Readonly<Record<string, Profile>>) =>
  Object.values(served).map(({ collection }) => collection)

export interface ApiSettings {
  readonly now: () => Date
  readonly random: () => number
  /** S7: whether the to-do endpoints also require a token. */
  readonly requireAuth: boolean
}

export interface AppSettings extends ApiSettings, Omit<DispatchSettings, 'space'> {
  /** What selects the space of a request: its token, `/~NAME` in front of its path, or nothing. */
  readonly spaces: 'caller' | 'path' | 'none'
  /** B12: whether the profile redirects HTTP to HTTPS, on any of its ports. */
  readonly redirectsToHttps: boolean
  /** Checks tokens for the control API, which accepts development tokens alone; undefined in production. */
  readonly verifyDevToken?: VerifyToken | undefined
  /** S5: creates the token that the Swagger page contains; undefined if the page is not served. */
  readonly newPageToken: NewToken | undefined
  /** Returns why the instance should get no requests; undefined if it is ready. */
  readonly unreadyReason: () => Promise<string | undefined>
}

/** The routes that the OpenAPI document describes: the to-do endpoints of the profile, then the sample endpoints. */
export function profileApi(profile: Profile, settings: ApiSettings): Api {
  const { name, title, description, errorResponse } = profile
  const secured = settings.requireAuth
  const items = profile.routes.map((route): Route => ({ ...route, secured, isSecurable: true }))
  return { name, title, description, errorResponse, routes: [...items, ...samples(settings.now, settings.random)] }
}

/** Returns the OpenAPI document of a profile, without a service. */
export function openApiDocumentOf(name: ProfileName, requireAuth = false, baseUrl?: string) {
  const api = profileApi(profiles[name], { requireAuth, now: () => new Date(0), random: () => 0 })
  return openApiDocument(api, baseUrl ?? `http://localhost:${profiles[name].defaultPort}`)
}

/** Handles every request to a profile: to-do endpoints, samples, document, health and pages. */
export function app(profile: Profile, spaces: Spaces, settings: AppSettings): HttpHandler {
  const open = (name: string) => ({ name, items: spaces.collection(profile.collection.name, name) })
  return httpHandler(appApi(profile, settings), {
    ...settings,
    space: open(defaultSpace),
    enterSpace: settings.spaces === 'caller' ? enterCallerSpace(open) : undefined,
  })
}

/** `hasApp`: whether /app is served, with the control API that it uses. */
export function appApi(profile: Profile, settings: AppSettings, hasApp = false): Api {
  const api = profileApi(profile, settings)
  const routes = [
    ...api.routes,
    documentRoute(api, {
      isRateLimited: settings.allowRequest !== undefined,
      redirectsToHttps: settings.redirectsToHttps,
    }),
    ...healthRoutes(settings.unreadyReason),
    ...(settings.newPageToken ? swaggerPageRoutes(settings.newPageToken, hasApp) : []),
  ]
  return { ...api, routes }
}
