/** What the name of a space in a path or a header looks like. */
export const spaceNamePattern = '^[\\w-]{1,64}$'
