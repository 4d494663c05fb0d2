//! The two endpoints of revision 2024-11-05.

use serde_json::{Value, json};
use thruway_mcp_sdk::{Authorization, McpEndpoint, McpServer, McpServerOptions};
use thruway_server::Router;

use crate::authorization::Plain;
use crate::fixtures::{answer, server, server_with, text, tool, with_hanging};
use crate::http::{Exchange, Message, Session, Site, request};

fn site(server: &McpServer) -> Site {
    site_of(server.endpoint())
}

fn site_of(endpoint: McpEndpoint) -> Site {
    let sse = endpoint.sse_endpoints("/message");
    Site::of(Router::new().any("/mcp", endpoint).any("/sse", sse.stream()).any("/message", sse.messages()))
}

fn get() -> Message {
    Message::without_content("GET").to("/sse")
}

/// A client that reads its stream.
struct Client {
    stream: Exchange,
    uri: String,
    token: Option<&'static str>,
}

impl Client {
    async fn open(site: &Site) -> Self {
        Self::open_as(site, None).await
    }

    async fn open_as(site: &Site, token: Option<&'static str>) -> Self {
        let mut stream = site.open(&bearing(get(), token));
        let head = stream.head().await;
        assert!(head.contains("200 OK") && head.contains("Content-Type: text/event-stream\r\n"), "{head}");
        let event = stream.next_lines().await;
        let uri = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
        assert!(event.contains("event: endpoint\n") && uri.starts_with("/message?sessionId="), "{event}");
        Self { stream, uri, token }
    }

    /// Returns a client with an initialized session.
    async fn initialized(site: &Site) -> Self {
        let mut client = Self::open(site).await;
        let capabilities = json!({"elicitation": {}});
        client.send(site, &Session::initialize("2024-11-05", &capabilities)).await;
        let result = client.stream.next_message().await;
        assert_eq!(result["result"]["protocolVersion"], "2024-11-05");
        client
    }

    fn post(&self, message: &Message) -> Message {
        bearing(message.clone().to(&self.uri), self.token)
    }

    async fn status(&self, site: &Site, message: &Message) -> u16 {
        site.send(&self.post(message)).await.status
    }

    async fn send(&self, site: &Site, message: &Message) {
        assert_eq!(self.status(site, message).await, 202);
    }

    /// Lets the server handle the sent data without reading the answers.
    async fn settle(&mut self) {
        self.stream.advance();
        Site::settle().await;
        self.stream.advance();
    }

    async fn request(&self, site: &Site, id: i64, method: &str, params: &Value) {
        self.send(site, &Message::post(&request(id, method, params))).await;
    }
}

fn bearing(message: Message, token: Option<&str>) -> Message {
    match token {
        Some(token) => message.with_field("Authorization", &format!("Bearer {token}")),
        None => message,
    }
}

fn ping() -> Message {
    Message::post(&request(1, "ping", &json!({})))
}

