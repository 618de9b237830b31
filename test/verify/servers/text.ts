import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { DraftA, ItemA, ItemB, Json, JsonObject, ReferenceServer, Request } from './reference.ts'
import { json, ReferenceA, ReferenceB, writeJson } from './reference.ts'
import type { FaultyServer, ServerOptions } from './types.ts'

type Breaks = FaultyServer['breaks']
type ServerClass = new (options: ServerOptions) => ReferenceServer

const faulty = (id: string, rule: string, breaks: Breaks, fault: string, Server: ServerClass): FaultyServer => ({
  id,
  profile: id.startsWith('a-') ? 'a' : 'b',
  rule,
  kind: 'text',
  breaks,
  fault,
  create: (options) => new Server(options).create(),
})

type Edit = (text: string) => string

/** A copy with one text edited; null stays null. */
const edit = <T extends object, K extends keyof T & string>(item: T, member: K, change: Edit): T => {
  const value = item[member]
  return typeof value === 'string' ? { ...item, [member]: change(value) } : item
}

const nfc: Edit = (text) => text.normalize('NFC')
const trimmed: Edit = (text) => text.trim()
const blanksCollapsed: Edit = (text) => text.replace(/ {2,}/g, ' ')
const cutAtNul: Edit = (text) => text.split('\0', 1).join()
const newlinesLost: Edit = (text) => text.replace(/\r?\n/g, ' ')
const ampersandEscaped: Edit = (text) => text.replaceAll('&', '&amp;')
const cut =
  (length: number): Edit =>
  (text) =>
    text.slice(0, length)
const cutBytes =
  (length: number): Edit =>
  (text) =>
    Buffer.from(text).subarray(0, length).toString()
const cutCharacters =
  (length: number): Edit =>
  (text) =>
    [...text].slice(0, length).join('')

const isNumeric = (text: string) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(Number(text))
const numberNormalised: Edit = (text) => (isNumeric(text) ? String(Number(text)) : text)
const numberTyped = (value: Json) => (typeof value === 'string' && isNumeric(value) ? Number(value) : value)

const isGuid = (text: string) => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text)
const guidLowerCase: Edit = (text) => (isGuid(text) ? text.toLowerCase() : text)

