import { testServices } from '../commands/verified-services.ts'
import { testCorrectServers, testFaultyServers } from '../support/verified-servers.ts'

// test/verify/servers.test.ts has the others.
testFaultyServers('others')
testCorrectServers('others')
// test/commands/verify-services.test.ts has the other profile.
testServices('b')
