import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { node, serve, start } from '../support/cli.ts'
import { temporaryFolder } from '../support/folder.ts'

/* The other files call the commands in this process; here each one runs as a program. */
suite('as a program', { concurrency: true }, () => {
  const succeeds = async (t: TestContext, args: readonly string[]) => {
    const { code, stdout, stderr } = await start(t, args, {}, node).ended
    assert.deepEqual([code, stderr], [0, ''], args.join(' '))
    return stdout
  }

  test('serve, verify, reset and items', async (t) => {
    const file = join(temporaryFolder(t), 'todo.db')
    const { url, running } = await serve(t, ['--no-https', '--data', file], {}, 'b', node)
    assert.match(await succeeds(t, ['verify', url, '--profile', 'b', '--quick', '--only', 'B1']), /passed/)
    await succeeds(t, ['reset', url, '--yes'])
    running.process.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
    assert.equal(JSON.parse(await succeeds(t, ['items', 'export', '--data', file])).b.length, 3)
  })

  test('token', async (t) => {
    assert.match(await succeeds(t, ['token', '--name', 'ada', '-o', 'token']), /^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  })

  test('openapi', async (t) => {
    assert.equal(JSON.parse(await succeeds(t, ['openapi', '--profile', 'a', '-o', '-'])).openapi, '3.0.1')
  })

  test('exit codes: 2 for invalid arguments, 1 for what cannot be done', async (t) => {
    assert.equal((await start(t, ['serve', '--colour'], {}, node).ended).code, 2)
    assert.equal((await start(t, ['items', 'export', '--data', 'missing.db'], {}, node).ended).code, 1)
  })
})
