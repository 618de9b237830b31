/* test/app.test.ts has the rest, and the same for the other profile. */
import '../app/long-lists.ts'
import { testItems, testLook } from '../app/profile.ts'

testItems('b')
testLook('b', { colorScheme: 'light', width: 1280 })
testLook('a', { colorScheme: 'dark', width: 360 })
