import { sharedPostgres } from './stores.ts'

let databases = 0

/** An empty database of its own in the cluster of the file. */
export async function newDatabase(role?: string): Promise<{ name: string; url: string }> {
  const cluster = await sharedPostgres()
  const name = `test_${++databases}`
  await cluster.sql.unsafe(`create database ${name}`)
  return { name, url: cluster.url(name, role) }
}
