//! The client for tests of services.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thruway_http1::Limits;
use thruway_message::Method;
use thruway_net::Clock;
use thruway_server::extractors::{Form, Path, Query};
use thruway_server::layers::{RequestId, Timeout, from_sync_fn};
use thruway_server::testing::{TestClient, TestError};
use thruway_server::{
    Answer, BoxError, Config, Content, ContentStream, Event, Json, OwnedRequest, Piece, Request, Response,
    Router, StatusCode, send_interim,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

#[derive(Deserialize, Serialize, PartialEq, Debug)]
struct User {
    name: String,
}

#[derive(Deserialize)]
struct Page {
    page: u32,
    sort: Option<String>,
}

fn api() -> Router {
    Router::new()
        .get("/users/{id}", |Path(id): Path<u32>, Query(page): Query<Page>| {
            format!("user {id}, page {}, sorted by {:?}\n", page.page, page.sort)
        })
        .post("/users", |Json(user): Json<User>| (StatusCode::CREATED, Json(user)))
        .post("/form", |Form(user): Form<User>| user.name)
        .put("/echo", |request: OwnedRequest| {
            let mut request = request;
            async move { Response::text(request.take_content()) }
        })
}

async fn collect(mut request: OwnedRequest) -> Result<Response, thruway_server::Rejection> {
    let content = request.content().collect(1 << 20).await?;
    Ok(Response::text(content.len().to_string()))
}

#[tokio::test]
async fn extractors_and_routes_work_as_on_a_port() {
    let client = TestClient::new(api());
    let response = client.get("/users/7?page=2").query(&[("sort", "by name")]).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.header("Content-Length"), Some("42"));
    assert_eq!(response.text().await.unwrap(), "user 7, page 2, sorted by Some(\"by name\")\n");

    for (path, status) in [("/users/x?page=1", 400), ("/users/7", 400), ("/other", 404), ("/users/7/", 404)] {
        assert_eq!(client.get(path).send().await.unwrap().status().as_u16(), status, "{path}");
    }
    let response = client.delete("/users").send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.header("Allow")), (405, Some("POST, OPTIONS")));

    let response = client.head("/users/7?page=1").send().await.unwrap();
    assert_eq!(response.header("Content-Length"), Some("31"));
    assert_eq!(response.bytes().await.unwrap(), "");
}

