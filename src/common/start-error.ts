/** Thrown when the service or a part of it cannot start; the message says why, and what to do. */
export class StartError extends Error {}
