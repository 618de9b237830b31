import { randomInt, randomUUID, X509Certificate } from 'node:crypto'
import { type AppSettings, appApi, profileApi, profiles } from '../app.ts'
import { rules as contractRules } from '../common/rules.ts'
import type { Config } from '../config/config.ts'
import { Control } from '../control/control.ts'
import { Faults, faultErrors } from '../control/faults.ts'
import type { ServiceInfo } from '../control/schema.ts'
import type { SpaceItems } from '../control/space.ts'
import { type Profile, type ProfileName, rulesOf, rulesToMeet } from '../profiles/profile.ts'
import { defaultSpace, type Spaces, UnavailableError } from '../store/store.ts'
import type { Clock } from './clock.ts'
import type { SpaceUsers } from './space-users.ts'
import { controlBodyBytes } from './stores.ts'

export interface ControlledService {
  readonly config: Config
  readonly spaces: Spaces
  readonly spaceUsers: SpaceUsers
  /** What is known once the service runs. */
  readonly serviceInfo: () => ServiceInfo
}

export function controlledProfile<Name extends ProfileName>(
  profile: Profile<Name>,
  { config, spaces, spaceUsers, serviceInfo }: ControlledService,
  controlSettings: NonNullable<Config['control']>,
  settings: AppSettings,
  /** Returns PEM, maybe with the private key; undefined without HTTPS. */
  certificate: () => string | undefined,
): Control {
  const { name: profileName, startingItems } = profile
  const itemsOf = (space: string): SpaceItems => {
    spaceUsers.add(space)
    let isDisposed = false
    const stores = () => {
      // A request that was delayed meanwhile: it would make a space that nobody uses.
      if (isDisposed && spaceUsers.areTemporary) throw new UnavailableError('The space has ended.')
      return spaces.space(space)
    }
    // The default space is always the same.
    const always = space === defaultSpace ? stores() : undefined
    const store = () => (always ?? stores())[profileName]
    return {
      get stores() {
        return always ?? stores()
      },
      list: (reader) => store().list(reader),
      reset: () => store().replaceAll(startingItems as never),
      putItems: (items, ifMatch) => profile.replaceAll(store(), items, ifMatch),
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
    startingCount: startingItems.length,
    async countItems() {
      const all = await spaces.listSpaces()
      return new Map(all.map(({ name, items }) => [name, items[profileName]]))
    },
    deleteItems: (space) => spaceUsers.delete(space),
    deletionsOf: spaceUsers.deletionsOf,
    itemSchema: profile.itemSchema,
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
    // Never those of --seed and --now.
    codes: { randomInt, now: () => new Date() },
  })
  spaceUsers.controls.push(control)
  return control
}

/**
 * What is wrong with --fault and --delay where no operation of the profiles that are served can fail in this way, and what
 * has no effect in one of them.
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

/** Leaves out the private key, which is in the same file. */
function describeCertificate(pem: string | undefined) {
  if (pem === undefined) return undefined
  const certificate = new X509Certificate(pem)
  const { subject, validTo, fingerprint256 } = certificate
  return { pem: certificate.toString(), subject, validTo: new Date(validTo).toISOString(), fingerprint256 }
}