#[tokio::test]
async fn json_and_forms_are_sent_with_their_content_type() {
    let client = TestClient::new(api());
    let ada = User { name: "Ada".to_owned() };
    let response = client.post("/users").json(&ada).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    assert_eq!(response.json::<User>().await.unwrap(), ada);
    assert_eq!(client.post("/form").form(&ada).send().await.unwrap().text().await.unwrap(), "Ada");

    let other = client.post("/users").header("Content-Type", "text/json").json(&ada);
    assert_eq!(other.send().await.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let missing = client.post("/users").json(&json!({ "age": 36 })).send().await.unwrap();
    assert_eq!(missing.status(), StatusCode::UNPROCESSABLE_CONTENT);
    let error = missing.json::<User>().await.unwrap_err().to_string();
    assert!(error.starts_with("unexpected body: ") && error.contains("status 422, body `"), "{error}");
}

#[tokio::test]
async fn limits_and_header_checks_apply() {
    let limits = Limits { content_bytes: 10, header_section_bytes: 1000, ..Limits::default() };
    let client = TestClient::with_config(api(), Config { limits, ..Config::default() });
    let response = client.put("/echo").body("eleven bytes").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CONTENT_TOO_LARGE);
    assert_eq!(
        client.put("/echo").body("ten bytes.").send().await.unwrap().text().await.unwrap(),
        "ten bytes."
    );
    let response = client.get("/").header("X-Long", "x".repeat(1000)).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let response = client.get("/users/1?page=1").header("Host", "a b").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn handler_sees_layers_host_and_client_address() {
    let router = Router::new().get("/", |request: &Request| {
        format!("{} {} {}", request.host(), request.client(), request.field("X-Tag").is_some())
    });
    let guard = from_sync_fn(|request, next| match request.field("X-Tag") {
        Some(tag) if tag == "no" => Answer::Now(Response::new(StatusCode::FORBIDDEN)),
        _ => next.handle(request),
    });
    let client = TestClient::new(router.layer(guard).layer(RequestId::default()));
    let response = client.get("/").send().await.unwrap();
    assert!(response.header("X-Request-Id").is_some());
    assert_eq!(response.text().await.unwrap(), "localhost 127.0.0.1:49152 false");
    let address = "[2001:db8::1]:7".parse().unwrap();
    let request = client.get("/").header("Host", "a.example").header("X-Tag", "yes").client_address(address);
    assert_eq!(request.send().await.unwrap().text().await.unwrap(), "a.example [2001:db8::1]:7 true");
    let response = client.get("/").header("x-tag", "no").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn streamed_request_body_continues_while_the_response_is_read() {
    let client = TestClient::new(api());
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let pieces = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    sender.send("first ").unwrap();
    let mut response = client.put("/echo").stream(pieces).send().await.unwrap();
    assert_eq!(response.header("Transfer-Encoding"), Some("chunked"));
    assert_eq!(response.chunk().await.unwrap().unwrap(), "first ");
    sender.send("").unwrap();
    sender.send("second").unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "second");
    drop(sender);
    assert_eq!(response.chunk().await.unwrap(), None);
    assert_eq!(response.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let client = TestClient::new(api());
    let body: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let response = client.put("/echo").body(body.clone()).send().await.unwrap();
    assert_eq!(response.bytes().await.unwrap(), body);
    let pieces = stream::iter(vec![body.clone(), body.clone()]);
    let response = client.put("/echo").stream(pieces).send().await.unwrap();
    assert_eq!(response.bytes().await.unwrap(), body.repeat(2));
}

#[tokio::test]
async fn early_response_ends_the_rest_of_the_request() {
    let limits = Limits { content_bytes: 1000, ..Limits::default() };
    let client = TestClient::with_config(api(), Config { limits, ..Config::default() });
    let pieces = stream::iter(std::iter::repeat_n("x".repeat(10_000), 1000));
    let response = client.post("/users").header("Content-Type", "application/json").stream(pieces);
    assert_eq!(response.send().await.unwrap().status(), StatusCode::CONTENT_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn server_sent_events_arrive_one_by_one() {
    let router = Router::new().get("/", || {
        Response::finite_events(Duration::from_secs(15), async |mut sender| {
            sender.send(Event::data("a\nb").with_type("tick").with_id("1")).await;
            sleep(Duration::from_secs(20)).await;
            sender.send(Event::data("c").with_retry(Duration::from_millis(250))).await;
            Ok(())
        })
    });
    let client = TestClient::new(router);
    let start = Instant::now();
    let mut response = client.get("/").send().await.unwrap();
    assert_eq!(response.header("Content-Type"), Some("text/event-stream"));
    let event = response.event().await.unwrap().unwrap();
    assert_eq!((&*event.event, &*event.data, &*event.id, event.retry), ("tick", "a\nb", "1", None));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let event = response.event().await.unwrap().unwrap();
    let retry = Some(Duration::from_millis(250));
    assert_eq!((&*event.event, &*event.data, &*event.id, event.retry), ("", "c", "1", retry));
    assert!(start.elapsed() >= Duration::from_secs(20));
    assert_eq!(response.event().await.unwrap(), None);

    let mut response = client.get("/").send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: a\ndata: b\nevent: tick\nid: 1\n\n");
    assert_eq!(response.chunk().await.unwrap().unwrap(), ":\n\n", "the keep-alive comment");
}

#[tokio::test(start_paused = true)]
async fn timeout_layer_answers_without_real_time() {
    let router = Router::new().get("/", async || std::future::pending::<&'static str>().await);
    let client = TestClient::new(router.layer(Timeout::new(Duration::from_secs(30))));
    let (real, start) = (Clock::system(), Instant::now());
    let began = real.now_exact();
    let response = client.get("/").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert!(real.now_exact().saturating_sub(began) < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn timeouts_of_connections_pass_in_virtual_time() {
    let client = TestClient::new(Router::new().get("/", || "ok").post("/", collect));
    let start = Instant::now();
    let mut connection = client.connect();
    connection.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    let waited = start.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(13)).contains(&waited), "{waited:?}");

    let start = Instant::now();
    let mut idle = client.connect();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    assert!(start.elapsed() >= Duration::from_mins(1), "{:?}", start.elapsed());

    let stalled = client.post("/").stream(stream::iter(["x"]).chain(stream::pending()));
    assert_eq!(stalled.send().await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn clock_of_the_worker_follows_advanced_time() {
    let router = Router::new()
        .get("/", |request: &Request| request.worker().clock().now_exact().as_secs().to_string());
    let client = TestClient::new(router);
    assert_eq!(client.get("/").send().await.unwrap().text().await.unwrap(), "0");
    tokio::time::advance(Duration::from_secs(90)).await;
    let response = client.get("/").send().await.unwrap();
    let date = response.header("Date").unwrap().to_owned();
    assert!(!date.contains(" 1970 "), "{date}");
    assert_eq!(response.text().await.unwrap(), "90");
}

#[tokio::test]
async fn panic_of_the_handler_is_the_error() {
    let router = Router::new()
        .get("/sync", || -> &'static str { panic!("sync {}", 1) })
        .get("/async", async || -> &'static str {
            tokio::task::yield_now().await;
            panic!("async")
        })
        .get("/body", || {
            Response::text(Content::stream(stream::poll_fn(|_| -> Poll<Option<Result<Bytes, Infallible>>> {
                panic!("body")
            })))
        })
        .get("/500", || StatusCode::INTERNAL_SERVER_ERROR);
    let client = TestClient::new(router);
    let error = client.get("/sync").send().await.unwrap_err();
    assert_eq!(error, TestError::Panicked("sync 1".to_owned()));
    assert_eq!(format!("{error:?}"), "the handler panicked: sync 1");
    assert_eq!(client.get("/async").send().await.unwrap_err(), TestError::Panicked("async".to_owned()));
    let response = client.get("/body").send().await.unwrap();
    assert_eq!(response.text().await.unwrap_err(), TestError::Panicked("body".to_owned()));
    assert_eq!(client.get("/500").send().await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
}

/// A body that has less bytes than it announces.
struct TooShort(bool);

impl ContentStream for TooShort {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let is_first = !std::mem::replace(&mut self.0, true);
        Poll::Ready(is_first.then(|| Ok(Piece::Data(Bytes::from_static(b"abc")))))
    }

    fn length(&self) -> Option<u64> {
        Some(10)
    }
}

#[tokio::test]
async fn broken_responses_give_clear_errors() {
    let router = Router::new()
        .get("/failed", || {
            let pieces = [Ok(Bytes::from_static(b"part")), Err("the disk failed")];
            Response::text(Content::stream(stream::iter(pieces)))
        })
        .get("/short", || Response::text(Content::from_content_stream(TooShort(false))))
        .get("/binary", || Response::text(vec![0xff]));
    let client = TestClient::new(router);
    let error = client.get("/failed").send().await.unwrap().text().await.unwrap_err();
    assert_eq!(error.to_string(), "the body of the response failed: the disk failed");
    let mut response = client.get("/failed").send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "part");
    assert!(matches!(response.chunk().await, Err(TestError::BodyFailed(_))));
    let error = client.get("/short").send().await.unwrap().bytes().await.unwrap_err();
    assert_eq!(error, TestError::Closed);
    let error = client.get("/binary").send().await.unwrap().text().await.unwrap_err();
    assert!(error.to_string().starts_with("unexpected body: not UTF-8"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn missing_response_gives_an_error_after_the_timeout() {
    let router = Router::new()
        .get("/", async || std::future::pending::<&'static str>().await)
        .get("/body", || Response::text(Content::stream(stream::pending::<Result<Bytes, Infallible>>())));
    let client = TestClient::new(router);
    let start = Instant::now();
    assert_eq!(client.get("/").send().await.unwrap_err(), TestError::TimedOut(Duration::from_mins(1)));
    assert_eq!(start.elapsed(), Duration::from_mins(1));
    let request = client.get("/body").timeout(Duration::from_secs(5));
    let error = request.send().await.unwrap().text().await.unwrap_err();
    let expected = "the server sent nothing for 5s; `TestRequest::timeout` changes this time";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn invalid_requests_are_not_sent() {
    let client = TestClient::new(Router::new());
    for (request, reason) in [
        (client.get("no-slash"), "`no-slash`: "),
        (client.get("/a b"), "`/a b`: "),
        (client.get("/").header("a b", ""), "invalid header `a b`: "),
        (client.get("/").header("X", "a\r\nb"), "invalid header `X`: "),
        (
            client.get("/").header("content-length", "1"),
            "the client writes the header `content-length` itself",
        ),
        (client.get("/").query("text"), "invalid query: "),
        (client.post("/").form(&[[1]]), "invalid form: "),
        (client.request(Method::Other("A B"), "/"), "`/`: "),
    ] {
        let error = request.send().await.unwrap_err().to_string();
        let expected = format!("cannot send the request: {reason}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[tokio::test]
async fn tasks_of_handlers_run_while_the_client_is_used() {
    let router = Router::new().post("/jobs", async || {
        let (sender, receiver) = oneshot::channel();
        drop(spawn_local(async move {
            tokio::task::yield_now().await;
            sender.send("done").unwrap();
        }));
        receiver.await.unwrap()
    });
    let client = TestClient::new(router);
    assert_eq!(client.post("/jobs").send().await.unwrap().text().await.unwrap(), "done");

    let (sender, receiver) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let client = TestClient::new(move || {
        let sender = sender.lock().unwrap().take().unwrap();
        drop(spawn_local(async move { sender.send("later").unwrap() }));
        "started"
    });
    assert_eq!(client.get("/").send().await.unwrap().text().await.unwrap(), "started");
    assert_eq!(client.run_until(receiver).await.unwrap(), "later");
}

#[tokio::test]
async fn requests_run_at_the_same_time() {
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(2));
    let client = TestClient::new(Router::new().get("/", move || {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            "both are here"
        }
    }));
    let (first, second) = tokio::join!(client.get("/").send(), client.get("/").send());
    assert_eq!(first.unwrap().text().await.unwrap(), "both are here");
    assert_eq!(second.unwrap().text().await.unwrap(), "both are here");
}

/// A task that waits for a response must continue after the task that has last run the server has ended.
#[tokio::test]
async fn tasks_that_share_a_client_wake_each_other() {
    let notify = std::sync::Arc::new(Notify::new());
    let waiting = notify.clone();
    let fast = async || {
        // The task of this request runs the server last, after the other task has started to wait.
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        "fast"
    };
    let router = Router::new().get("/fast", fast).get("/slow", move || {
        let waiting = waiting.clone();
        async move {
            waiting.notified().await;
            "slow"
        }
    });
    let client = Rc::new(TestClient::new(router));
    let tasks = LocalSet::new();
    let done = Rc::new(Cell::new(0));
    for path in ["/slow", "/fast"] {
        let (client, done) = (client.clone(), done.clone());
        tasks.spawn_local(async move {
            client.get(path).send().await.unwrap();
            done.set(done.get() + 1);
        });
    }
    let fast_is_done = std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if done.get() == 1 { Poll::Ready(()) } else { Poll::Pending }
    });
    tasks.run_until(fast_is_done).await;
    notify.notify_one();
    tokio::time::timeout(Duration::from_secs(10), tasks).await.unwrap();
    assert_eq!(done.get(), 2);
}

#[tokio::test]
async fn handlers_can_wait_for_other_threads() {
    let client = TestClient::new(
        Router::new().get("/", async || tokio::task::spawn_blocking(|| "blocking").await.unwrap()),
    );
    assert_eq!(client.get("/").send().await.unwrap().text().await.unwrap(), "blocking");
}

#[test]
fn client_can_be_created_before_its_runtime() {
    let client = TestClient::new(|| "hello");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let text = runtime.block_on(async { client.get("/").send().await?.text().await });
    assert_eq!(text.unwrap(), "hello");
}

#[tokio::test]
async fn interim_responses_trailers_and_upgrades_arrive() {
    let router = Router::new()
        .get("/hints", async || {
            let hints = Response::new(StatusCode::EARLY_HINTS);
            send_interim(&hints.with_field("Link", "</a.css>; rel=preload"));
            tokio::task::yield_now().await;
            "page"
        })
        .get("/up", || {
            Response::upgrade("echo", async |mut tunnel: thruway_server::Tunnel| {
                let mut byte = [0];
                while tunnel.read_exact(&mut byte).await.is_ok() {
                    tunnel.write_all(&byte).await.unwrap();
                }
            })
        });
    let client = TestClient::new(router);
    let response = client.get("/hints").send().await.unwrap();
    let interim: Vec<_> = response.interim().collect();
    assert_eq!(interim[0].0, StatusCode::EARLY_HINTS);
    assert_eq!(interim[0].1.field("Link").unwrap(), "</a.css>; rel=preload");
    assert_eq!(response.text().await.unwrap(), "page");

    let request = client.get("/up").header("Connection", "upgrade").header("Upgrade", "echo");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut connection = response.into_connection().unwrap();
    connection.write_all(b"hi").await.unwrap();
    let mut echo = [0; 2];
    connection.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"hi");
    let response = client.get("/hints").send().await.unwrap();
    assert_eq!(response.into_connection().unwrap_err().status(), StatusCode::OK);
}
