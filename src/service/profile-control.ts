import { randomInt, randomUUID, X509Certificate } from 'node:crypto'
import { type AppSettings, appApi, profileApi, profiles } from '../app.ts'
import { rules as contractRules } from '../common/rules.ts'
import type { Config } from '../config/config.ts'
import { Control } from '../control/control.ts'
import { Faults, faultErrors } from '../control/faults.ts'
import type { ServiceInfo } from '../control/schema.ts'
import type { SpaceItems } from '../control/space.ts'
import { documentsOf, type Profile, rulesOf, rulesToMeet } from '../profiles/profile.ts'
import { defaultSpace, type Spaces, UnavailableError } from '../store/store.ts'
import type { Clock } from './clock.ts'
import type { SpaceUsers } from './space-users.ts'
import { controlBodyBytes } from './stores.ts'

export interface ControlledService {
  readonly config: Config
  readonly spaces: Spaces
  readonly spaceUsers: SpaceUsers
  /** Returns the part of GET /__admin/info that is the same for all profiles and spaces. */
  readonly serviceInfo: () => ServiceInfo
}

export function controlledProfile(
  profile: Profile,
  { config, spaces, spaceUsers, serviceInfo }: ControlledService,
  controlSettings: NonNullable<Config['control']>,
  settings: AppSettings,
  /** Returns the certificate in PEM format, which may include the private key; undefined without HTTPS. */
  certificate: () => string | undefined,
): Control {
  const { collection } = profile
  const itemsOf = (space: string): SpaceItems => {
    spaceUsers.add(space)
    let isDisposed = false
    const open = () => {
      // The request was delayed until its space had ended. Opening the space would create it again, and nobody uses it.
      if (isDisposed && spaceUsers.areTemporary) throw new UnavailableError('The space has ended.')
      return spaces.collection(collection.name, space)
    }
    // The default space never ends, so it is opened once.
    const always = space === defaultSpace ? open() : undefined
    const items = () => always ?? open()
    return {
      get collection() {
        return items()
      },
      list: (reader) => items().list(reader),
      reset: () => items().replaceAll(collection.startingDocuments),
      putItems: (sent, ifMatch) => items().replaceAll(documentsOf(collection, sent), ifMatch),
      dispose() {
        isDisposed = true
        spaceUsers.remove(space)
      },
    }
  }
  const { random, now, newPageToken, requireAuth } = settings
  const toMeet = rulesToMeet(profile)
  const rulesOfProfile = contractRules
    .filter(({ id }) => ['G', 'S', profile.name.toUpperCase()].includes(id.charAt(0)))
    .map((rule) => ({ ...rule, canBeMet: toMeet.has(rule.id) }))
  const control = new Control({
    api: appApi(profile, { ...settings, hasApp: true }),
    spaces: config.spaces,
    itemsOf,
    startingCount: collection.startingDocuments.length,
    async countItems() {
      const all = await spaces.listSpaces()
      return new Map(all.map(({ name, items }) => [name, items[collection.name]]))
    },
    deleteItems: (space) => spaceUsers.delete(space),
    deletionsOf: spaceUsers.deletionsOf,
    itemSchema: profile.itemSchema,
    keyMember: collection.keyMember,
    rulesOf: (context, response) => rulesOf(profile, context, response),
    settings,
    verifyToken: settings.verifyDevToken ?? settings.verifyToken,
    ...controlSettings,
    faults: { faults: controlSettings.faults, random },
    maxBodyBytes: controlBodyBytes(config),
    now,
    info: () => ({
      ...serviceInfo(),
      certificate: describeCertificate(certificate()),
      flags: { requireAuth },
      rules: rulesOfProfile,
    }),
    instance: randomUUID(),
    newToken: newPageToken,
    // Neither --seed nor --now has an effect on codes: a code must be unpredictable, and expire.
    codes: { randomInt, now: () => new Date() },
  })
  spaceUsers.controls.push(control)
  return control
}

/**
 * Checks --fault and --delay. A fault that is possible in none of the served profiles is a problem; one that is
 * possible in one of them alone is worth a note.
 */
export function findFaultProblems(
  { profiles: names, requireAuth, control: settings }: Pick<Config, 'profiles' | 'requireAuth' | 'control'>,
  clock: Pick<Clock, 'now' | 'random'>,
): { problems: string[]; notes: string[] } {
  const { faults = [] } = settings ?? {}
  const found: { problems: string[]; notes: string[] } = { problems: [], notes: [] }
  const apis = names.map((name) => profileApi(profiles[name], { ...clock, requireAuth }))
  for (const { flag, ...fault } of faults) {
    const name = [flag, [fault.method, fault.code].filter((part) => part !== undefined).join(':')].join(' ').trim()
    const mistakes = apis.map((api) => {
      const none = new Faults(api, { ...clock, faults: [], countFaults: () => 0 })
      return { title: api.title, errors: faultErrors(fault, none) }
    })
    const isPossible = mistakes.some(({ errors }) => errors.length === 0)
    for (const { title, errors } of mistakes)
      for (const error of errors)
        if (isPossible) found.notes.push(`${name} has no effect in ${title}: ${error}`)
        else found.problems.push(`${name} is not possible in ${title}: ${error}`)
  }
  return found
}

/** Describes the certificate alone: the file also has the private key. */
function describeCertificate(pem: string | undefined) {
  if (pem === undefined) return undefined
  const certificate = new X509Certificate(pem)
  const { subject, validTo, fingerprint256 } = certificate
  return { pem: certificate.toString(), subject, validTo: new Date(validTo).toISOString(), fingerprint256 }
}
