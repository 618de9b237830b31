import { createRequire } from 'node:module'
import { port } from './items.ts'

// Without types: it has none.
const jsonServer = createRequire(import.meta.url)('json-server')
const app = jsonServer.create()
app.use(jsonServer.bodyParser)
app.use('/api', jsonServer.router({ todoitems: [] }))
app.listen(port, '127.0.0.1')
