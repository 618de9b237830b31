using System.Net.Http.Json;

namespace TodoClient;

public record TodoItem(string ID, string Name, string Notes, bool Done = false);

/// <summary>The client that is tested, as a .NET MAUI app has it: it tries once more when an item cannot be created.</summary>
public class RestService(HttpClient client, string url)
{
    public async Task<List<TodoItem>> RefreshDataAsync() =>
        await client.GetFromJsonAsync<List<TodoItem>>($"{url}/api/todoitems") ?? [];

    public async Task SaveTodoItemAsync(TodoItem item, bool isNewItem)
    {
        Task<HttpResponseMessage> Send() =>
            isNewItem
                ? client.PostAsJsonAsync($"{url}/api/todoitems", item)
                : client.PutAsJsonAsync($"{url}/api/todoitems", item);
        var response = await Send();
        if (await CodeOf(response) == "CouldNotCreateItem") response = await Send();
        await ThrowOnFailure(response);
    }

    public async Task DeleteTodoItemAsync(string id) =>
        await ThrowOnFailure(await client.DeleteAsync($"{url}/api/todoitems/{Uri.EscapeDataString(id)}"));

    /// <summary>The body of a failure is a code, such as RecordNotFound.</summary>
    static async Task<string?> CodeOf(HttpResponseMessage response) =>
        response.IsSuccessStatusCode ? null : await response.Content.ReadAsStringAsync();

    static async Task ThrowOnFailure(HttpResponseMessage response)
    {
        if (await CodeOf(response) is { } code) throw new HttpRequestException(code, null, response.StatusCode);
    }
}
