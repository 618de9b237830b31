/** `spec`: the specification requires the rule. `choice`: the specification is silent, and the contract decides. */
export type Basis = 'spec' | 'choice'

export interface Rule {
  readonly id: string
  readonly basis: Basis
  readonly sentence: string
}

const spec = (sentence: string) => ({ basis: 'spec', sentence }) as const
const choice = (sentence: string) => ({ basis: 'choice', sentence }) as const

/** Rules G and S are for both profiles, A for Profile A and B for Profile B. */
const rulesById = {
  G1: spec(
    'To-do items live under `/api/todoitems`; literal path segments match in any case. A path parameter keeps its case.',
  ),
  G2: choice(
    "One trailing slash is accepted on every route (`/api/todoitems/`): the mobile client's base address ends with it. Percent-encoded unreserved characters in a path match (`/api/%74odoitems`).",
  ),
  G3: spec(
    'Bodies are JSON with camelCase names, `content-type: application/json`; the parameter `charset=utf-8` is our choice.',
  ),
  G4: choice(
    'Unknown members of a request body are ignored. Member names are matched exactly; the last of two equal names wins. `__proto__` and `constructor` are unknown members like any other.',
  ),
  G5: choice(
    'Request bodies: media types `application/json`, `text/json`, `application/*+json`, in any case, charset absent or utf-8. Strict JSON in valid UTF-8, a leading BOM skipped. At most 1 MiB (configurable). A stored string with a lone surrogate is refused.',
  ),
  G6: choice(
    'Known path, method not offered: 405 with `Allow`, no body. HEAD is answered wherever GET is; OPTIONS gets 204 with `Allow`. Unknown path: 404.',
  ),
  G7: spec('The default store is memory: restart and it is gone. A starts empty, B with its three items.'),
  G8: choice(
    "A response never says more about a failure than its rule; the cause goes to the log with the request's id.",
  ),
  G9: choice('`Accept` never changes an answer.'),
  A1: spec(
    '`GET /api/todoitems` → 200, array of items `{id, name, isComplete}`; `[]` when empty. Order: by id (choice).',
  ),
  A2: spec('`GET /api/todoitems/{id}` → 200 item; 404 when no item has the id.'),
  A3: spec(
    '`POST` → 201, the created item, `Location: {base_url}/api/todoitems/<id>` (absolute: scheme and authority of the request, or the configured public URL).',
  ),
  A4: spec(
    'The service assigns `id`; an `id` in a create request is ignored, whatever its value or type (choice). Ids ascend from 1 and are never used again after a delete, nor after an import or reset that was rolled back (choice).',
  ),
  A5: spec('`name` is a string or null. Absent means null (choice). Any other type: 400 (choice).'),
  A6: spec(
    '`isComplete` is required: a POST or PUT in which it is absent, null or not a boolean is refused with a 4xx, and nothing is stored or changed. The status is 400 (choice: the status alone).',
  ),
  A7: spec(
    '`PUT /api/todoitems/{id}` → 204 without body; only `name` and `isComplete` change; the full entity is expected, so an absent `name` becomes null (choice).',
  ),
  A8: spec(
    'PUT, path id differs from body id → 400; no item has the id → 404. An absent, null or non-integer body id differs (choice). Order: malformed id, invalid body, differing ids, missing item (choice).',
  ),
  A9: spec('`DELETE` → 204 without body; 404 when no item has the id.'),
  A10: spec("`secret` is never accepted, copied or returned; an item's stored `secret` survives a PUT untouched."),
  A11: spec(
    'id is an int64: ids are compared exactly over -9223372036854775808..9223372036854775807; `9007199254740993` is not `9007199254740992`.',
  ),
  A12: choice(
    'A malformed path id (not a canonical decimal int64: `abc`, `1.5`, `01`, `+1`, `-0`, out of range, a broken percent-encoding) → 400.',
  ),
  A13: choice(
    'Errors are `application/problem+json` (RFC 9457): `type`, `title`, `status`, `traceId`; validation adds `errors`: member → messages.',
  ),
  A14: choice(
    'Refused media type, or no body and no media type → 415. Body over the limit → 413. Empty, malformed or non-object body → 400.',
  ),
  A15: spec(
    'Unhandled failures → 5xx: 500, 503 while the store cannot be reached (choice). Nothing of the cause in the body (G8).',
  ),
  B1: spec('`GET /api/todoitems` → 200, array of all items `{id, name, notes, done}`; order of creation (choice).'),
  B2: spec('The store starts with three items: the first `done: true`, the others false.'),
  B3: spec('`POST` → 200, the created item. `done` absent means false (choice).'),
  B4: spec(
    'Body missing, or `id`, `name` or `notes` missing → 400 `TodoItemNameAndNotesRequired`, on POST and PUT. Null, empty and blank strings are missing; so is a value of another type; so is a `done` that is present and no boolean; malformed JSON, a non-object or another media type is a missing body (choice).',
  ),
  B5: spec(
    'POST, id exists → 409 `TodoItemIDInUse`. Ids are compared exactly, case included (choice). B4 comes first (choice).',
  ),
  B6: spec(
    'Any other failure → 400 `CouldNotCreateItem`, `CouldNotUpdateItem`, `CouldNotDeleteItem`: the store failing, full or out of reach, a body or id over its limit, a text that cannot be stored (a lone surrogate; G5).',
  ),
  B7: spec(
    '`PUT /api/todoitems` → 204 without body; the stored item is replaced by the sent one (absent `done` becomes false) and keeps its place in the list (choice). No item has the id → 404 `RecordNotFound`.',
  ),
  B8: spec('`DELETE /api/todoitems/{id}` → 204 without body; 404 `RecordNotFound`.'),
  B9: spec("Error bodies are the code's name as `text/plain` and nothing else; `charset=utf-8` is a choice."),
  B10: choice('`GET /api/todoitems/{id}` → 405, `Allow: DELETE`.'),
  B11: choice(
    'Every id that can be created can be deleted by its percent-encoded path, `a/b`, `%41`, `😀` and 1,024 characters included; a longer id is B6. A path that is no valid percent-encoding names no item: 404 `RecordNotFound`.',
  ),
  B12: spec(
    'Answers on port 5000, clear-text HTTP included. HTTP is redirected to HTTPS only outside development: 307, same path and query (choice).',
  ),
  S1: spec(
    '`GET /weatherforecast` → 200, five entries `{date, temperatureC, temperatureF, summary}`; `date` is a date-time with an offset (`+00:00`, never `Z`: choice), successive days from tomorrow; `temperatureC` -20..54; `temperatureF` = 32 + truncate(C / 0.5556); `summary` one of the ten.',
  ),
  S2: spec('`GET /` → 200 plain-text greeting.'),
  S3: spec(
    "`GET /secret` needs a bearer token; 200 plain text with the caller's identity name and a fixed secret phrase. Name: claim `unique_name`, else `name`, else `sub` (choice).",
  ),
  S4: spec(
    '`GET /swagger/v1/swagger.json` → OpenAPI 3.0.1, `info.version` `v1`, needs a bearer token. It describes the profile that serves it and the sample endpoints.',
  ),
  S5: spec(
    '`GET /swagger/index.html` → a page that lists each operation and tries it; development only, 404 otherwise. `/swagger` leads there (choice).',
  ),
  S6: choice(
    'No or another scheme\'s credentials → 401, `WWW-Authenticate: Bearer`, no body. A bad token → 401, `WWW-Authenticate: Bearer error="invalid_token", error_description="…"`, no body. Two Authorization headers → 400.',
  ),
  S7: spec(
    '`/` and `/weatherforecast` need no authorization. The to-do endpoints need none unless the operator asks for it (choice).',
  ),
}

/** The rules of both contracts. */
export const rules: readonly Rule[] = Object.entries(rulesById).map(([id, rule]) => ({ id, ...rule }))
