/** The URLs at which a profile is served, for the start message. */
export interface ProfileUrls {
  readonly title: string
  readonly urls: readonly string[]
  readonly emulatorUrls?: readonly string[]
  /** Whether it listens on all interfaces. If `networkUrls` is then empty, the machine is on no network. */
  readonly isListeningOnNetwork?: boolean
  readonly networkUrls?: readonly string[]
  /** URLs with NAME in them: each person replaces it by a name and gets a space. */
  readonly spaceUrls?: readonly string[]
  readonly app?: string
  readonly swagger?: string
  /** Lines that say why the profile is not served, or not over HTTPS, and what to do. */
  readonly unusablePort?: readonly string[]
}