const percentDecoded: Edit = (text) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const isDate = (text: string) => !Number.isNaN(Date.parse(text))
const dateTimeReformatted: Edit = (text) => {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?$/.test(text) || !isDate(text)) return text
  const [year, month, day] = text.slice(0, 10).split('-')
  return `${month}/${day}/${year} ${text.slice(11, 19)}`
}
const isDay = (text: string) => /^\d{4}-\d\d-\d\d$/.test(text) && isDate(text)
const dayWidened: Edit = (text) => (isDay(text) ? `${text}T00:00:00.000Z` : text)
const dayReversed: Edit = (text) => (isDay(text) ? text.split('-').reverse().join('.') : text)

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const htmlEscaped: Edit = (text) => text.replace(/[&<>"']/g, (char) => entities[char] ?? char)
const decoded = new Map(Object.entries(entities).map(([char, entity]) => [entity, char]))
const entitiesDecoded: Edit = (text) =>
  text.replace(/&(?:amp|lt|gt|quot|#39);/g, (found) => decoded.get(found) ?? found)

const smartQuotes: Edit = (text) =>
  text
    .replace(/"([^"]*)"/g, '“$1”')
    .replaceAll("'", '’')
    .replaceAll('...', '…')
const escapes: Record<string, string> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' }
const unescaped: Edit = (text) => text.replace(/\\([nrt"\\])/g, (_, char: string) => escapes[char] ?? char)
const yamlScalars: Record<string, Json> = { true: true, false: false, yes: true, no: false, null: null, '~': null }
const yamlScalar = (text: string): Json => (Object.hasOwn(yamlScalars, text) ? (yamlScalars[text] ?? null) : text)

/** The request with a member of the stored item where the client sent the given value. */
const keptFromBefore = (server: ReferenceB, request: Request, member: 'name' | 'notes', sent: Json): Request => {
  const body = server.readObject(request)
  const id = body.ok ? body.value.id : undefined
  const old = typeof id === 'string' ? server.find(id) : undefined
  if (!body.ok || old === undefined || body.value[member] !== sent) return request
  return { ...request, body: Buffer.from(writeJson({ ...body.value, [member]: old[member] })) }
}

/** Ids of B that are changed on their way into the store, and in the path of DELETE alike. */
const idsChanged = (change: Edit): ServerClass =>
  class extends ReferenceB {
    override toItem(body: JsonObject) {
      return edit(super.toItem(body), 'id', change)
    }

    override remove(id: string) {
      return super.remove(change(id))
    }
  }

const profileA: readonly FaultyServer[] = [
  faulty(
    'a-post-name-nfc',
    'A3',
    'specified',
    'POST brings the name into normal form C.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return super.insert(edit(draft, 'name', nfc))
      }
    },
  ),
  faulty(
    'a-put-name-trimmed',
    'A7',
    'specified',
    'PUT stores the name without its leading and trailing blanks.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, edit(draft, 'name', trimmed))
      }
    },
  ),
  faulty(
    'a-list-name-blanks-collapsed',
    'A1',
    'specified',
    'The list shows one blank where a name has several.',
    class extends ReferenceA {
      override list() {
        return super.list().map((item) => edit(item, 'name', blanksCollapsed))
      }
    },
  ),
  faulty(
    'a-post-name-stored-in-255',
    'A3',
    'specified',
    'POST answers with the whole name but stores its first 255 UTF-16 units.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return { ...super.insert(edit(draft, 'name', cut(255))), name: draft.name }
      }
    },
  ),
  faulty(
    'a-put-name-cut-at-4000-bytes',
    'A7',
    'specified',
    'PUT cuts the name at 4,000 bytes of UTF-8.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, edit(draft, 'name', cutBytes(4000)))
      }
    },
  ),
  faulty(
    'a-post-name-cut-at-nul',
    'A3',
    'specified',
    'POST stores the name up to the first U+0000.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return super.insert(edit(draft, 'name', cutAtNul))
      }
    },
  ),
  faulty(
    'a-get-name-html-escaped',
    'A2',
    'specified',
    'GET of one item escapes the name for HTML.',
    class extends ReferenceA {
      override find(id: bigint) {
        const item = super.find(id)
        return item && edit(item, 'name', htmlEscaped)
      }
    },
  ),
  faulty(
    'a-put-name-number-normalised',
    'A7',
    'specified',
    'PUT writes a name that looks like a number in its shortest form: 007 becomes 7.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, edit(draft, 'name', numberNormalised))
      }
    },
  ),
  faulty(
    'a-name-date-time-reformatted',
    'A3',
    'specified',
    'A name that is an ISO date-time is read as a date and stored as MM/dd/yyyy HH:mm:ss, by POST and PUT.',
    class extends ReferenceA {
      override toDraft(body: JsonObject) {
        return edit(super.toDraft(body), 'name', dateTimeReformatted)
      }
    },
  ),
  faulty(
    'a-get-name-newlines-lost',
    'A2',
    'specified',
    'GET of one item has a blank for each line break of the name.',
    class extends ReferenceA {
      override find(id: bigint) {
        const item = super.find(id)
        return item && edit(item, 'name', newlinesLost)
      }
    },
  ),
  faulty(
    'a-put-empty-name-kept',
    'A7',
    'specified',
    'PUT with an empty name leaves the name from before.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, draft.name === '' ? { ...draft, name: this.find(id)?.name ?? null } : draft)
      }
    },
  ),
  faulty(
    'a-put-null-name-kept',
    'A7',
    'specified',
    'PUT with the name null leaves the name from before.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, { ...draft, name: draft.name ?? this.find(id)?.name ?? null })
      }
    },
  ),
  faulty(
    'a-put-null-name-as-text',
    'A7',
    'specified',
    "PUT with the name null stores the text 'null'.",
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(id, { ...draft, name: String(draft.name) })
      }
    },
  ),
  faulty(
    'a-post-empty-name-null',
    'A3',
    'specified',
    'POST stores an empty name as null.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return super.insert({ ...draft, name: draft.name || null })
      }
    },
  ),
  faulty(
    'a-list-null-name-empty',
    'A1',
    'specified',
    'The list shows an empty text where the name is null.',
    class extends ReferenceA {
      override list() {
        return super.list().map((item) => ({ ...item, name: item.name ?? '' }))
      }
    },
  ),
  faulty(
    'a-get-name-text-null',
    'A2',
    'specified',
    "GET of one item shows null where the name is the text 'null' or 'undefined'.",
    class extends ReferenceA {
      override find(id: bigint) {
        const item = super.find(id)
        return item && (item.name === 'null' || item.name === 'undefined') ? { ...item, name: null } : item
      }
    },
  ),
  faulty(
    'a-name-latin-1',
    'A3',
    'specified',
    'The store keeps names in Latin-1, with ? for every other character.',
    class extends ReferenceA {
      override toDraft(body: JsonObject) {
        return edit(super.toDraft(body), 'name', (text) => text.replace(/[^\0-\xff]/g, '?'))
      }
    },
  ),
  faulty(
    'a-put-name-cut-at-emoji',
    'A7',
    'specified',
    'PUT stores the name up to its first character outside the Basic Multilingual Plane.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(
          id,
          edit(draft, 'name', (text) => text.replace(/[\u{10000}-\u{10ffff}].*/su, '')),
        )
      }
    },
  ),
  faulty(
    'a-list-name-preview',
    'A1',
    'specified',
    'The list shows the first 80 characters of a longer name and an ellipsis.',
    class extends ReferenceA {
      override list() {
        return super
          .list()
          .map((item) => edit(item, 'name', (text) => ([...text].length > 80 ? `${cutCharacters(80)(text)}…` : text)))
      }
    },
  ),
  faulty(
    'a-post-name-tags-stripped',
    'A3',
    'specified',
    'POST removes what looks like an HTML tag from the name.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return super.insert(edit(draft, 'name', (text) => text.replace(/<\/?[a-z][^>]*>/gi, '')))
      }
    },
  ),
  faulty(
    'a-put-name-quotes-doubled',
    'A7',
    'specified',
    'PUT stores every apostrophe of the name twice.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(
          id,
          edit(draft, 'name', (text) => text.replaceAll("'", "''")),
        )
      }
    },
  ),
  faulty(
    'a-name-entities-decoded',
    'A3',
    'specified',
    'Every response decodes the HTML entities in a name: &amp;lt; becomes &lt;, and &lt; a less-than sign.',
    class extends ReferenceA {
      override toWire(item: ItemA) {
        return super.toWire(edit(item, 'name', entitiesDecoded))
      }
    },
  ),
  faulty(
    'a-post-name-percent-decoded',
    'A3',
    'specified',
    'POST decodes percent-encodings in the name: %41 becomes A.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return super.insert(edit(draft, 'name', percentDecoded))
      }
    },
  ),
  faulty(
    'a-put-name-zero-width-removed',
    'A7',
    'specified',
    'PUT removes zero-width characters from the name, the joiners of emoji included.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        return super.replace(
          id,
          edit(draft, 'name', (text) => text.replace(/[\u200b-\u200d\u2060\ufeff]/g, '')),
        )
      }
    },
  ),
  faulty(
    'a-post-name-controls-removed',
    'A3',
    'specified',
    'POST removes control characters other than tab and line breaks from the name.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        return super.insert(edit(draft, 'name', (text) => text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, '')))
      }
    },
  ),
  faulty(
    'a-list-name-line-separators',
    'A1',
    'specified',
    'The list has a line feed for U+2028 and U+2029 in a name.',
    class extends ReferenceA {
      override list() {
        return super.list().map((item) => edit(item, 'name', (text) => text.replace(/[\u2028\u2029]/g, '\n')))
      }
    },
  ),
  faulty(
    'a-put-name-case-ignored',
    'A7',
    'specified',
    'PUT takes a name that differs from the stored one in case only for the same and does not store it.',
    class extends ReferenceA {
      override replace(id: bigint, draft: DraftA) {
        const old = this.find(id)?.name ?? null
        return super.replace(
          id,
          edit(draft, 'name', (text) => (old?.toLowerCase() === text.toLowerCase() ? old : text)),
        )
      }
    },
  ),
  faulty(
    'a-post-name-shared',
    'A3',
    'specified',
    'POST takes the spelling of an existing name that differs in case only.',
    class extends ReferenceA {
      override insert(draft: DraftA) {
        const names = this.list().map(({ name }) => name ?? '')
        return super.insert(
          edit(draft, 'name', (text) => names.find((name) => name.toLowerCase() === text.toLowerCase()) ?? text),
        )
      }
    },
  ),
  faulty(
    'a-body-decoded-by-chunk',
    'A3',
    'specified',
    'Request bodies are decoded chunk by chunk: a character that two chunks share becomes U+FFFD.',
    class extends ReferenceA {
      override async readBody(incoming: IncomingMessage) {
        const chunks: Buffer[] = []
        for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk)
        const whole = Buffer.concat(chunks)
        return { body: isUtf8(whole) ? Buffer.from(chunks.join('')) : whole, bodyTooLong: whole.length > 1_048_576 }
      }
    },
  ),
  faulty(
    'a-list-is-complete-number',
    'A1',
    'specified',
    'The list shows isComplete as 0 or 1.',
    class extends ReferenceA {
      override async getItems() {
        return json(
          200,
          this.list().map((item) => ({ ...this.toWire(item), isComplete: Number(item.isComplete) })),
        )
      }
    },
  ),
  faulty(
    'a-get-is-complete-text',
    'A2',
    'specified',
    "GET of one item shows isComplete as the text 'true' or 'false'.",
    class extends ReferenceA {
      override async getItem(request: Request) {
        const result = await super.getItem(request)
        return { ...result, body: String(result.body).replace(/:(true|false)\}$/, ':"$1"}') }
      }
    },
  ),
  faulty(
    'a-post-id-fraction',
    'A3',
    'specified',
    'The response of POST shows the id as a double: 1.0.',
    class extends ReferenceA {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return { ...result, body: String(result.body).replace(/^\{"id":(\d+)/, '{"id":$1.0') }
      }
    },
  ),
  faulty(
    'a-absent-name-empty',
    'A5',
    'choice',
    'A name that is absent becomes an empty text.',
    class extends ReferenceA {
      override toDraft(body: JsonObject) {
        return body.name === undefined ? { ...super.toDraft(body), name: '' } : super.toDraft(body)
      }
    },
  ),
  faulty(
    'a-scalar-name-as-text',
    'A5',
    'choice',
    'A number or boolean as name is taken and stored as text.',
    class extends ReferenceA {
      override parseJson(source: string) {
        const value = super.parseJson(source) as JsonObject | null
        const name = value?.name
        if (value && ['bigint', 'number', 'boolean'].includes(typeof name)) value.name = String(name)
        return value
      }
    },
  ),
  faulty(
    'a-lone-surrogate-replaced',
    'G5',
    'choice',
    'A lone surrogate in a name is taken and stored as U+FFFD.',
    class extends ReferenceA {
      override parseJson(source: string) {
        const value = super.parseJson(source) as JsonObject | null
        const name = value?.name
        if (value && typeof name === 'string') value.name = name.toWellFormed()
        return value
      }
    },
  ),
  faulty(
    'a-id-through-double',
    'A11',
    'unobservable',
    'Responses round ids beyond 2^53, which ids that ascend from 1 never reach.',
    class extends ReferenceA {
      override toWire(item: ItemA) {
        return super.toWire({ ...item, id: BigInt(Number(item.id)) })
      }
    },
  ),
  faulty(
    'a-name-cut-at-body-limit',
    'A3',
    'unobservable',
    'Names are cut at 1,048,576 characters; a body with a longer one is refused before.',
    class extends ReferenceA {
      override toDraft(body: JsonObject) {
        return edit(super.toDraft(body), 'name', cut(1_048_576))
      }
    },
  ),
]

