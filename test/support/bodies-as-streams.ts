/* Preloaded into the tests of slow/bodies-as-streams.test.ts: as if Node's parser did not call the method `push`. */
import { Readable } from 'node:stream'
import { Message } from '../../src/server/node-message.ts'

Message.prototype.push = Readable.prototype.push
Object.defineProperty(Message, 'isBodyPushed', { get: () => false, set: () => {} })
