//! Loss and return of members.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{Resource, SubscriptionFilter, Tool};
use thruway_mcp_sdk::{
    EraChoice, McpClient, McpClientBuilder, McpClientError, McpEndpoint, McpGatewayOptions, McpServer,
    Member, MemberState, ServerNotification, Subscription,
};
use thruway_net::InProcessServer;
use thruway_server::{Answer, Handler, Request, Response, Router, StatusCode};
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::sites::{ERAS, gateway, in_memory, over_http, wait_for, with_options};
use crate::client::calls::text;
use crate::client::sites;
use crate::fixtures::with_waiting;
use crate::http::{Message, Site};

/// A server that can be killed and started again.
#[derive(Clone)]
struct Killable {
    server: McpServer,
    is_down: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    /// The times of all attempts to connect.
    attempts: Arc<Mutex<Vec<Instant>>>,
}

impl Killable {
    fn new(server: McpServer) -> Self {
        Self { server, is_down: Arc::default(), connections: Arc::default(), attempts: Arc::default() }
    }

    fn member(&self, name: &str) -> Member {
        let killable = self.clone();
        Member::new(name, move |builder| killable.connect(builder))
    }

    fn connect(&self, builder: McpClientBuilder) -> Result<McpClient, McpClientError> {
        self.attempts.lock().unwrap().push(Instant::now());
        if self.is_down.load(Ordering::Relaxed) {
            return Err(McpClientError::Start(io::ErrorKind::NotFound));
        }
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut pipe, other_end) = tokio::io::duplex(1 << 16);
        self.server.serve_pipe(other_end);
        let relaying = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut far, &mut pipe).await });
        self.connections.lock().unwrap().push(relaying.abort_handle());
        Ok(builder.unix_stream(near))
    }

    fn kill(&self) {
        self.is_down.store(true, Ordering::Relaxed);
        self.connections.lock().unwrap().drain(..).for_each(|connection| connection.abort());
    }

    fn revive(&self) {
        self.is_down.store(false, Ordering::Relaxed);
    }
}

fn greeter() -> McpServer {
    McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!")
}

fn options() -> McpGatewayOptions {
    McpGatewayOptions { list_wait: Duration::from_secs(1), ..McpGatewayOptions::default() }
}

