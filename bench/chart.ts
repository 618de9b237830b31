/* Draws docs/cpu-time.svg from bench/results/runtimes.json: npm run bench -- --only runtimes,frameworks, then node dist/bench/chart.js */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Finding } from './report.ts'

const root = new URL('../../', import.meta.url)
const { commit, findings } = JSON.parse(readFileSync(new URL('bench/results/runtimes.json', root), 'utf8')) as {
  commit: string
  findings: readonly Finding[]
}

/** In pixels. */
const [width, labelWidth, barHeight, gap, titleHeight] = [760, 190, 18, 6, 34]
const workloads = ['GET item', 'list of 10', 'POST', 'PUT']

/** By workload: servers and their CPU time as a share of that of the bare server. */
const groups = workloads.map((workload) => ({
  workload,
  bars: findings
    .filter(({ what }) => what.startsWith(`${workload} o`))
    .map(({ what, ratio }) => ({
      server: what
        .slice(workload.length + 1)
        .replace(/^of /, '')
        .replace(/^on /, 'this service on '),
      share: 1 / ratio,
    }))
    .sort((a, b) => a.share - b.share),
}))
/** Longer bars are cut off, and say their length. */
const maxShare = 3
const scale = (width - labelWidth - 70) / maxShare

const lines: string[] = []
let y = 44
for (const { workload, bars } of groups) {
  lines.push(`<text x="0" y="${y + 16}" class="title">${workload}</text>`)
  y += titleHeight - gap
  for (const { server, share } of bars) {
    const length = Math.min(share, maxShare) * scale
    const kind = server.startsWith('this service') ? 'own' : 'other'
    lines.push(
      `<text x="${labelWidth - 8}" y="${y + 13}" class="label">${server}</text>`,
      `<rect x="${labelWidth}" y="${y}" width="${length.toFixed(0)}" height="${barHeight}" class="${kind}"/>`,
      `<text x="${(labelWidth + length + 6).toFixed(0)}" y="${y + 13}">${share.toFixed(2)}</text>`,
    )
    y += barHeight + gap
  }
  y += gap
}
const reference = (labelWidth + scale).toFixed(0)
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y}" viewBox="0 0 ${width} ${y}" role="img" aria-label="CPU time per request, by server">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f; stroke: #ffffff; stroke-width: 3px; paint-order: stroke }
.title { font-weight: 600 } .label { text-anchor: end }
.own { fill: #0969da } .other { fill: #afb8c1 }
line { stroke: #57606a; stroke-dasharray: 3 3 }
</style>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="0" y="16" class="title">CPU time per request; a bare node:http server is 1, less is better (commit ${commit})</text>
<line x1="${reference}" y1="30" x2="${reference}" y2="${y}"/>
${lines.join('\n')}
</svg>
`
writeFileSync(new URL('docs/cpu-time.svg', root), svg)
