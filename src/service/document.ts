import { profileApi, profiles } from '../app.ts'
import { openApiDocument } from '../pages/openapi.ts'
import type { ProfileName } from '../profiles/profile.ts'

export function openApiDocumentOf(name: ProfileName, requireAuth = false, baseUrl?: string) {
  const settings = { requireAuth, now: () => new Date(), random: Math.random }
  const api = profileApi(profiles[name], settings)
  return openApiDocument(api, baseUrl ?? `http://localhost:${profiles[name].defaultPort}`)
}