async fn names(client: &McpClient) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn other_members_work_after_one_was_killed() {
    for era in ERAS {
        let killable = Killable::new(greeter());
        let members = [in_memory("one", &greeter()), killable.member("two"), in_memory("three", &greeter())];
        let gateway = with_options(options(), members);
        let client = McpClient::builder().era(era).server(&gateway);
        let all = names(&client).await;
        assert_eq!(all, ["one__greet", "three__greet", "two__greet"]);
        killable.kill();
        let error = client.call_tool("two__greet", json!({})).await.unwrap_err();
        let error = error.server_error().unwrap();
        assert_eq!(
            (error.code.0, &error.data.as_ref().unwrap()["server"]),
            (-32603, &json!("two")),
            "{error}"
        );
        for member in ["one", "three"] {
            let called = client.call_tool(&format!("{member}__greet"), json!({})).await.unwrap();
            assert_eq!(text(&called), "Hello!");
        }
        let began = Instant::now();
        assert_eq!(names(&client).await, all);
        assert!(began.elapsed() <= Duration::from_millis(1100), "{:?}", began.elapsed());
        let error = client.call_tool("two__greet", json!({})).await.unwrap_err();
        assert_eq!(error.server_error().unwrap().data.as_ref().unwrap()["server"], "two");
        gateway.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn returned_member_works_and_clients_get_list_changed() {
    for era in ERAS {
        let killable = Killable::new(greeter());
        let gateway = with_options(options(), [in_memory("one", &greeter()), killable.member("two")]);
        wait_for(&gateway, "two", MemberState::Connected).await;
        let client = McpClient::builder().era(era).server(&gateway);
        assert_eq!(names(&client).await.len(), 2);
        killable.kill();
        client.call_tool("two__greet", json!({})).await.unwrap_err();
        wait_for(&gateway, "two", MemberState::Failed).await;
        let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
        let mut changes = client.listen(filter).await.unwrap();
        killable.server.add_tool(Tool::new("part"), || "Bye!").unwrap();
        killable.revive();
        let revived = Instant::now();
        let notification = timeout(Duration::from_mins(1), changes.next()).await.unwrap();
        assert_eq!(notification, Some(ServerNotification::ToolsListChanged));
        assert!(revived.elapsed() < Duration::from_secs(5), "{:?}", revived.elapsed());
        assert_eq!(names(&client).await, ["one__greet", "two__greet", "two__part"]);
        assert_eq!(text(&client.call_tool("two__part", json!({})).await.unwrap()), "Bye!");
        gateway.close().await;
    }
}

async fn listen_to_tools(client: &McpClient) -> Subscription {
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    client.listen(filter).await.unwrap()
}

/// Returns the time until the next notification.
async fn time_to_change(changes: &mut Subscription) -> Duration {
    let began = Instant::now();
    timeout(Duration::from_mins(1), changes.next()).await.unwrap().unwrap();
    began.elapsed()
}

/// Regression test: all attempts in the first 2 s failed without a connection, so the member was missing for 3.1 s.
#[tokio::test(start_paused = true)]
async fn pauses_between_attempts_to_connect_grow_from_100_ms_to_2_s() {
    let killable = Killable::new(greeter());
    let gateway = with_options(options(), [killable.member("two")]);
    wait_for(&gateway, "two", MemberState::Connected).await;
    let client = McpClient::builder().server(&gateway);
    let mut changes = listen_to_tools(&client).await;
    sleep(Duration::from_secs(10)).await;
    killable.attempts.lock().unwrap().clear();
    killable.kill();
    let killed = Instant::now();
    client.call_tool("two__greet", json!({})).await.unwrap_err();
    sleep(Duration::from_secs(8)).await;
    let attempts: Vec<_> = killable.attempts.lock().unwrap().iter().map(|at| *at - killed).collect();
    let expected = [0, 100, 300, 700, 1500, 3100, 5100, 7100].map(Duration::from_millis);
    assert_eq!(attempts.len(), expected.len(), "{attempts:?}");
    for (at, expected) in attempts.iter().zip(expected) {
        assert!(at.abs_diff(expected) < Duration::from_millis(50), "{attempts:?}");
    }
    killable.revive();
    let waited = time_to_change(&mut changes).await;
    assert!(waited < Duration::from_millis(2100), "{waited:?}");
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn restart_of_idle_member_is_noticed_within_3_s() {
    let killable = Killable::new(greeter());
    let gateway = with_options(options(), [killable.member("two")]);
    wait_for(&gateway, "two", MemberState::Connected).await;
    let mut changes = listen_to_tools(&McpClient::builder().server(&gateway)).await;
    sleep(Duration::from_secs(10)).await;
    killable.kill();
    killable.revive();
    let waited = time_to_change(&mut changes).await;
    assert!(waited < Duration::from_millis(3100), "{waited:?}");
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn subscription_to_resource_continues_after_return_of_member() {
    for far in ERAS {
        let resource = Resource::new("test://text", "text");
        let killable = Killable::new(McpServer::new("text", "1.0").resource(resource, || "text"));
        let options = McpGatewayOptions { bridge: super::sites::options(far).bridge, ..options() };
        let gateway = with_options(options, [in_memory("one", &greeter()), killable.member("two")]);
        wait_for(&gateway, "two", MemberState::Connected).await;
        let client = McpClient::builder().era(EraChoice::Modern).server(&gateway);
        let uris = vec!["test://text".to_owned()];
        let filter = SubscriptionFilter { resource_subscriptions: uris, ..SubscriptionFilter::default() };
        let mut changes = client.listen(filter).await.unwrap();
        killable.kill();
        client.read_resource("test://text").await.unwrap_err();
        wait_for(&gateway, "two", MemberState::Failed).await;
        killable.revive();
        // The resource may have changed in the meantime.
        timeout(Duration::from_mins(1), changes.next()).await.unwrap().unwrap();
        killable.server.resource_updated("test://text");
        let updated = timeout(Duration::from_mins(1), changes.next()).await.unwrap();
        assert!(matches!(updated, Some(ServerNotification::ResourceUpdated(_))), "{far:?}: {updated:?}");
        gateway.close().await;
    }
}

#[tokio::test]
async fn late_member_appears_and_clients_get_list_changed() {
    for era in ERAS {
        let killable = Killable::new(greeter());
        killable.kill();
        let gateway = with_options(options(), [in_memory("one", &greeter()), killable.member("two")]);
        let client = McpClient::builder().era(era).server(&gateway);
        assert_eq!(names(&client).await, ["one__greet"]);
        let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
        let mut changes = client.listen(filter).await.unwrap();
        killable.revive();
        let complete = async {
            while names(&client).await.len() != 2 {
                changes.next().await.unwrap();
            }
        };
        timeout(Duration::from_mins(1), complete).await.unwrap();
        assert_eq!(text(&client.call_tool("two__greet", json!({})).await.unwrap()), "Hello!");
        gateway.close().await;
    }
}

/// An HTTP endpoint behind a proxy that responds 503 while the server is down. The next server does not know the
/// sessions of the previous one.
struct Restartable {
    servers: [McpEndpoint; 2],
    phase: Arc<AtomicUsize>,
}

impl Handler for Restartable {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match self.phase.load(Ordering::Relaxed) {
            0 => self.servers[0].handle(request),
            1 => Answer::Now(Response::new(StatusCode::SERVICE_UNAVAILABLE)),
            _ => self.servers[1].handle(request),
        }
    }
}

#[tokio::test]
async fn http_member_works_again_after_restart() {
    for far in ERAS {
        let phase = Arc::new(AtomicUsize::new(0));
        let next = greeter().tool(Tool::new("part"), || "Bye!");
        let servers = [greeter().endpoint(), next.endpoint()];
        let restartable = Restartable { servers, phase: phase.clone() };
        let site = sites::Site::of(Router::new().any("/mcp", restartable));
        let options = McpGatewayOptions { bridge: super::sites::options(far).bridge, ..options() };
        let gateway = with_options(options, [in_memory("one", &greeter()), over_http("two", &site.url)]);
        wait_for(&gateway, "two", MemberState::Connected).await;
        let clients = ERAS.map(|era| McpClient::builder().era(era).server(&gateway));
        for client in &clients {
            assert_eq!(names(client).await, ["one__greet", "two__greet"]);
            assert_eq!(text(&client.call_tool("two__greet", json!({})).await.unwrap()), "Hello!");
        }
        phase.store(1, Ordering::Relaxed);
        let error = clients[0].call_tool("two__greet", json!({})).await.unwrap_err();
        assert_eq!(error.server_error().unwrap().data.as_ref().unwrap()["server"], "two", "{far:?}: {error}");
        wait_for(&gateway, "two", MemberState::Failed).await;
        assert_eq!(names(&clients[1]).await, ["one__greet", "two__greet"]);
        phase.store(2, Ordering::Relaxed);
        wait_for(&gateway, "two", MemberState::Connected).await;
        for client in &clients {
            assert_eq!(names(client).await, ["one__greet", "two__greet", "two__part"], "{far:?}");
            assert_eq!(text(&client.call_tool("two__part", json!({})).await.unwrap()), "Bye!", "{far:?}");
        }
        gateway.close().await;
    }
}

#[tokio::test]
async fn drain_waits_for_calls_and_then_refuses_calls() {
    let (server, gate) = with_waiting(greeter());
    let gateway = gateway([in_memory("one", &server)]);
    let client = McpClient::builder().server(&gateway);
    let call = tokio::spawn({
        let client = client.clone();
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let begun = Mutex::new(Some(begun));
        let reporting = client.with_progress(move |_| {
            let _ = begun.lock().unwrap().take().map(|begun| begun.send(()));
        });
        let call = tokio::spawn(async move { reporting.call_tool("one__wait", json!({})).await });
        is_begun.await.unwrap();
        async move { call.await.unwrap() }
    });
    let draining = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.drain(Duration::from_mins(1)).await }
    });
    tokio::task::yield_now().await;
    gate.notify_one();
    assert_eq!(text(&call.await.unwrap().unwrap()), "waited");
    draining.await.unwrap();
    let site = Site::new(&gateway);
    let refused: Value =
        site.send(&Message::modern("tools/call", json!({"name": "one__greet"}))).await.message();
    assert_eq!(refused["error"]["data"]["server"], "one", "{refused}");
}
