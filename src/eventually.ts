/** A value that is here, or on its way. What is here is not waited for. */
export type Eventually<T> = T | Promise<T>

export const andThen = <T, U>(value: Eventually<T>, next: (value: T) => Eventually<U>): Eventually<U> =>
  value instanceof Promise ? value.then(next) : next(value)
