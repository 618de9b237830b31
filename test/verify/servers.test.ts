import { testCorrectServers, testFaultyServers } from '../support/verified-servers.ts'

// test/slow/servers.test.ts has the others.
testFaultyServers('first of each class')
testCorrectServers('first')
