import { testExamples } from '../support/examples.ts'

// test/docs.test.ts has the other pages.
testExamples((page) => page === 'docs/verify.md')