const profileB: readonly FaultyServer[] = [
  faulty(
    'b-list-name-nfc',
    'B1',
    'specified',
    'The list shows names in normal form C.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'name', nfc))
      }
    },
  ),
  faulty(
    'b-put-notes-nfkc',
    'B7',
    'specified',
    'PUT brings the notes into normal form KC.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(
          id,
          edit(item, 'notes', (text) => text.normalize('NFKC')),
        )
      }
    },
  ),
  faulty('b-id-nfc', 'B3', 'specified', 'Ids are brought into normal form C.', idsChanged(nfc)),
  faulty(
    'b-post-notes-trimmed',
    'B3',
    'specified',
    'POST stores the notes without their leading and trailing blanks.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'notes', trimmed))
      }
    },
  ),
  faulty(
    'b-put-name-trailing-blanks-lost',
    'B7',
    'specified',
    'PUT stores the name without its trailing blanks.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(
          id,
          edit(item, 'name', (text) => text.replace(/ +$/, '')),
        )
      }
    },
  ),
  faulty('b-id-trimmed', 'B3', 'specified', 'Ids lose their leading and trailing blanks.', idsChanged(trimmed)),
  faulty(
    'b-list-notes-blanks-collapsed',
    'B1',
    'specified',
    'The list shows one blank where the notes have several.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'notes', blanksCollapsed))
      }
    },
  ),
  faulty(
    'b-post-name-blanks-collapsed',
    'B3',
    'specified',
    'POST stores one blank where the name has several.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'name', blanksCollapsed))
      }
    },
  ),
  faulty(
    'b-post-name-cut-at-255-bytes',
    'B3',
    'specified',
    'POST cuts the name at 255 bytes of UTF-8, in the middle of a character if need be.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'name', cutBytes(255)))
      }
    },
  ),
  faulty(
    'b-notes-stored-in-4000',
    'B3',
    'specified',
    'POST and PUT store the first 4,000 characters of the notes; the response of POST has them all.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        super.insert(edit(item, 'notes', cutCharacters(4000)))
        return item
      }

      override replace(id: string, item: ItemB) {
        return super.replace(id, edit(item, 'notes', cutCharacters(4000)))
      }
    },
  ),
  faulty(
    'b-put-notes-cut-at-255',
    'B7',
    'specified',
    'PUT cuts the notes at 255 characters.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(id, edit(item, 'notes', cutCharacters(255)))
      }
    },
  ),
  faulty(
    'b-post-notes-cut-at-65535-bytes',
    'B3',
    'specified',
    'POST cuts the notes at 65,535 bytes of UTF-8.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'notes', cutBytes(65_535)))
      }
    },
  ),
  faulty(
    'b-id-cut-at-255',
    'B3',
    'specified',
    'Ids of up to 1,024 characters are cut at 255.',
    idsChanged((text) => ([...text].length > 1024 ? text : cutCharacters(255)(text))),
  ),
  faulty('b-id-cut-at-nul', 'B3', 'specified', 'Ids end before their first U+0000.', idsChanged(cutAtNul)),
  faulty(
    'b-put-notes-cut-at-nul',
    'B7',
    'specified',
    'PUT stores the notes up to the first U+0000.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(id, edit(item, 'notes', cutAtNul))
      }
    },
  ),
  faulty(
    'b-put-notes-ampersand-escaped',
    'B7',
    'specified',
    'PUT stores &amp; for every & of the notes.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(id, edit(item, 'notes', ampersandEscaped))
      }
    },
  ),
  faulty(
    'b-list-id-ampersand-escaped',
    'B1',
    'specified',
    'The list shows &amp; for every & of an id.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'id', ampersandEscaped))
      }
    },
  ),
  faulty(
    'b-list-numeric-texts-as-numbers',
    'B1',
    'specified',
    'The list shows ids, names and notes that look like numbers as numbers.',
    class extends ReferenceB {
      override async getItems() {
        return json(
          200,
          this.list().map(({ id, name, notes, done }) => ({
            id: numberTyped(id),
            name: numberTyped(name),
            notes: numberTyped(notes),
            done,
          })),
        )
      }
    },
  ),
  faulty(
    'b-id-number-normalised',
    'B3',
    'specified',
    'Ids that look like numbers take their shortest form: 007 becomes 7.',
    idsChanged(numberNormalised),
  ),
  faulty(
    'b-list-notes-date-widened',
    'B1',
    'specified',
    'The list shows notes that are an ISO date as a date-time of midnight.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'notes', dayWidened))
      }
    },
  ),
  faulty(
    'b-put-name-date-reformatted',
    'B7',
    'specified',
    'PUT stores a name that is an ISO date as dd.MM.yyyy.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(id, edit(item, 'name', dayReversed))
      }
    },
  ),
  faulty(
    'b-list-notes-newlines-lost',
    'B1',
    'specified',
    'The list has a blank for each line break of the notes.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'notes', newlinesLost))
      }
    },
  ),
  faulty(
    'b-post-notes-crlf-to-lf',
    'B3',
    'specified',
    'POST stores a line feed for each CR LF of the notes.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'notes', (text) => text.replaceAll('\r\n', '\n')))
      }
    },
  ),
  faulty(
    'b-put-notes-lf-to-crlf',
    'B7',
    'specified',
    'PUT stores CR LF for each line feed of the notes.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(
          id,
          edit(item, 'notes', (text) => text.replace(/\r?\n/g, '\r\n')),
        )
      }
    },
  ),
  faulty(
    'b-put-empty-name-kept',
    'B7',
    'specified',
    'PUT with an empty name answers 204 and leaves the name from before.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        return super.putItem(keptFromBefore(this, request, 'name', ''))
      }
    },
  ),
  faulty(
    'b-put-null-notes-kept',
    'B7',
    'specified',
    'PUT with the notes null answers 204 and leaves the notes from before.',
    class extends ReferenceB {
      override async putItem(request: Request) {
        return super.putItem(keptFromBefore(this, request, 'notes', null))
      }
    },
  ),
  faulty(
    'b-put-name-emoji-question-marks',
    'B7',
    'specified',
    'PUT stores ?? for each character of the name outside the Basic Multilingual Plane.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(
          id,
          edit(item, 'name', (text) => text.replace(/[\u{10000}-\u{10ffff}]/gu, '??')),
        )
      }
    },
  ),
  faulty(
    'b-list-notes-encoded-twice',
    'B1',
    'specified',
    'The list shows the UTF-8 bytes of the notes as Latin-1.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'notes', (text) => Buffer.from(text).toString('latin1')))
      }
    },
  ),
  faulty(
    'b-post-name-bom-removed',
    'B3',
    'specified',
    'POST removes U+FEFF from the start of the name.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'name', (text) => text.replace(/^\ufeff/, '')))
      }
    },
  ),
  faulty(
    'b-put-notes-direction-marks-removed',
    'B7',
    'specified',
    'PUT removes the marks of writing direction from the notes.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(
          id,
          edit(item, 'notes', (text) => text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')),
        )
      }
    },
  ),
  faulty(
    'b-post-notes-smart-quotes',
    'B3',
    'specified',
    'POST makes straight quotes in the notes curly, three dots an ellipsis.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'notes', smartQuotes))
      }
    },
  ),
  faulty(
    'b-put-notes-sql-removed',
    'B7',
    'specified',
    'PUT removes -- and words of SQL statements from the notes.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        const sql = /\b(?:drop table|delete from|insert into|union select)\b|--/gi
        return super.replace(
          id,
          edit(item, 'notes', (text) => text.replace(sql, '')),
        )
      }
    },
  ),
  faulty(
    'b-post-name-slashes-added',
    'B3',
    'specified',
    'POST puts a backslash before quotes and backslashes of the name.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'name', (text) => text.replace(/['"\\]/g, '\\$&')))
      }
    },
  ),
  faulty(
    'b-put-name-unescaped-twice',
    'B7',
    'specified',
    'PUT resolves backslash escapes that are part of the name: backslash and n become a line feed.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(id, edit(item, 'name', unescaped))
      }
    },
  ),
  faulty(
    'b-list-name-yaml-scalars',
    'B1',
    'specified',
    'The list shows the names true, false, yes and no as booleans, null and ~ as null.',
    class extends ReferenceB {
      override async getItems() {
        return json(
          200,
          this.list().map((item) => ({ ...this.toWire(item), name: yamlScalar(item.name) })),
        )
      }
    },
  ),
  faulty(
    'b-list-notes-templates-rendered',
    'B1',
    'specified',
    'The list shows nothing for {{…}} in the notes.',
    class extends ReferenceB {
      override list() {
        return super.list().map((item) => edit(item, 'notes', (text) => text.replace(/\{\{.*?\}\}/gs, '')))
      }
    },
  ),
  faulty(
    'b-put-notes-plus-to-blank',
    'B7',
    'specified',
    'PUT stores a blank for each + of the notes.',
    class extends ReferenceB {
      override replace(id: string, item: ItemB) {
        return super.replace(
          id,
          edit(item, 'notes', (text) => text.replaceAll('+', ' ')),
        )
      }
    },
  ),
  faulty(
    'b-post-notes-tabs-expanded',
    'B3',
    'specified',
    'POST stores four blanks for each tab of the notes.',
    class extends ReferenceB {
      override insert(item: ItemB) {
        return super.insert(edit(item, 'notes', (text) => text.replaceAll('\t', '    ')))
      }
    },
  ),
  faulty('b-id-guid-lower-case', 'B3', 'specified', 'Ids that are GUIDs take lower case.', idsChanged(guidLowerCase)),
  faulty(
    'b-id-lower-case-turkish',
    'B3',
    'specified',
    'Ids take lower case by Turkish rules: I becomes a dotless i.',
    idsChanged((text) => text.toLocaleLowerCase('tr')),
  ),
  faulty(
    'b-delete-path-lower-case',
    'G1',
    'specified',
    'DELETE takes the whole path to lower case, so an id with capitals is not found.',
    class extends ReferenceB {
      override remove(id: string) {
        return super.remove(id.toLowerCase())
      }
    },
  ),
  faulty(
    'b-delete-plus-as-blank',
    'B8',
    'specified',
    'DELETE reads a + in the path as a blank, as in a query.',
    class extends ReferenceB {
      override async deleteItem(request: Request) {
        return super.deleteItem({ ...request, parameter: request.parameter.replaceAll('+', '%20') })
      }
    },
  ),
  faulty(
    'b-post-done-number',
    'B3',
    'specified',
    'The response of POST shows done as 0 or 1.',
    class extends ReferenceB {
      override async postItem(request: Request) {
        const result = await super.postItem(request)
        return {
          ...result,
          body: String(result.body)
            .replace(/:true\}$/, ':1}')
            .replace(/:false\}$/, ':0}'),
        }
      }
    },
  ),
  faulty(
    'b-list-done-text',
    'B1',
    'specified',
    "The list shows done as the text 'True' or 'False'.",
    class extends ReferenceB {
      override async getItems() {
        return json(
          200,
          this.list().map((item) => ({ ...this.toWire(item), done: item.done ? 'True' : 'False' })),
        )
      }
    },
  ),
  faulty(
    'b-blank-texts-taken',
    'B4',
    'choice',
    'Ids, names and notes of nothing but blanks are taken.',
    class extends ReferenceB {
      override isPresent(value: Json | undefined) {
        return typeof value === 'string' && value !== ''
      }
    },
  ),
  faulty(
    'b-lone-surrogate-replaced',
    'G5',
    'choice',
    'A lone surrogate in name or notes is taken and stored as U+FFFD.',
    class extends ReferenceB {
      override toItem(body: JsonObject) {
        const item = super.toItem(body)
        return { ...item, name: item.name.toWellFormed(), notes: item.notes.toWellFormed() }
      }
    },
  ),
  faulty(
    'b-delete-id-decoded-twice',
    'B11',
    'choice',
    'DELETE decodes the path twice: %2541 names the item A.',
    class extends ReferenceB {
      override remove(id: string) {
        return super.remove(percentDecoded(id))
      }
    },
  ),
  faulty(
    'b-delete-id-latin-1',
    'B11',
    'choice',
    'DELETE decodes the bytes of the path as Latin-1, not UTF-8.',
    class extends ReferenceB {
      override remove(id: string) {
        return super.remove(Buffer.from(id).toString('latin1'))
      }
    },
  ),
  faulty(
    'b-empty-notes-as-null-text',
    'B3',
    'unobservable',
    "Empty notes would be stored as the text 'null', but they are refused before.",
    class extends ReferenceB {
      override toItem(body: JsonObject) {
        return edit(super.toItem(body), 'notes', (text) => text || 'null')
      }
    },
  ),
]

export const textFaults: readonly FaultyServer[] = [...profileA, ...profileB]
