import { type AppSettings, appApi, profileApi, profiles } from '../app.ts'
import type { Config, ControlSettings } from '../config/config.ts'
import { type Control, control, type SandboxItems } from '../control/control.ts'
import { Faults, ruleErrors } from '../control/faults.ts'
import { type Profile, type ProfileName, ruleOf } from '../profiles/profile.ts'
import { type MemoryStores, memoryStores } from '../store/memory.ts'
import type { Stores } from '../store/store.ts'
import type { Runtime } from './runtime.ts'

/** A profile in development mode, under control of its clients. */
export function developmentHandler<Name extends ProfileName>(
  profile: Profile<Name>,
  stores: Stores,
  openAnother: MemoryStores['openAnother'] | undefined,
  settings: AppSettings,
  controlSettings: ControlSettings,
): Control {
  const itemsOf = (all: Stores, dispose: () => void): SandboxItems => {
    const store = all[profile.name]
    return {
      list: () => store.list(),
      reset: () => store.replaceAll(profile.startingItems as never),
      putItems: (items) => profile.replaceAll(store, items),
      api: appApi(profile, all, settings),
      dispose,
    }
  }
  const { random, now, newId } = settings
  return control({
    items: itemsOf(stores, () => {}),
    openSandbox:
      openAnother &&
      (() => {
        const opened = openAnother(newId().slice(0, 8))
        return typeof opened === 'string' ? opened : itemsOf(opened, opened.dispose)
      }),
    itemSchema: profile.itemSchema,
    ruleOf: ({ status, error }, operation) => (error ? ruleOf(profile, error, operation) : rulesByStatus[status]),
    settings,
    verifyToken: settings.verifyDevToken ?? settings.verifyToken,
    faults: { ...controlSettings, random },
    ...controlSettings,
    now,
  })
}

/** Of responses that are the same in every profile. */
const rulesByStatus: Partial<Record<number, string>> = { 401: 'S6', 405: 'G6' }

/** What is wrong with the rules of --fail: no operation of the profiles that are served can fail in this way. */
export function findFailProblems(
  { profiles: names, requireAuth, control: settings }: Pick<Config, 'profiles' | 'requireAuth' | 'control'>,
  runtime: Pick<Runtime, 'now' | 'random'>,
): string[] {
  const { rules = [] } = settings ?? {}
  const apis = names.map((name) => profileApi(profiles[name], memoryStores(profiles, ''), { ...runtime, requireAuth }))
  return rules.flatMap((rule) => {
    const name = [rule.method, rule.code].filter((part) => part !== undefined).join(':')
    const problems = apis.map((api) => {
      const faults = new Faults(api, { ...runtime, delay: undefined, rules: [] })
      return ruleErrors(rule, faults, api.routes).map(
        (error) => `--fail ${name} is not possible in ${api.title}: ${error}`,
      )
    })
    return problems.some((errors) => errors.length === 0) ? [] : problems.flat()
  })
}
