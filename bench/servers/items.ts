/** The items of the servers that this service is compared with, and the checks of a body that their types need. */
export interface Numbered {
  id: number
  name: string | null
  isComplete: boolean
}

export interface Named {
  id: string
  name: string
  notes: string
  done: boolean
}

export const numbered = new Map<number, Numbered>()
export const named = new Map<string, Named>()
let lastId = 0

export const isNumbered = (body: Partial<Numbered>): body is Numbered =>
  (typeof body.name === 'string' || body.name === null) && typeof body.isComplete === 'boolean'

export const isNamed = ({ id, name, notes }: Partial<Named>) =>
  typeof id === 'string' &&
  id !== '' &&
  typeof name === 'string' &&
  name !== '' &&
  typeof notes === 'string' &&
  notes !== ''

export function add({ name, isComplete }: Numbered): Numbered {
  const item = { id: ++lastId, name, isComplete }
  numbered.set(item.id, item)
  return item
}

export const [port, profile] = [Number(process.argv[2]), process.argv[3]]
