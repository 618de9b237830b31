#!/usr/bin/env node
import { main } from './commands/main.ts'

// `todo-service --help | head` closes the pipe early: the EPIPE that follows is not an error.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.exitCode = await main(process)
