//! Legacy subscriptions during an outage of the server: they continue when the server returns, and end if it
//! does not.

use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::SubscriptionFilter;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, ServerNotification, Subscription};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::misbehaving::{read_request, response, scripted};

const URI: &str = "test://n";

/// Kinds of requests to a server that starts one session after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestKind {
    Initialize,
    Subscribe,
    Listen,
    /// A request for the stream from an event on.
    Resume,
    End,
}

fn refuses(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn event_stream(message: &Value) -> String {
    response("Content-Type: text/event-stream\r\n", &format!("retry: 10\ndata: {message}\n\n"))
}

/// A server that answers with `misbehaves(request, count, session)`, if that is set.
async fn server(
    misbehaves: impl Fn(RequestKind, usize, usize) -> Option<String> + Send + 'static,
) -> (String, mpsc::UnboundedReceiver<(RequestKind, usize)>) {
    let (seen, requests) = mpsc::unbounded_channel();
    let counts = [const { AtomicUsize::new(0) }; 5];
    let sessions = AtomicUsize::new(0);
    let url = scripted(move |head, message| {
        let answer = |result: Value, fields: &str| {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response(&format!("Content-Type: application/json\r\n{fields}"), &answer.to_string())
        };
        let kind = match message["method"].as_str() {
            Some("initialize") => RequestKind::Initialize,
            Some("resources/subscribe") => RequestKind::Subscribe,
            None if head.starts_with("DELETE ") => RequestKind::End,
            None if head.contains("Last-Event-ID: ") => RequestKind::Resume,
            None if head.starts_with("GET ") => RequestKind::Listen,
            _ => return refuses("202 Accepted"),
        };
        let times = counts[kind as usize].fetch_add(1, Ordering::Relaxed);
        let session = sessions.load(Ordering::Relaxed);
        if let Some(failure) = misbehaves(kind, times, session) {
            return failure;
        }
        let _ = seen.send((kind, session));
        match kind {
            RequestKind::Initialize => {
                let session = sessions.fetch_add(1, Ordering::Relaxed);
                answer(
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                        "serverInfo": {"name": "restarting", "version": "1"}}),
                    &format!("Mcp-Session-Id: s{session}\r\n"),
                )
            }
            RequestKind::Subscribe => answer(json!({}), ""),
            RequestKind::End => refuses("204 No Content"),
            RequestKind::Listen | RequestKind::Resume => {
                event_stream(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params":
                {"level": "info", "data": "here"}}))
            }
        }
    });
    (url.await, requests)
}

async fn listen(url: &str) -> Subscription {
    let client = McpClient::builder().era(EraChoice::Legacy).http(url);
    let resource_subscriptions = vec![URI.to_owned()];
    client
        .listen(SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() })
        .await
        .unwrap()
}

async fn end(mut subscription: Subscription) -> Option<McpClientError> {
    let ending = async { while subscription.next().await.is_some() {} };
    timeout(Duration::from_mins(1), ending).await.expect("the subscription should end");
    subscription.end()
}

/// Regression test: a subscription was not renewed after a first refusal. It received no changes, and no
/// error.
#[tokio::test]
async fn subscription_is_renewed_after_temporary_server_errors() {
    let (url, mut requests) = server(|kind, times, session| match kind {
        RequestKind::Listen if session == 1 && times > 0 => Some(refuses("404 Not Found")),
        RequestKind::Initialize if (1..4).contains(&times) => Some(refuses("503 Service Unavailable")),
        RequestKind::Subscribe if times == 1 => Some(refuses("502 Bad Gateway")),
        _ => None,
    })
    .await;
    let mut subscription = listen(&url).await;
    let again = async { while requests.recv().await != Some((RequestKind::Subscribe, 2)) {} };
    timeout(Duration::from_mins(1), again).await.expect("the client should subscribe again");
    let notification = timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(matches!(notification, Some(ServerNotification::ResourceUpdated(updated)) if updated.uri == URI));
    assert_eq!(subscription.end(), None);
}

