//! Legacy subscriptions with a server that goes away: they continue after its return, and end if it does not
//! return.

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

/// The requests to a server that starts one session after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
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

fn told(message: &Value) -> String {
    response("Content-Type: text/event-stream\r\n", &format!("retry: 10\ndata: {message}\n\n"))
}

/// A server that answers with `misbehaves(request, count, session)`, if that is set.
async fn server(
    misbehaves: impl Fn(Asked, usize, usize) -> Option<String> + Send + 'static,
) -> (String, mpsc::UnboundedReceiver<(Asked, usize)>) {
    let (seen, asked) = mpsc::unbounded_channel();
    let counts = [const { AtomicUsize::new(0) }; 5];
    let sessions = AtomicUsize::new(0);
    let url = scripted(move |head, message| {
        let answer = |result: Value, fields: &str| {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response(&format!("Content-Type: application/json\r\n{fields}"), &answer.to_string())
        };
        let what = match message["method"].as_str() {
            Some("initialize") => Asked::Initialize,
            Some("resources/subscribe") => Asked::Subscribe,
            None if head.starts_with("DELETE ") => Asked::End,
            None if head.contains("Last-Event-ID: ") => Asked::Resume,
            None if head.starts_with("GET ") => Asked::Listen,
            _ => return refuses("202 Accepted"),
        };
        let times = counts[what as usize].fetch_add(1, Ordering::Relaxed);
        let session = sessions.load(Ordering::Relaxed);
        if let Some(misbehaviour) = misbehaves(what, times, session) {
            return misbehaviour;
        }
        let _ = seen.send((what, session));
        match what {
            Asked::Initialize => {
                let session = sessions.fetch_add(1, Ordering::Relaxed);
                answer(
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
                        "serverInfo": {"name": "restarting", "version": "1"}}),
                    &format!("Mcp-Session-Id: s{session}\r\n"),
                )
            }
            Asked::Subscribe => answer(json!({}), ""),
            Asked::End => refuses("204 No Content"),
            Asked::Listen | Asked::Resume => {
                told(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params":
                {"level": "info", "data": "here"}}))
            }
        }
    });
    (url.await, asked)
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
async fn a_subscription_waits_for_a_server_that_is_about_to_come_back() {
    let (url, mut asked) = server(|what, times, session| match what {
        Asked::Listen if session == 1 && times > 0 => Some(refuses("404 Not Found")),
        Asked::Initialize if (1..4).contains(&times) => Some(refuses("503 Service Unavailable")),
        Asked::Subscribe if times == 1 => Some(refuses("502 Bad Gateway")),
        _ => None,
    })
    .await;
    let mut subscription = listen(&url).await;
    let again = async { while asked.recv().await != Some((Asked::Subscribe, 2)) {} };
    timeout(Duration::from_mins(1), again).await.expect("it should be subscribed to again");
    let told = timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(matches!(told, Some(ServerNotification::ResourceUpdated(updated)) if updated.uri == URI));
    assert_eq!(subscription.end(), None);
}

/// Regression test: an abandoned session was not ended. A server that has not reported its end would keep it
/// until it expires.
#[tokio::test]
async fn a_session_that_is_given_up_is_ended_unless_the_server_has_done_so() {
    let begun = |session| (Asked::Initialize, session);
    for (status, expected) in [
        ("400 Bad Request", vec![begun(0), (Asked::End, 1), begun(1)]),
        ("404 Not Found", vec![begun(0), begun(1)]),
    ] {
        let (url, mut asked) = server(move |what, times, session| {
            (what == Asked::Listen && session == 1 && times > 0).then(|| refuses(status))
        })
        .await;
        let subscription = listen(&url).await;
        let mut sessions = Vec::new();
        let again = async {
            while let Some(asked) = asked.recv().await.filter(|asked| *asked != (Asked::Subscribe, 2)) {
                if matches!(asked.0, Asked::Initialize | Asked::End) {
                    sessions.push(asked);
                }
            }
        };
        timeout(Duration::from_mins(1), again).await.expect("it should be subscribed to again");
        assert_eq!((sessions, subscription.end()), (expected, None), "{status}");
    }
}

/// Regression test: the client abandoned the session with all its calls, because the server had forgotten an
/// event id.
#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_begun_anew_in_the_same_session() {
    let (url, mut asked) = server(|what, times, _| match (what, times) {
        (Asked::Listen, 0) => {
            Some(response("Content-Type: text/event-stream\r\n", "id: first\nretry: 10\ndata:\n\n"))
        }
        (Asked::Resume, _) => Some(refuses("400 Bad Request")),
        _ => None,
    })
    .await;
    let mut subscription = listen(&url).await;
    let told = timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(matches!(told, Some(ServerNotification::ResourceUpdated(updated)) if updated.uri == URI));
    while let Ok(asked) = asked.try_recv() {
        assert!(asked.0 != Asked::End && asked != (Asked::Initialize, 1), "{asked:?}");
    }
}

