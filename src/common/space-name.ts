/** The pattern of the name of a space in a path or a header. */
export const spaceNamePattern = '^[\\w-]{1,64}$'
