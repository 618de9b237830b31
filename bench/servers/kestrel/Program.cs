// Profile A as a minimal API, with the same checks as the bare server.

var builder = WebApplication.CreateSlimBuilder(args);
builder.Logging.ClearProviders();
builder.WebHost.UseUrls($"http://127.0.0.1:{args[0]}");
var app = builder.Build();
// Ordered by id. A ConcurrentDictionary that once was large takes long to enumerate.
var items = new SortedDictionary<long, Item>();
long lastId = 0;
const string collection = "/api/todoitems";

app.MapGet(collection, () => { lock (items) return Results.Ok(items.Values.ToArray()); });
app.MapGet($"{collection}/{{id:long}}", (long id) =>
{
    lock (items) return items.TryGetValue(id, out var item) ? Results.Ok(item) : Results.NotFound();
});
app.MapPost(collection, (NewItem body, HttpRequest request) =>
{
    if (body.IsComplete is not bool isComplete) return Results.BadRequest();
    Item item;
    lock (items)
    {
        item = new Item(++lastId, body.Name, isComplete);
        items[item.Id] = item;
    }
    return Results.Created($"http://{request.Host}{collection}/{item.Id}", item);
});
app.MapPut($"{collection}/{{id:long}}", (long id, NewItem body) =>
{
    if (body.IsComplete is not bool isComplete || body.Id != id) return Results.BadRequest();
    lock (items)
    {
        if (!items.ContainsKey(id)) return Results.NotFound();
        items[id] = new Item(id, body.Name, isComplete);
    }
    return Results.NoContent();
});
app.MapDelete($"{collection}/{{id:long}}", (long id) =>
{
    lock (items) return items.Remove(id) ? Results.NoContent() : Results.NotFound();
});
app.Run();

record Item(long Id, string? Name, bool IsComplete);
record NewItem(long? Id, string? Name, bool? IsComplete);
