/* test/app.test.ts has the same for the other profile. */
import { testItems, testLook } from '../app/profile.ts'

testItems('b')
testLook('b', { colorScheme: 'light', width: 1280 })
testLook('a', { colorScheme: 'dark', width: 360 })
