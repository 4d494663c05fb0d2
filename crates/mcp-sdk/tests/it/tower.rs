//! The endpoint in an axum application, which also runs with `axum::serve`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, Response};
use serde_json::{Value, json};
use thruway_mcp_sdk::{Authorization, ClientAddr, McpEndpoint, McpServerOptions, McpService};
use thruway_server::Tower;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::authorization::Plain;
use crate::fixtures::{server, server_with, text, tool, with_hanging};
use crate::http::{Message, Session, Site};

/// Checks the traits that axum requires of services and their futures.
const fn assert_meets_bounds_of_axum<S, F>(_: &S)
where
    S: tower_service::Service<Request<Body>, Error = Infallible, Future = F> + Clone + Send + Sync + 'static,
    F: Send + 'static,
{
}

fn app(endpoint: &McpEndpoint) -> Router {
    let service: McpService = endpoint.tower_service();
    assert_meets_bounds_of_axum(&service);
    Router::new().route_service("/mcp", service)
}

/// Serves the application over HTTP with this engine.
pub(crate) fn site(endpoint: &McpEndpoint) -> Site {
    Site::of(Tower::new(app(endpoint)))
}

/// Regression test: a service did not know the addresses of clients, so one client could occupy all sessions.
#[tokio::test(start_paused = true)]
async fn tower_service_takes_client_address_from_request_extensions() {
    let options = McpServerOptions { sessions_per_address_max: 1, ..McpServerOptions::default() };
    let service = server_with(options).endpoint().tower_service();
    let initialize = async |address: [u8; 4]| {
        let message = Session::initialize("2025-06-18", &json!({}));
        let mut request = Request::builder().method("POST").uri("/mcp");
        for (name, value) in &message.fields {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(message.content)).unwrap();
        request.extensions_mut().insert(ClientAddr::Tcp((address, 4711).into()));
        let response = tower_service::Service::call(&mut service.clone(), request).await.unwrap();
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    };
    let (first, other) = (initialize([192, 0, 2, 1]).await, initialize([192, 0, 2, 2]).await);
    initialize([192, 0, 2, 1]).await;
    let site = Site::of(Tower::new(Router::new().route_service("/mcp", service)));
    for (id, status) in [(first, 404), (other, 200)] {
        let session = Session { id: Some(id), revision: "2025-06-18".to_owned() };
        assert_eq!(site.send(&session.request(1, "ping", &json!({}))).await.status, status);
    }
}

/// Calls the service directly, without a server.
async fn call(endpoint: &McpEndpoint, message: &Message) -> Response<Body> {
    let mut request = Request::builder().method(message.method).uri(&message.target);
    for (name, value) in &message.fields {
        request = request.header(name, value);
    }
    let request = request.body(Body::from(message.content.clone())).unwrap();
    let mut app = app(endpoint);
    tower_service::Service::call(&mut app, request).await.unwrap()
}

async fn content(response: Response<Body>) -> Vec<u8> {
    axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()
}

#[tokio::test(start_paused = true)]
async fn tower_service_answers_modern_requests() {
    let endpoint = server().endpoint();
    let echo = json!({"name": "echo", "arguments": {"message": "hi"}});
    let response = call(&endpoint, &Message::modern("tools/call", echo)).await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let length = response.body().size_hint().exact();
    let bytes = content(response).await;
    assert_eq!(length, Some(bytes.len() as u64));
    let message: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(message["result"]["structuredContent"], json!({"message": "hi"}));
    let unknown = call(&endpoint, &Message::modern("nothing", json!({}))).await;
    assert_eq!(unknown.status().as_u16(), 404);
}

#[tokio::test(start_paused = true)]
async fn tower_service_sends_progress_as_events() {
    let site = site(&server().endpoint());
    let mut params = tool("progress");
    params["_meta"] = json!({"progressToken": 1});
    let messages = site.send(&Message::modern("tools/call", params)).await.messages();
    assert_eq!(messages[0]["method"], "notifications/progress");
    assert_eq!(text(&messages.last().unwrap()["result"]), "done");
}

