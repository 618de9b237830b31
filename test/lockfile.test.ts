import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'

for (const file of ['package-lock.json', 'test/package-lock.json']) {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
  const packages: Record<string, { optionalDependencies?: Record<string, string>; integrity?: string }> =
    JSON.parse(text).packages

  suite(file, () => {
    test('lists the optional packages of every platform, so that npm ci works on all of them', () => {
      for (const { optionalDependencies = {} } of Object.values(packages))
        for (const name of Object.keys(optionalDependencies)) assert.ok(packages[`node_modules/${name}`], name)
    })

    test('has a checksum for every package', () => {
      for (const [path, { integrity }] of Object.entries(packages)) if (path) assert.ok(integrity, path)
    })

    test('contains no registry URLs', () => {
      assert.doesNotMatch(text, /"resolved"/)
    })
  })
}