/// Regression test: the client gave up the stream after such a temporary answer.
#[tokio::test]
async fn a_stream_that_is_not_to_be_had_for_a_while_is_asked_for_again() {
    let (url, _asked) = server(|what, times, _| match (what, times) {
        (Asked::Listen, 1) => Some(refuses("503 Service Unavailable")),
        (Asked::Listen, 2) => {
            Some(told(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": URI}})))
        }
        _ => None,
    })
    .await;
    let mut subscription = listen(&url).await;
    let told = timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(matches!(told, Some(ServerNotification::ResourceUpdated(_))));
}

/// Regression test: after a temporary failure at the start of a session, the client assumed that the server
/// has no stream. Subscriptions received no changes.
#[tokio::test]
async fn a_stream_that_is_not_to_be_had_at_first_is_asked_for_again() {
    let told_after = async |status: &'static str| {
        let (url, _asked) = server(move |what, times, _| match (what, times) {
            (Asked::Listen, 0) => Some(refuses(status)),
            (Asked::Listen, 1) => {
                Some(told(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"uri": URI}})))
            }
            _ => None,
        })
        .await;
        let mut subscription = listen(&url).await;
        let told = timeout(Duration::from_mins(1), subscription.next()).await;
        assert!(matches!(told, Ok(Some(ServerNotification::ResourceUpdated(_)))), "{status}: {told:?}");
    };
    tokio::join!(told_after("503 Service Unavailable"), told_after("429 Too Many Requests"));
}

/// Regression test: an error without an id was taken for a refusal of the server, and the subscription ended.
#[tokio::test]
async fn a_subscription_waits_for_a_server_in_whose_place_others_refuse() {
    let refuses = |status: &str| {
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "soon"}});
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json");
        format!("{head}\r\n\r\n{error}")
    };
    let (url, mut asked) = server(move |what, times, session| match what {
        Asked::Listen if session == 1 && times > 0 => Some(self::refuses("404 Not Found")),
        Asked::Initialize if times == 1 => Some(refuses("503 Service Unavailable")),
        Asked::Subscribe if times == 1 => Some(refuses("429 Too Many Requests")),
        _ => None,
    })
    .await;
    let subscription = listen(&url).await;
    let again = async { while asked.recv().await != Some((Asked::Subscribe, 2)) {} };
    timeout(Duration::from_mins(1), again).await.expect("it should be subscribed to again");
    assert_eq!(subscription.end(), None);
}

#[tokio::test]
async fn a_subscription_ends_where_the_server_lets_nobody_in_any_more() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let (url, _asked) = server(move |what, times, _| match what {
            Asked::Listen if times > 0 => Some(refuses("404 Not Found")),
            Asked::Initialize if times > 0 => Some(refuses(status)),
            _ => None,
        })
        .await;
        let ended = end(listen(&url).await).await;
        assert!(matches!(ended, Some(McpClientError::Status(_))), "{status}: {ended:?}");
    }
}

/// Regression test: the server was not restarted any more, but the subscription did not end.
#[tokio::test]
async fn a_subscription_ends_with_a_child_that_is_not_started_again() {
    let begun = json!({"jsonrpc": "2.0", "id": 7007, "result": {"protocolVersion": "2025-06-18",
        "capabilities": {"resources": {"subscribe": true}}, "serverInfo": {"name": "dying", "version": "1"}}});
    let subscribed = json!({"jsonrpc": "2.0", "id": 7007, "result": {}});
    let answer = |answer: &Value| {
        let id = r#"id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')"#;
        format!("read -r line; {id}; echo '{answer}' | sed \"s/7007/$id/\"")
    };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{}; read -r line; {}", answer(&begun), answer(&subscribed))]);
    let client = McpClient::builder().era(EraChoice::Legacy).command(command).unwrap();
    let resource_subscriptions = vec![URI.to_owned()];
    let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
    let subscription = client.listen(filter).await.unwrap();
    assert_eq!(end(subscription).await, Some(McpClientError::TooManyRestarts));
}

/// Regression test: a new subscription to a resource and the end of an earlier one used two connections. If
/// the server handled the end last, it reported no changes to the new subscription.
#[tokio::test]
async fn a_subscription_waits_until_the_server_has_ended_the_one_before() {
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
