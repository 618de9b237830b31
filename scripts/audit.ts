import { spawnSync } from 'node:child_process'

/** `npm audit` of what ships. An audit that cannot be had is said, and is no failure. */
const { stdout, status } = spawnSync(
  'npm',
  ['audit', '--omit=dev', '--json', '--fetch-retries=0', '--fetch-timeout=5000'],
  {
    encoding: 'utf8',
    shell: process.platform === 'win32',
  },
)

interface Audit {
  readonly error?: { readonly summary?: string }
  readonly message?: string
  readonly metadata?: { readonly vulnerabilities: Readonly<Record<string, number>> }
}

function read(text: string): Audit {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

const { error, message, metadata } = read(stdout)
if (metadata) {
  process.stdout.write(`npm audit: ${metadata.vulnerabilities.total} known vulnerabilities in what ships.\n`)
  process.exitCode = status ?? 0
} else
  process.stdout.write(
    `npm audit: no answer from the registry (${error?.summary || message || 'nothing came back'}).\n`,
  )
