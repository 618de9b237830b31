import { randomInt, randomUUID, X509Certificate } from 'node:crypto'
import { type AppSettings, appApi, profileApi, profiles } from '../app.ts'
import type { HeldMemory } from '../common/held-memory.ts'
import { rules as contractRules } from '../common/rules.ts'
import type { Config } from '../config/config.ts'
import { createCodes } from '../control/codes.ts'
import { Control } from '../control/control.ts'
import { Faults, faultErrors } from '../control/faults.ts'
import type { ServiceInfo } from '../control/schema.ts'
import { documentsOf, type Profile, rulesOf, rulesToMeet } from '../profiles/profile.ts'
import { type Spaces, setRecent } from '../store/store.ts'
import type { Clock } from './clock.ts'
import { controlBodyBytes } from './stores.ts'

interface ControlledService {
  readonly config: Config
  readonly control: NonNullable<Config['control']>
  readonly spaces: Spaces
  readonly hasTemporarySpaces: boolean
  readonly serviceInfo: () => ServiceInfo
  readonly held: HeldMemory
}

export type CreateControl = (
  profile: Profile,
  settings: AppSettings,
  /** Returns the certificate in PEM format, which may include the private key; undefined without HTTPS. */
  certificate: () => string | undefined,
) => Control

/** How many deleted spaces are remembered. */
const maxDeletions = 10_000

/** Returns the function that creates the controls of the profiles of a service, which share its spaces. */
export function controlFactory({
  config,
  control: { faults, maxSpaces, spaceTtlMs },
  spaces,
  hasTemporarySpaces,
  serviceInfo,
  held,
}: ControlledService): CreateControl {
  const controls: Control[] = []
  /** How often each space was deleted: a token for a space ends with it. */
  const deletions = new Map<string, number>()
  const deletionsOf = (space: string) => deletions.get(space) ?? 0

  return (profile, settings, certificate) => {
    const { collection, itemSchema } = profile
    const { random, now, newPageToken, requireAuth } = settings
    const toMeet = rulesToMeet(profile)
    const rules = contractRules
      .filter(({ id }) => ['G', 'S', profile.name.toUpperCase()].includes(id.charAt(0)))
      .map((rule) => ({ ...rule, canBeMet: toMeet.has(rule.id) }))
    const control = new Control({
      api: appApi(profile, settings, true),
      settings,
      verifyToken: settings.verifyDevToken ?? settings.verifyToken,
      maxBodyBytes: controlBodyBytes(config),
      now,
      faults: { faults, random },
      rulesOf: (context, response) => rulesOf(profile, context, response),
      spaces: config.spaces,
      maxSpaces,
      spaceTtlMs,
      itemSchema,
      collection,
      documentsOf: (items) => documentsOf(collection, items),
      itemsOf: (space) => spaces.collection(collection.name, space),
      hasTemporarySpaces,
      onForgotten(space) {
        if (hasTemporarySpaces && !controls.some((each) => each.has(space))) void spaces.deleteSpace(space)
      },
      async countItems() {
        const all = await spaces.listSpaces()
        return new Map(all.map(({ name, items }) => [name, items[collection.name]]))
      },
      async deleteItems(space) {
        await spaces.deleteSpace(space)
        setRecent(deletions, space, deletionsOf(space) + 1, maxDeletions)
        for (const each of controls) each.forget(space)
      },
      deletionsOf,
      info: () => ({
        ...serviceInfo(),
        certificate: describeCertificate(certificate()),
        flags: { requireAuth },
        rules,
      }),
      instance: randomUUID(),
      newToken: newPageToken,
      // Neither --seed nor --now has an effect on codes: a code must be unpredictable, and expire.
      codes: createCodes(randomInt, () => new Date(), settings.monotonicNow),
      held,
    })
    controls.push(control)
    return control
  }
}

/**
 * Checks --fault and --delay. A fault that is possible in none of the served profiles is a problem; a fault that is
 * possible in a single one gets a note.
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
