/** json-server on an object in memory: what it costs without its file. It comes without types. */
const { default: jsonServer } = await import('json-server' as string)

const server = jsonServer.create()
server.use(jsonServer.defaults({ logger: false }))
server.use('/api', jsonServer.router({ todoitems: [] }))
server.listen(Number(process.argv[2]), '127.0.0.1')
