/** What was to be started cannot start; the message says why, and what to do. */
export class StartError extends Error {}
