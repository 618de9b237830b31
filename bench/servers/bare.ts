import { createServer } from 'node:http'
import { profileA, profileB } from './bare-handlers.ts'
import { port, profile } from './items.ts'

createServer(profile === 'b' ? profileB : profileA).listen(port, '127.0.0.1')
