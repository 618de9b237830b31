import { writeFileSync } from 'node:fs'
import { profileA, profileB, rules } from '../src/verify/index.ts'

const chapters = { G: 'Common rules', A: 'Profile A', B: 'Profile B', S: 'Sample endpoints, served by both profiles' }

/** Generates `docs/contract.md` from the rules and their checks. */
export function contractPage(): string {
  const tables = Object.entries(chapters).map(([letter, title]) => {
    const rows = rules
      .filter(({ id }) => id.startsWith(letter))
      .map(({ id, basis, sentence }) => {
        const checksOfRule = [...profileA.checks, ...profileB.checks].filter(({ rule }) => rule === id)
        const count = new Set(checksOfRule.map(({ name }) => name)).size
        return `| ${id} | ${basis} | ${sentence} | ${count} |\n`
      })
    return `## ${title}\n\n| id | basis | rule | checks |\n|---|---|---|---|\n${rows.join('')}`
  })
  return `# The contract, rule by rule

Basis **spec**: required by the specification. Basis **choice**: left open by the specification, decided here; inside a
rule of basis spec, the parts marked (choice) are choices too. The last column is the number of checks of the rule.

Generated from \`src/common/rules.ts\` by \`npm run docs\`; a test fails when it is out of date.

${tables.join('\n')}`
}

export const contractPagePath = new URL('../../docs/contract.md', import.meta.url)

if (process.argv.includes('--write')) writeFileSync(contractPagePath, contractPage())
