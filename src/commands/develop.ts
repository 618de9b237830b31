import { randomUUID, X509Certificate } from 'node:crypto'
import { type AppSettings, appApi } from '../app.ts'
import type { ControlSettings } from '../config/config.ts'
import { type Control, control, type SandboxItems } from '../control/control.ts'
import type { ProfileUrls } from '../log.ts'
import type { Profile, ProfileName } from '../profiles/profile.ts'
import type { MemoryStores } from '../store/memory.ts'
import type { Stores } from '../store/store.ts'
import { rules } from '../verify/rules.ts'

/** What is known once the service runs. */
export interface ServiceInfo {
  readonly version: string
  readonly startedAt: Date
  readonly store: string
  readonly profiles: readonly ProfileUrls[]
  /** In PEM format, maybe with its key; undefined without HTTPS. */
  readonly certificate: string | undefined
}

/** A profile in development mode, under control of its clients. */
export function developmentHandler<Name extends ProfileName>(
  profile: Profile<Name>,
  stores: Stores,
  openAnother: MemoryStores['openAnother'] | undefined,
  settings: AppSettings,
  controlSettings: ControlSettings,
  service: () => ServiceInfo,
): Control {
  const itemsOf = (all: Stores, dispose: () => void): SandboxItems => {
    const store = all[profile.name]
    return {
      list: () => store.list(),
      reset: () => store.replaceAll(profile.startingItems as never),
      putItems: (items) => profile.replaceAll(store, items),
      api: appApi(profile, all, { ...settings, hasApp: true }),
      dispose,
    }
  }
  const { random, now, newId, newPageToken, requireAuth } = settings
  const { delay, rules: failures } = controlSettings
  const rulesOfProfile = rules.filter(({ id }) => ['G', 'S', profile.name.toUpperCase()].includes(id.charAt(0)))
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
    info() {
      const { certificate, ...info } = service()
      const flags = { delay, failures, requireAuth }
      return { ...info, certificate: certificate && describeCertificate(certificate), flags, rules: rulesOfProfile }
    },
    instance: randomUUID(),
    newToken: newPageToken,
  })
}

/** Without the private key, which is in the same file. */
function describeCertificate(pem: string) {
  const certificate = new X509Certificate(pem)
  const { subject, validTo, fingerprint256 } = certificate
  return { pem: certificate.toString(), subject, validTo: new Date(validTo), fingerprint256 }
}
