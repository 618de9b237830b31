import { after } from 'node:test'
import { openSharedCluster, startPostgres } from './postgres.ts'

type SharedCluster = NonNullable<ReturnType<typeof openSharedCluster>>

let cluster: Promise<SharedCluster> | undefined
after(async () => (await cluster)?.remove())

/** The server of the run, or one for all tests of this file, started on first use. */
export function sharedPostgres(): Promise<SharedCluster> {
  cluster ??= Promise.resolve(openSharedCluster() ?? startPostgres())
  return cluster
}

let names = 0

/** Of a database, schema or role that no other test file has. */
export const uniqueName = (prefix: string) => `${prefix}_${process.pid}_${++names}`

/** An empty database in the shared cluster. */
export async function newDatabase(role?: string): Promise<{ name: string; url: string }> {
  const { sql, url } = await sharedPostgres()
  const name = uniqueName('test')
  await sql`create database ${sql(name)}`
  return { name, url: url(name, role) }
}
