//! A server that is hostile, damaged or no Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thruway_store::{Store, StoreConfig, StoreError, StoreHealth, StoreKey, StoreState, SubscriptionEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

/// Starts a server that accepts `HELLO`, and then responds to each read with the result of `respond`.
async fn server(respond: impl Fn(&str) -> Vec<u8> + Clone + Send + Sync + 'static) -> StoreConfig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, respond.clone()));
        }
    });
    StoreConfig::new(url.parse().unwrap())
}

async fn serve(mut stream: TcpStream, respond: impl Fn(&str) -> Vec<u8>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        let request = String::from_utf8_lossy(&buffer[..length]);
        let response = if request.contains("HELLO") { HELLO.to_vec() } else { respond(&request) };
        if stream.write_all(&response).await.is_err() {
            return;
        }
    }
}

/// Waits until the health meets a condition.
async fn until(store: &Store, is_met: impl Fn(&StoreHealth) -> bool) {
    let wait = async {
        while !is_met(&store.health()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(LIMIT, wait).await.is_ok(), "{:?}", store.health());
}

#[tokio::test]
async fn operations_end_in_time_with_an_error_for_any_response() {
    for response in [
        "*1\r\n".repeat(10_000),
        "|1\r\n".repeat(10_000),
        "$9223372036854775807\r\n".to_owned(),
        "$-9223372036854775808\r\n".to_owned(),
        "=-1\r\n".to_owned(),
        "*9223372036854775807\r\n".to_owned(),
        "%4611686018427387904\r\n".to_owned(),
        "|9223372036854775807\r\n".to_owned(),
        "|0\r\n:1\r\n".to_owned(),
        ">0\r\n".to_owned(),
        ",nan\r\n".to_owned(),
        ":-1\r\n".to_owned(),
        ":99999999999999999999\r\n".to_owned(),
        "*2\r\n:1\r\n*1\r\n:1\r\n".to_owned(),
        "+\r\n".to_owned(),
        format!("-ERR {}\r\n", "x".repeat(100_000)),
        "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(),
    ] {
        let start = response[..response.len().min(20)].to_owned();
        let config = server(move |_| response.clone().into_bytes()).await;
        let store = Store::connect(config);
        until(&store, |health| health.state == StoreState::Connected).await;
        let begin = Instant::now();
        let result = store.list(&StoreKey::new("set", "a")).await;
        assert!(begin.elapsed() < BOUND, "{start:?}: {:?}", begin.elapsed());
        let error = result.expect_err(&start).to_string();
        assert!(error.len() < 500 && !error.contains(char::is_control), "{start:?}: {error}");
    }
}

/// Starts a server that accepts `HELLO`, and then sends `start`, and `part` again and again. Returns its settings, and
/// the number of bytes that it could send on the connection with the most.
async fn endless_server(start: &'static str, part: &'static [u8]) -> (StoreConfig, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = StoreConfig::new(format!("redis://{}", listener.local_addr().unwrap()).parse().unwrap());
    let most = Arc::new(AtomicUsize::new(0));
    let of_server = most.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let most = of_server.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                assert!(stream.read(&mut buffer).await.unwrap() > 0);
                stream.write_all(HELLO).await.unwrap();
                // The next read returns another request, or the end of the connection.
                let mut sent = 0;
                if stream.read(&mut buffer).await.is_ok_and(|length| length > 0)
                    && stream.write_all(start.as_bytes()).await.is_ok()
                {
                    while let Ok(length) = stream.write(part).await {
                        sent += length;
                        most.fetch_max(sent, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    (config, most)
}

/// Without a limit, the client collected the whole reply, so a server could fill the memory of all gateways.
#[tokio::test]
async fn replies_without_a_bound_end_the_connection_before_they_need_much_memory() {
    static LARGE: [u8; 64 << 10] = [b'x'; 64 << 10];
    for (start, part, reason) in [
        ("$2000000000\r\n", &LARGE[..], "a reply above 8 MiB"),
        ("$99999999999999999999\r\n", &LARGE[..], "a reply above 8 MiB"),
        ("*100000\r\n", b"$10\r\n0123456789\r\n*2\r\n_\r\n_\r\n", "a reply above 8 MiB"),
        ("*100000\r\n", b"%1\r\n$2\r\nab\r\n:1\r\n", "a reply above 8 MiB"),
        ("", b"*1\r\n", "a reply with more than 16 nested arrays"),
        ("", b"|1\r\n+a\r\n", "a reply with more than 16 nested arrays"),
        ("+", &LARGE[..], "a reply with a line above 64 KiB"),
        ("HTTP/1.1 200 OK\r\n\r\n", &LARGE[..], "data that is no reply of Redis"),
    ] {
        let (config, most) = endless_server(start, part).await;
        let store = Store::connect(config);
        until(&store, |health| health.state == StoreState::Connected).await;
        let begin = Instant::now();
        let result = store.get(&StoreKey::new("value", "a")).await;
        assert!(begin.elapsed() < BOUND, "{start:?}: {:?}", begin.elapsed());
        assert!(
            matches!(result, Err(StoreError::Unavailable | StoreError::Timeout)),
            "{start:?}: {result:?}"
        );
        let is_explained =
            |health: &StoreHealth| health.last_error.as_ref().is_some_and(|error| error.contains(reason));
        until(&store, is_explained).await;
        // Further operations fail at once.
        assert_eq!(store.get(&StoreKey::new("value", "a")).await, Err(StoreError::Unavailable), "{start:?}");
        // The buffers of the system need a part of this.
        let sent = most.load(Ordering::Relaxed);
        assert!(sent < 32 << 20, "{start:?}: {sent} bytes sent");
    }
}

#[tokio::test]
async fn largest_value_is_no_reply_above_the_limit() {
    let value = "x".repeat(1 << 20);
    let reply = format!("${}\r\n{value}\r\n", value.len());
    let config =
        server(
            move |request| {
                if request.contains("PING") { b"+PONG\r\n".to_vec() } else { reply.clone().into_bytes() }
            },
        )
        .await;
    let store = Store::connect(config);
    until(&store, |health| health.state == StoreState::Connected).await;
    assert_eq!(store.get(&StoreKey::new("value", "a")).await.unwrap().unwrap(), value);
}

#[tokio::test]
async fn connections_for_messages_of_a_hostile_server_become_rare() {
    let subscriptions = Arc::new(AtomicUsize::new(0));
    let counted = subscriptions.clone();
    let config = server(move |request| {
        if request.contains("SUBSCRIBE") {
            counted.fetch_add(1, Ordering::Relaxed);
            return b"$2000000000\r\n".to_vec();
        }
        b"+PONG\r\n".to_vec()
    })
    .await;
    let store = Store::connect(config);
    let _news = store.subscribe(&StoreKey::new("news", "a"));
    sleep(Duration::from_secs(4)).await;
    let count = subscriptions.load(Ordering::Relaxed);
    assert!((1..=8).contains(&count), "{count}");
    assert_eq!(store.health().state, StoreState::Connected);
}

#[tokio::test]
async fn connection_with_responses_to_other_operations_is_replaced() {
    let config = server(|_| b":1\r\n".to_vec()).await;
    let store = Store::connect(config);
    until(&store, |health| health.reconnects > 0).await;
    let error = store.health().last_error.unwrap();
    assert!(error.contains("belongs to another operation"), "{error}");
}

#[tokio::test]
async fn connections_of_a_server_that_refuses_each_operation_become_rare() {
    let config = server(|_| b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()).await;
    let store = Store::connect(config);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let _ = store.subtract(&StoreKey::new("counter", "a"), 1).await;
        sleep(Duration::from_millis(5)).await;
    }
    let reconnects = store.health().reconnects;
    assert!((1..=8).contains(&reconnects), "{reconnects}");
}

#[tokio::test]
async fn subscriber_keeps_no_huge_messages_of_other_programs() {
    let channel = "thruway:v1:news:a";
    let config = server(move |request| {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let push = |kind: &str, data: String| format!(">3\r\n{}{}{data}", bulk(kind), bulk(channel));
        if request.contains("SUBSCRIBE") {
            let huge = push("message", bulk(&"x".repeat((64 << 10) + 1)));
            let small = push("message", bulk("small"));
            return format!("{}{huge}{small}", push("subscribe", ":1\r\n".to_owned())).into_bytes();
        }
        b"+PONG\r\n".to_vec()
    })
    .await;
    let store = Store::connect(config);
    let mut news = store.subscribe(&StoreKey::new("news", "a"));
    let mut events = Vec::new();
    while events.len() < 3 {
        events.push(timeout(LIMIT, news.next()).await.unwrap().unwrap());
    }
    let gaps = events.iter().filter(|event| **event == SubscriptionEvent::Gap).count();
    let small = SubscriptionEvent::Message("small".into());
    assert!(gaps == 2 && events.contains(&small), "{gaps} gaps of {} events", events.len());
}

/// The response to `HELLO`.
const HELLO: &[u8] = b"%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n";

/// Timeout of operations, and time for a busy machine.
const BOUND: Duration = Duration::from_millis(250 + 2_000);

/// Maximum time of a step.
const LIMIT: Duration = Duration::from_secs(20);
