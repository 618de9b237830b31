import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, test } from 'node:test'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

interface Locked {
  readonly name?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly integrity?: string
  readonly hasInstallScript?: true
}

/** What may run a script when it is installed: the programs that tests run, which come as one package for each platform. */
const withScripts: Readonly<Record<string, readonly string[]>> = {
  'package-lock.json': [],
  'test/package-lock.json': Object.keys(JSON.parse(read('test/package.json')).allowScripts),
}

for (const [file, allowed] of Object.entries(withScripts)) {
  const text = read(file)
  const packages: Readonly<Record<string, Locked>> = JSON.parse(text).packages

  suite(file, () => {
    test('lists the optional packages of every platform, so that npm ci works on all of them', () => {
      for (const { optionalDependencies = {} } of Object.values(packages))
        for (const name of Object.keys(optionalDependencies)) assert.ok(packages[`node_modules/${name}`], name)
    })

    test('has a checksum for every package', () => {
      for (const [path, { integrity }] of Object.entries(packages)) if (path) assert.ok(integrity, path)
    })

    test('has no package that runs a script when it is installed, or only those that are allowed to', () => {
      const names = Object.entries(packages)
        .filter(([, { hasInstallScript }]) => hasInstallScript)
        .map(([path]) => path.replace(/^.*node_modules\//, ''))
      assert.deepEqual(names.sort(), [...allowed].sort())
    })

    test('has no analytics: @scarf/scarf of swagger-ui-dist is an empty package', () => {
      for (const [path, { name }] of Object.entries(packages))
        if (/@scarf\//.test(path)) assert.equal(name, 'empty-npm-package', path)
    })

    test('contains no registry URLs', () => {
      assert.doesNotMatch(text, /"resolved"/)
    })
  })
}
