/** The addresses of a profile; `title` says which. */
export interface ProfileUrls {
  readonly title: string
  readonly urls: readonly string[]
  readonly emulatorUrls?: readonly string[]
  /** On every interface: without `networkUrls` there is no network. */
  readonly isListeningOnNetwork?: boolean
  readonly networkUrls?: readonly string[]
  /** For each person, with a name of their own in place of NAME. */
  readonly spaceUrls?: readonly string[]
  readonly app?: string
  readonly swagger?: string
  /** Why it is not served, or not by HTTPS; and what to do. */
  readonly unusablePort?: readonly string[]
}