/// Regression test: an abandoned session was not ended. A server that has not reported its end would keep it
/// until it expires.
#[tokio::test]
async fn abandoned_session_is_deleted_unless_server_ended_it() {
    let initialize = |session| (RequestKind::Initialize, session);
    for (status, expected) in [
        ("400 Bad Request", vec![initialize(0), (RequestKind::End, 1), initialize(1)]),
        ("404 Not Found", vec![initialize(0), initialize(1)]),
    ] {
        let (url, mut requests) = server(move |kind, times, session| {
            (kind == RequestKind::Listen && session == 1 && times > 0).then(|| refuses(status))
        })
        .await;
        let subscription = listen(&url).await;
        let mut sessions = Vec::new();
        let again = async {
            while let Some(request) = requests.recv().await.filter(|one| *one != (RequestKind::Subscribe, 2))
            {
                if matches!(request.0, RequestKind::Initialize | RequestKind::End) {
                    sessions.push(request);
                }
            }
        };
        timeout(Duration::from_mins(1), again).await.expect("the client should subscribe again");
        assert_eq!((sessions, subscription.end()), (expected, None), "{status}");
    }
}

/// Regression test: the client abandoned the session with all its calls, because the server had forgotten an
/// event id.
#[tokio::test]
async fn stream_that_cannot_resume_restarts_in_same_session() {
    let (url, mut requests) = server(|kind, times, _| match (kind, times) {
        (RequestKind::Listen, 0) => {
            Some(response("Content-Type: text/event-stream\r\n", "id: first\nretry: 10\ndata:\n\n"))
        }
        (RequestKind::Resume, _) => Some(refuses("400 Bad Request")),
        _ => None,
    })
    .await;
    let mut subscription = listen(&url).await;
    let notification = timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(matches!(notification, Some(ServerNotification::ResourceUpdated(updated)) if updated.uri == URI));
    while let Ok(request) = requests.try_recv() {
        assert!(request.0 != RequestKind::End && request != (RequestKind::Initialize, 1), "{request:?}");
    }
}

/// Regression test: the client gave up the stream after such a temporary answer.
#[tokio::test]
async fn client_retries_stream_after_503() {
    let (url, _requests) = server(|kind, times, _| match (kind, times) {
        (RequestKind::Listen, 1) => Some(refuses("503 Service Unavailable")),
        (RequestKind::Listen, 2) => {
            Some(event_stream(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": URI}})))
        }
        _ => None,
    })
    .await;
    let mut subscription = listen(&url).await;
    let notification = timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(matches!(notification, Some(ServerNotification::ResourceUpdated(_))));
}

/// Regression test: after a temporary failure at the start of a session, the client assumed that the server
/// has no stream. Subscriptions received no changes.
#[tokio::test]
async fn client_retries_first_stream_after_503_or_429() {
    let check_notification_after = async |status: &'static str| {
        let (url, _requests) = server(move |kind, times, _| match (kind, times) {
            (RequestKind::Listen, 0) => Some(refuses(status)),
            (RequestKind::Listen, 1) => {
                Some(event_stream(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"uri": URI}})))
            }
            _ => None,
        })
        .await;
        let mut subscription = listen(&url).await;
        let notification = timeout(Duration::from_mins(1), subscription.next()).await;
        assert!(
            matches!(notification, Ok(Some(ServerNotification::ResourceUpdated(_)))),
            "{status}: {notification:?}"
        );
    };
    tokio::join!(
        check_notification_after("503 Service Unavailable"),
        check_notification_after("429 Too Many Requests")
    );
}

