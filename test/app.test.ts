/* What needs a browser: in one process, so that there is one browser. test/slow/app.test.ts has the rest. */
import './app/connect.ts'
import './app/items.ts'
import './app/page.ts'
import { testItems, testLook } from './app/profile.ts'
import './app/swagger.ts'
import './app/faults.ts'
import './app/traffic.ts'
import { testWidths } from './app/widths.ts'

testItems('a')
testLook('a', { colorScheme: 'light', width: 1280 })
testLook('b', { colorScheme: 'dark', width: 360 })
testWidths([320, 820, 960, 1140], ['wide'])