#[tokio::test(start_paused = true)]
async fn tower_service_supports_legacy_sessions() {
    let server = server();
    let site = site(&server.endpoint());
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.initialize(revision).await;
        let mut stream = site.open(&session.get());
        let mut asking = site.open(&session.request(1, "tools/call", &tool("ask")));
        let question = asking.next_message().await;
        let name = json!({"action": "accept", "content": {"name": "Ada"}});
        assert_eq!(site.send(&session.respond(&question["id"], &name)).await.status, 202);
        assert_eq!(text(&asking.next_message().await["result"]), "Ada");
        session.call(&site, "resources/subscribe", json!({"uri": "test://text"})).await;
        server.resource_updated("test://text");
        assert_eq!(stream.next_message().await["method"], "notifications/resources/updated");
        assert_eq!(site.send(&session.delete()).await.status, 204);
        assert_eq!(stream.next_event().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_drops_handler_of_modern_request() {
    let (server, running) = with_hanging(server());
    let exchange = site(&server.endpoint()).open(&Message::modern("tools/call", tool("hang")));
    Site::settle().await;
    assert_eq!(running.count(), 1);
    exchange.leave();
    Site::settle().await;
    assert_eq!(running.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn idle_event_stream_sends_keep_alive_comments() {
    let endpoint = server().endpoint();
    let listen =
        Message::modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut body = call(&endpoint, &listen).await.into_body();
    assert!(frame(&mut body).await.contains("acknowledged"));
    assert_eq!(frame(&mut body).await, ":\n\n");
    assert_eq!(frame(&mut body).await, ":\n\n");
}

async fn frame(body: &mut Body) -> String {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

/// Returns the body of a response of `axum::serve`, without its chunk framing.
async fn exchange(stream: &mut TcpStream, message: &Message) -> String {
    let content = String::from_utf8(message.content.clone()).unwrap();
    let fields: Vec<_> = message.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (fields, length) = (fields.concat(), content.len());
    let head = format!("POST /mcp HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{content}").as_bytes()).await.unwrap();
    let mut response = String::new();
    loop {
        let (mut piece, is_whole) = ([0; 4096], |response: &str| {
            let (head, content) = response.split_once("\r\n\r\n")?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            Some(match length {
                Some(length) => content.len() == length.parse::<usize>().unwrap(),
                None => content.ends_with("\r\n0\r\n\r\n"),
            })
        });
        let n = stream.read(&mut piece).await.unwrap();
        assert!(n > 0, "closed after {response:?}");
        response.push_str(str::from_utf8(&piece[..n]).unwrap());
        if is_whole(&response) == Some(true) {
            return response;
        }
    }
}

#[tokio::test]
async fn tower_service_works_with_axum_serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(&server().endpoint());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    let echo = Message::modern("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}}));
    for _ in 0..2 {
        let response = exchange(&mut stream, &echo).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"), "{response}");
        assert!(response.contains(r#""structuredContent":{"message":"hi"}"#), "{response}");
    }
    let mut params = tool("progress");
    params["_meta"] = json!({"progressToken": 1});
    let response = exchange(&mut stream, &Message::modern("tools/call", params)).await;
    assert!(response.contains("content-type: text/event-stream"), "{response}");
    let last = response.rsplit("data: ").next().unwrap();
    assert!(response.matches("notifications/progress").count() > 1 && last.contains("done"), "{response}");
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn tower_service_rejects_same_requests_as_endpoint() {
    let authorization =
        Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain).with_scopes(["use"]);
    let endpoint = server().endpoint();
    let ping = Message::modern("server/discover", json!({}));
    let status = async |message: &Message| call(&endpoint, message).await.status().as_u16();
    assert_eq!(status(&ping).await, 200);
    assert_eq!(status(&ping.clone().with_field("Host", "evil.example")).await, 403);
    assert_eq!(status(&ping.clone().with_field("Origin", "http://evil.example")).await, 403);
    assert_eq!(status(&ping.clone().without_field("Host")).await, 403);
    assert_eq!(status(&ping.clone().with_field("Content-Type", "text/plain")).await, 415);
    assert_eq!(status(&Message::post_bytes(vec![b' '; (4 << 20) + 1])).await, 413);
    assert_eq!(status(&Message::without_content("PUT")).await, 405);
    // The authority is part of the target, as in HTTP/2.
    assert_eq!(status(&ping.clone().without_field("Host").to("http://localhost:80/mcp")).await, 200);
    assert_eq!(status(&ping.clone().without_field("Host").to("http://evil.example/mcp")).await, 403);
    let guarded = call(&endpoint.authorize(authorization), &ping).await;
    assert_eq!(guarded.status().as_u16(), 401);
    assert!(guarded.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer "));
}