/// Regression test: the subscription ended at an error without an id. Such an error comes from a gateway, not
/// from the server.
#[tokio::test]
async fn subscription_survives_gateway_errors_without_request_id() {
    let refuses = |status: &str| {
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "soon"}});
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json");
        format!("{head}\r\n\r\n{error}")
    };
    let (url, mut requests) = server(move |kind, times, session| match kind {
        RequestKind::Listen if session == 1 && times > 0 => Some(self::refuses("404 Not Found")),
        RequestKind::Initialize if times == 1 => Some(refuses("503 Service Unavailable")),
        RequestKind::Subscribe if times == 1 => Some(refuses("429 Too Many Requests")),
        _ => None,
    })
    .await;
    let subscription = listen(&url).await;
    let again = async { while requests.recv().await != Some((RequestKind::Subscribe, 2)) {} };
    timeout(Duration::from_mins(1), again).await.expect("the client should subscribe again");
    assert_eq!(subscription.end(), None);
}

#[tokio::test]
async fn subscription_ends_if_server_answers_401_or_403() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let (url, _requests) = server(move |kind, times, _| match kind {
            RequestKind::Listen if times > 0 => Some(refuses("404 Not Found")),
            RequestKind::Initialize if times > 0 => Some(refuses(status)),
            _ => None,
        })
        .await;
        let ended = end(listen(&url).await).await;
        assert!(matches!(ended, Some(McpClientError::Status(_))), "{status}: {ended:?}");
    }
}

/// Regression test: the server was not restarted any more, but the subscription did not end.
#[tokio::test]
async fn subscription_ends_if_child_is_not_restarted() {
    let initialized = json!({"jsonrpc": "2.0", "id": 7007, "result": {"protocolVersion": "2025-06-18",
        "capabilities": {"resources": {"subscribe": true}}, "serverInfo": {"name": "dying", "version": "1"}}});
    let subscribed = json!({"jsonrpc": "2.0", "id": 7007, "result": {}});
    let answer = |answer: &Value| {
        let id = r#"id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')"#;
        format!("read -r line; {id}; echo '{answer}' | sed \"s/7007/$id/\"")
    };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{}; read -r line; {}", answer(&initialized), answer(&subscribed))]);
    let client = McpClient::builder().era(EraChoice::Legacy).command(command).unwrap();
    let resource_subscriptions = vec![URI.to_owned()];
    let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
    let subscription = client.listen(filter).await.unwrap();
    assert_eq!(end(subscription).await, Some(McpClientError::TooManyRestarts));
}

/// Regression test: a new subscription to a resource and the end of an earlier one used two connections. If
/// the server handled the end last, it reported no changes to the new subscription.
#[tokio::test]
async fn new_subscription_waits_for_unsubscribe_of_previous_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (report, mut ended) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let answers = gate.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (report, answers) = (report.clone(), answers.clone());
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let (_, message) = read_request(&mut stream).await;
                let result = match message["method"].as_str() {
                    Some("initialize") => json!({"protocolVersion": "2025-11-25",
                        "capabilities": {"resources": {"subscribe": true}}, "serverInfo": {"name": "slow", "version": "1"}}),
                    Some("resources/unsubscribe") => {
                        report.send(()).unwrap();
                        answers.notified().await;
                        json!({})
                    }
                    Some("resources/subscribe") => json!({}),
                    other => {
                        let status = other.map_or("405 Method Not Allowed", |_| "202 Accepted");
                        return stream.write_all(refuses(status).as_bytes()).await.unwrap();
                    }
                };
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                let answer = response("Content-Type: application/json\r\n", &answer);
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    let client = McpClient::builder().era(EraChoice::Legacy).http(&url);
    let filter =
        SubscriptionFilter { resource_subscriptions: vec![URI.to_owned()], ..SubscriptionFilter::default() };
    drop(client.listen(filter.clone()).await.unwrap());
    ended.recv().await.unwrap();
    let mut next = pin!(client.listen(filter));
    assert!(timeout(Duration::from_millis(50), &mut next).await.is_err(), "the server has not answered yet");
    gate.notify_one();
    timeout(Duration::from_mins(1), next).await.expect("the server has answered").unwrap();
}
