import { testCorrectServers, testFaultyServers } from '../support/verified-servers.ts'

// test/verify/servers.test.ts has the others.
testFaultyServers('others')
testCorrectServers('others')
