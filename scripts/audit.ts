import { spawnSync } from 'node:child_process'

/** Runs `npm audit` on the production dependencies. An unreachable registry is reported, and is not a failure. */
const { stdout, status } = spawnSync(
  'npm',
  ['audit', '--omit=dev', '--json', '--fetch-retries=0', '--fetch-timeout=5000'],
  { encoding: 'utf8', shell: process.platform === 'win32' },
)

interface AuditReport {
  readonly error?: { readonly summary?: string }
  readonly message?: string
  readonly metadata?: { readonly vulnerabilities: Readonly<Record<string, number>> }
}

function parseReport(text: string): AuditReport {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

const { error, message, metadata } = parseReport(stdout)
if (metadata) {
  process.stdout.write(
    `npm audit: ${metadata.vulnerabilities.total} known vulnerabilities in production dependencies.\n`,
  )
  process.exitCode = status ?? 0
} else
  process.stdout.write(`npm audit: no response from the registry (${error?.summary || message || 'empty output'}).\n`)
