import { after } from 'node:test'
import { type Cluster, startPostgres } from './postgres.ts'

let cluster: Promise<Cluster> | undefined
after(async () => (await cluster)?.remove())

/** One cluster for all tests of a file, started on first use. */
export function sharedPostgres(): Promise<Cluster> {
  cluster ??= startPostgres()
  return cluster
}

let databases = 0

/** An empty database in the shared cluster. */
export async function newDatabase(role?: string): Promise<{ name: string; url: string }> {
  const { sql, url } = await sharedPostgres()
  const name = `test_${++databases}`
  await sql`create database ${sql(name)}`
  return { name, url: url(name, role) }
}
