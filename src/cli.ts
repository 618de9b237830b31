#!/usr/bin/env node
import { main } from './commands/main.ts'

// EPIPE when the reader closes the pipe, as in `todo-service --help | head`, is not an error.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

process.exitCode = await main(process)
