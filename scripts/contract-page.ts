import { writeFileSync } from 'node:fs'
import { checks } from '../src/verify/index.ts'
import { rules } from '../src/verify/rules.ts'

const chapters = { G: 'Everywhere', A: 'Profile A', B: 'Profile B', S: 'Samples, served by both profiles' }

/** `docs/contract.md`, written from the rules and their checks. */
export function contractPage(): string {
  const tables = Object.entries(chapters).map(([letter, title]) => {
    const rows = rules
      .filter(({ id }) => id.startsWith(letter))
      .map(({ id, basis, sentence }) => {
        const own = [...checks.a, ...checks.b].filter(({ rule }) => rule === id)
        const count = new Set(own.map(({ name }) => name)).size
        return `| ${id} | ${basis} | ${sentence} | ${count} |\n`
      })
    return `## ${title}\n\n| id | basis | rule | checks |\n|---|---|---|---|\n${rows.join('')}`
  })
  return `# The contract, rule by rule

Basis **spec**: the specification says so. Basis **choice**: the specification is silent, and this is our answer; inside a
rule of basis spec, what is marked (choice) is ours too. The last column counts the checks that hold the service to the rule.

This page is written from \`src/verify/\` by \`npm run docs\`; a test fails when it drifts.

${tables.join('\n')}`
}

export const contractPagePath = new URL('../../docs/contract.md', import.meta.url)

if (process.argv.includes('--write')) writeFileSync(contractPagePath, contractPage())
