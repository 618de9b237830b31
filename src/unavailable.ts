/** Something this service depends on cannot be reached now, and may be later. What was asked for may or may not have happened. */
export class Unavailable extends Error {}
