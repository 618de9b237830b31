import { type AppSettings, appApi } from '../app.ts'
import type { ControlSettings } from '../config/config.ts'
import { type Control, control, type SandboxItems } from '../control/control.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import type { MemoryStores } from '../store/memory.ts'
import type { Stores } from '../store/store.ts'

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
        return itemsOf(opened, opened.clear)
      }),
    itemSchema: profile.itemSchema,
    ruleOf: ({ code }) => profile.rules[code],
    settings,
    faults: { ...controlSettings, random },
    ...controlSettings,
    now,
  })
}
