// dotnet test examples/xunit
using System.Net;
using Xunit;

namespace TodoClient;

/// <summary>xUnit makes an object of this class for each test: each has a space of its own.</summary>
public class RestServiceTests : IClassFixture<TodoService>
{
    static readonly TodoItem milk = new("milk", "Buy milk", "2 litres");
    readonly Space space;
    readonly RestService client;

    public RestServiceTests(TodoService service)
    {
        space = service.NewSpace();
        client = new(service.Client, space.Url);
    }

    [Fact]
    public async Task The_list_has_the_items_of_the_service()
    {
        await space.PutItemsAsync(milk);
        Assert.Equal([milk], await client.RefreshDataAsync());
    }

    [Fact]
    public async Task Items_are_created_updated_and_deleted()
    {
        await space.PutItemsAsync();
        await client.SaveTodoItemAsync(milk, isNewItem: true);
        await client.SaveTodoItemAsync(milk with { Done = true }, isNewItem: false);
        Assert.Equal([milk with { Done = true }], await client.RefreshDataAsync());
        await client.DeleteTodoItemAsync(milk.ID);
        Assert.Empty(await client.RefreshDataAsync());
    }

    [Fact]
    public async Task A_request_that_fails_is_sent_again()
    {
        await space.AddFaultAsync(new { method = "POST", times = 1 });
        await client.SaveTodoItemAsync(milk, isNewItem: true);
        var requests = await space.RequestsAsync();
        Assert.Equal(["POST 400", "POST 200"], requests.Select(one => $"{one.Method} {one.Status}"));
        Assert.Equal(4, (await client.RefreshDataAsync()).Count);
    }

    [Fact]
    public async Task An_item_without_notes_is_rejected_and_the_journal_says_why()
    {
        var failure = await Assert.ThrowsAsync<HttpRequestException>(
            () => client.SaveTodoItemAsync(milk with { Notes = "" }, isNewItem: true));
        Assert.Equal((HttpStatusCode.BadRequest, "TodoItemNameAndNotesRequired"), (failure.StatusCode, failure.Message));
        Assert.Equal("B4", Assert.Single(Assert.Single(await space.RequestsAsync()).Rules));
    }
}