#[tokio::test(start_paused = true)]
async fn posted_message_is_answered_on_the_stream() {
    let site = site(&server());
    let mut client = Client::initialized(&site).await;
    client
        .send(&site, &Message::post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})))
        .await;
    client.request(&site, 2, "tools/call", &json!({"name": "echo", "arguments": {"message": "hi"}})).await;
    let event = client.stream.next_lines().await;
    assert!(event.contains("event: message\n"), "{event}");
    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let answered: Value = serde_json::from_str(data).unwrap();
    assert_eq!((&answered["id"], text(&answered["result"])), (&json!(2), r#"{"message":"hi"}"#));
    client.send(&site, &Message::post_bytes("nonsense")).await;
    assert_eq!(client.stream.next_message().await["error"]["code"], -32700);
}

#[tokio::test(start_paused = true)]
async fn handler_can_report_progress_elicit_and_be_canceled() {
    let (server, running) = with_hanging(server());
    let site = site(&server);
    let mut client = Client::initialized(&site).await;
    let mut params = tool("progress");
    params["_meta"] = json!({"progressToken": 1});
    client.request(&site, 1, "tools/call", &params).await;
    assert_eq!(client.stream.next_message().await["method"], "notifications/progress");
    while client.stream.next_message().await["id"] != 1 {}

    client.request(&site, 2, "tools/call", &tool("ask")).await;
    let question = client.stream.next_message().await;
    assert_eq!(question["method"], "elicitation/create");
    let result = answer("elicitation/create", &json!({}));
    client
        .send(&site, &Message::post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result})))
        .await;
    assert_eq!(text(&client.stream.next_message().await["result"]), "Ada");

    client.request(&site, 3, "tools/call", &tool("hang")).await;
    client.settle().await;
    assert_eq!(running.count(), 1);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    client.send(&site, &Message::post(&cancelled)).await;
    client.settle().await;
    assert_eq!(running.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn stream_receives_change_notifications() {
    let server = server();
    let site = site(&server);
    let mut client = Client::initialized(&site).await;
    client.request(&site, 1, "resources/subscribe", &json!({"uri": "test://text"})).await;
    assert_eq!(client.stream.next_message().await["id"], 1);
    server.resource_updated("test://text");
    let notification = client.stream.next_message().await;
    assert_eq!(notification["method"], "notifications/resources/updated");
    assert!(server.remove_resource("test://blob"));
    assert_eq!(client.stream.next_message().await["method"], "notifications/resources/list_changed");
}

#[tokio::test(start_paused = true)]
async fn closing_stream_ends_its_session() {
    let (server, running) = with_hanging(server());
    let site = site(&server);
    let mut client = Client::initialized(&site).await;
    client.request(&site, 1, "tools/call", &tool("hang")).await;
    client.settle().await;
    assert_eq!(running.count(), 1);
    let again = client.post(&ping());
    client.stream.leave();
    Site::settle().await;
    assert_eq!(running.count(), 0);
    assert_eq!(site.send(&again).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn response_arrives_only_on_its_own_stream() {
    let site = site(&server());
    let (mut ours, mut other) = (Client::open(&site).await, Client::open(&site).await);
    assert_ne!(ours.uri, other.uri);
    ours.send(&site, &ping()).await;
    assert_eq!(ours.stream.next_message().await["result"], json!({}));
    other.stream.advance();
    assert_eq!(other.stream.take_event(), None);
}

#[tokio::test(start_paused = true)]
async fn invalid_posts_and_methods_are_rejected() {
    let site = site(&server());
    let client = Client::open(&site).await;
    for uri in ["/message", "/message?", "/message?sessionId=", "/message?sessionId=x", "/message?sessionId"]
    {
        assert_eq!(site.send(&ping().to(uri)).await.status, 404, "{uri}");
    }
    assert_eq!(client.status(&site, &ping().with_field("Content-Type", "text/plain")).await, 415);
    assert_eq!(client.status(&site, &ping().without_field("Content-Type")).await, 415);
    assert_eq!(client.status(&site, &ping().with_field("Host", "evil.example")).await, 403);
    assert_eq!(client.status(&site, &ping().with_field("Origin", "http://evil.example")).await, 403);
    assert_eq!(site.send(&get().with_field("Host", "evil.example")).await.status, 403);
    assert_eq!(client.status(&site, &Message::post_bytes(vec![b' '; (4 << 20) + 1])).await, 413);
    let posted = site.send(&ping().to("/sse")).await;
    assert_eq!((posted.status, posted.field("Allow")), (405, Some("GET")));
    let got = site.send(&client.post(&Message::without_content("GET"))).await;
    assert_eq!((got.status, got.field("Allow")), (405, Some("POST")));
    client.send(&site, &ping()).await;
}

#[tokio::test(start_paused = true)]
async fn only_stream_owner_can_post_to_stream() {
    let authorization =
        Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain).with_scopes(["use"]);
    let site = site_of(server().endpoint().authorize(authorization));
    assert_eq!(site.send(&get()).await.status, 401);
    let mut client = Client::open_as(&site, Some("ada/use")).await;
    let to = |token| bearing(ping().to(&client.uri), token);
    assert_eq!(site.send(&to(None)).await.status, 401);
    assert_eq!(site.send(&to(Some("ada/other"))).await.status, 403);
    assert_eq!(site.send(&to(Some("bob/use"))).await.status, 404);
    assert_eq!(site.send(&to(Some("ada/use,more"))).await.status, 202);
    assert_eq!(client.stream.next_message().await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn streams_over_the_limit_get_503() {
    let site = site(&server_with(McpServerOptions { sessions_max: 2, ..McpServerOptions::default() }));
    let first = Client::open(&site).await;
    let _second = Client::open(&site).await;
    let refused = site.send(&get()).await;
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("10")));
    first.stream.leave();
    Site::settle().await;
    Client::open(&site).await;
}

/// Regression test: one client could occupy all streams of a server.
#[tokio::test(start_paused = true)]
async fn address_cannot_exceed_stream_quota() {
    let options = McpServerOptions { sessions_per_address_max: 1, ..McpServerOptions::default() };
    let site = site(&server_with(options));
    let _first = Client::open(&site).await;
    assert_eq!(site.send(&get()).await.status, 503);
}

/// Regression test: messages were not compared with their headers. A client could bypass a gateway that
/// filters by headers on this path.
#[tokio::test(start_paused = true)]
async fn posted_message_must_match_the_mcp_headers_it_has() {
    let site = site(&server());
    let mut client = Client::initialized(&site).await;
    let call = Message::post(&request(2, "tools/call", &tool("fail")));
    for (name, value) in [("Mcp-Method", "ping"), ("Mcp-Name", "other")] {
        let refused = site.send(&client.post(&call.clone().with_field(name, value))).await;
        assert_eq!((refused.status, refused.error_code()), (400, -32020), "{name}");
    }
    client.send(&site, &call.with_field("Mcp-Method", "tools/call").with_field("Mcp-Name", "fail")).await;
    assert_eq!(client.stream.next_message().await["id"], 2);
}

/// Regression test: the capacity was two messages of the default maximum, even with a larger configured
/// maximum.
#[tokio::test(start_paused = true)]
async fn message_of_maximum_size_reaches_its_stream() {
    let bytes_max = 10 << 20;
    let site =
        site(&server_with(McpServerOptions { message_bytes_max: bytes_max, ..McpServerOptions::default() }));
    let mut client = Client::initialized(&site).await;
    let mut long = ping().content;
    long.resize(bytes_max, b' ');
    client.send(&site, &Message::post_bytes(long.clone())).await;
    assert_eq!(client.stream.next_message().await["result"], json!({}));
    long.push(b' ');
    assert_eq!(client.status(&site, &Message::post_bytes(long)).await, 413);
}

/// Regression test: each of thousands of streams could store two of the largest messages.
#[tokio::test(start_paused = true)]
async fn messages_of_all_streams_share_in_flight_byte_limit() {
    let options = McpServerOptions {
        in_flight_bytes_max: 1 << 20,
        message_bytes_max: 1 << 20,
        ..McpServerOptions::default()
    };
    let (server, running) = with_hanging(server_with(options));
    let site = site(&server);
    let (mut first, second) = (Client::initialized(&site).await, Client::initialized(&site).await);
    let large = json!({"name": "hang", "arguments": {"other": "x".repeat(400 << 10)}});
    let call = Message::post(&request(2, "tools/call", &large));
    first.send(&site, &call).await;
    first.settle().await;
    assert_eq!(running.count(), 1);
    let refused = site.send(&second.post(&call)).await;
    assert_eq!((refused.status, refused.error_code()), (503, -32603), "{}", refused.text());
    assert_eq!(refused.field("retry-after"), Some("10"));
    first.stream.leave();
    Site::settle().await;
    assert_eq!(site.send(&second.post(&call)).await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn posts_get_429_while_too_many_responses_are_unread() {
    let site = site(&server());
    let mut client = Client::initialized(&site).await;
    // Each answer is as long as its message.
    let long = "x".repeat(1 << 20);
    let call = request(2, "tools/call", &json!({"name": "echo", "arguments": {"message": long}}));
    let call = client.post(&Message::post(&call));
    let mut accepted = 0;
    while site.send(&call).await.status == 202 {
        accepted += 1;
        assert!(accepted < 100, "the server accepted {accepted} messages of 1 MiB");
    }
    assert_eq!(site.send(&call).await.status, 429);
    // When the client reads again, the server answers again.
    for _ in 0..accepted {
        assert_eq!(client.stream.next_message().await["id"], 2);
    }
    client.send(&site, &ping()).await;
    assert_eq!(client.stream.next_message().await["id"], 1);
}
