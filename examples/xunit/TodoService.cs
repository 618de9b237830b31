using System.Diagnostics;
using System.Net.Http.Json;
using System.Runtime.CompilerServices;
using System.Text.Json;
using Xunit;

namespace TodoClient;

/// <summary>The service, Profile B, in a process of its own on a free port: once for the tests of a class.</summary>
public sealed class TodoService : IAsyncLifetime
{
    // In your project: where this file is in a checkout of todo-item-service in which npm ci was run.
    static readonly string program = Path.Combine(Folder(), "../../dist/src/cli.js");

    static readonly string[] arguments =
        [program, "serve", "--profile", "b", "--port", "0", "--log-format", "json", "--log-level", "error"];

    readonly Process process = new() { StartInfo = new("node", arguments) { RedirectStandardOutput = true } };
    string url = "";

    public HttpClient Client { get; } = new();

    public async Task InitializeAsync()
    {
        process.Start();
        var line = await process.StandardOutput.ReadLineAsync();
        if (line is null) throw new InvalidOperationException($"The service did not start: node {program}");
        using var started = JsonDocument.Parse(line);
        url = started.RootElement.GetProperty("profiles")[0].GetProperty("urls")[0].GetString()!;
    }

    public async Task DisposeAsync()
    {
        Client.Dispose();
        process.Kill();
        await process.WaitForExitAsync();
        process.Dispose();
    }

    /// <summary>A space with the three items that the service starts with, and no faults and requests yet.</summary>
    public Space NewSpace() => new(Client, $"{url}/~{Guid.NewGuid():N}");

    static string Folder([CallerFilePath] string file = "") => Path.GetDirectoryName(file)!;
}

public record JournalEntry(string Method, string Path, int? Status, string[] Rules, string? Reason);

/// <summary>What one test sees and controls: no other test sees its items, faults and requests.</summary>
public class Space(HttpClient client, string url)
{
    /// <summary>The base URL for the client that is tested.</summary>
    public string Url => url;

    public async Task PutItemsAsync(params TodoItem[] items) =>
        (await client.PutAsJsonAsync($"{url}/__admin/items", items)).EnsureSuccessStatusCode();

    /// <summary>Such as new { method = "POST", times = 1 }.</summary>
    public async Task AddFaultAsync(object fault) =>
        (await client.PostAsJsonAsync($"{url}/__admin/faults", fault)).EnsureSuccessStatusCode();

    public async Task<List<JournalEntry>> RequestsAsync() =>
        await client.GetFromJsonAsync<List<JournalEntry>>($"{url}/__admin/requests") ?? [];
}
