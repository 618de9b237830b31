import { testFaultyServers } from '../support/verified-servers.ts'

// test/verify/servers.test.ts has the others.
testFaultyServers((index) => index % 3 > 0)
