/** What the contract says and nobody can see from outside, with the reason. */
export const unobservable: readonly { readonly rule: string; readonly what: string; readonly reason: string }[] = [
  { rule: 'G7', what: 'a restart loses the items', reason: 'a check cannot restart the server' },
  { rule: 'G8', what: 'the cause of a failure is in the log', reason: 'a check cannot read the log' },
  { rule: 'A4', what: 'the first id is 1', reason: 'an empty list does not show whether items were there before' },
  { rule: 'A10', what: "an item's stored secret survives a PUT", reason: 'no request can store or show a secret' },
  { rule: 'A15', what: 'failures of the store give 500 or 503', reason: 'a check cannot make the store fail' },
  { rule: 'B6', what: 'failures of the store give the CouldNot… codes', reason: 'a check cannot make the store fail' },
  { rule: 'B12', what: 'the port is 5000', reason: 'the port is part of the URL that is checked' },
]
