/* test/app.test.ts has the rest, and the same for the other profile. */
import '../app/long-lists.ts'
import { testItems, testLook } from '../app/profile.ts'
import { testWidths } from '../app/widths.ts'

testItems('b')
testLook('b', { colorScheme: 'light', width: 1280 })
testLook('a', { colorScheme: 'dark', width: 360 })
testWidths(
  Array.from({ length: 65 }, (_, index) => 320 + 20 * index),
  ['narrow', 'usual', 'wide'],
)
