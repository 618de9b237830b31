#!/usr/bin/env node
import module from 'node:module'

// Node 22 keeps compiled code in the temporary folder, and starts faster with it; older versions have no such function.
;(module as typeof module & { enableCompileCache?(): void }).enableCompileCache?.()

const { main } = await import('./commands/main.ts')

// `todo-service --help | head` closes the pipe early: the EPIPE that follows is not an error.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.exitCode = await main(process)
