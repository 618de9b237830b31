import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../../', import.meta.url))
export const read = (file: string) => readFileSync(join(root, file), 'utf8')

/** Files of a folder of the checkout, with its name, by extension. */
const filesOf = (folder: string, ...extensions: readonly string[]): string[] =>
  (existsSync(join(root, folder)) ? readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }) : [])
    .map((file) => (folder === '.' ? file : `${folder}/${file}`).replaceAll('\\', '/'))
    .filter((file) => extensions.some((extension) => file.endsWith(`.${extension}`)))

/** Every page of the documentation. */
export const pages: readonly string[] = [
  ...readdirSync(root).filter((file) => file.endsWith('.md')),
  ...['docs', 'bench', 'examples'].flatMap((folder) => filesOf(folder, 'md')),
]

/** A fenced code block. */
export interface Block {
  readonly page: string
  /** Of its first line of text. */
  readonly line: number
  readonly language: string
  readonly text: string
  /** The text before it. */
  readonly before: string
}

const fence = /^( *)```(\w*)\n(.*?)^ *```$/gms

export const blocksOf = (page: string): Block[] => {
  const markdown = read(page)
  return [...markdown.matchAll(fence)].map(({ index, 1: indent = '', 2: language = '', 3: text = '' }) => ({
    page,
    line: markdown.slice(0, index).split('\n').length + 1,
    language,
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    before: markdown.slice(0, index),
  }))
}

const withoutBlocks = (page: string) => read(page).replaceAll(fence, '')

/** What the links and pictures of a page lead to, as it is written. */
const linksOf = (page: string): string[] => {
  const markdown = withoutBlocks(page).replaceAll(/`[^`\n]*`/g, '')
  const patterns = [/\]\(([^()\s]+)(?: "[^"]*")?\)/g, /^\[[^\]]+\]: (\S+)/gm, /\b(?:href|src)="([^"]+)"/g]
  return patterns.flatMap((pattern) => [...markdown.matchAll(pattern)].map(([, target = '']) => target))
}

/** The fragments of a page by which its headings are reached on GitHub. */
function fragmentsOf(page: string): Set<string> {
  const fragments = new Set<string>()
  for (const [, heading = ''] of withoutBlocks(page).matchAll(/^#{1,6} (.+)$/gm)) {
    const text = heading.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const id = text.replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '').replaceAll(' ', '-')
    let unique = id
    for (let count = 1; fragments.has(unique); count++) unique = `${id}-${count}`
    fragments.add(unique)
  }
  return fragments
}

/** The links of all pages, and the pages that other files name, that lead nowhere. `has` tells whether there is a file or folder. */
export function brokenLinks(has: (path: string) => boolean): string[] {
  const leadsNowhere = (path: string, fragment: string) =>
    !has(path) || (fragment !== '' && !(path.endsWith('.md') && fragmentsOf(path).has(fragment)))
  const fromPages = pages.filter(has).flatMap((page) =>
    linksOf(page)
      .filter((target) => !/^(?:https|mailto):/.test(target))
      .filter((target) => {
        const [path = '', fragment = ''] = target.split('#')
        const resolved = path ? posix.join(posix.dirname(page), decodeURI(path)).replace(/\/$/, '') : page
        return leadsNowhere(resolved, decodeURIComponent(fragment))
      })
      .map((target) => `${page}: ${target}`),
  )
  const fromOthers = namingFiles.flatMap((file) =>
    [...read(file).matchAll(/(?<![\w/.])((?:docs|bench)\/[\w-]+\.md|[A-Z]{4,}\.md)(?:#([\w-]+))?/g)]
      .filter(([, path = '', fragment = '']) => leadsNowhere(path, fragment))
      .map(([text]) => `${file}: ${text}`),
  )
  return [...fromPages, ...fromOthers]
}

/** Files besides the pages in which somebody may read of a page. */
export const namingFiles: readonly string[] = [
  'action.yml',
  'compose.yaml',
  'Dockerfile',
  'requests.http',
  'package.json',
  ...['src', 'page', 'examples', 'openapi', 'scripts'].flatMap((folder) =>
    filesOf(folder, 'ts', 'js', 'mjs', 'html', 'json'),
  ),
]
