use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::*;

/// A server whose responses come from `answer`, by the number of earlier requests. It runs until the process
/// ends.
struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Server {
    fn start(answer: impl Fn(usize) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                let Ok(1..) = socket.read(&mut [0; 4096]) else { continue };
                let answer = answer(count.fetch_add(1, Ordering::SeqCst));
                // The client may have disconnected.
                let _ = socket.write_all(&answer);
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn ok(fields: &str, content: &str) -> Vec<u8> {
    let length = content.len();
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{content}")
        .into_bytes()
}

fn config(server: &Server) -> DocumentConfig {
    let refresh_interval_min = Duration::from_millis(20);
    DocumentConfig {
        refresh_interval: Duration::from_mins(10),
        refresh_interval_min,
        ..DocumentConfig::new(server.url.as_str()).unwrap()
    }
}

fn start(config: DocumentConfig) -> KeptDocument<String> {
    KeptDocument::start(config, |content| match std::str::from_utf8(content) {
        Ok(text) if !text.contains("broken") => Ok(text.to_owned()),
        _ => Err("the document is broken"),
    })
}

/// Waits until `is_done` returns `true`, with a generous limit.
fn until(message: &str, is_done: impl Fn() -> bool) {
    let end = Clock::system().now_exact() + Duration::from_secs(20);
    while !is_done() {
        assert!(Clock::system().now_exact() < end, "{message}");
        thread::yield_now();
    }
}

fn text(document: &KeptDocument<String>) -> Option<String> {
    document.read(String::clone)
}

/// Requests a fetch as soon as one is possible, and waits for it.
fn refresh(document: &KeptDocument<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    until("the document is never fetched again", || {
        document.refreshed().map(|refreshed| runtime.block_on(refreshed)).is_some()
    });
}

#[test]
fn document_is_kept_until_a_refresh() {
    let server = Server::start(|n| ok("", &format!("version {n}")));
    let document = start(config(&server));
    until("the document is never fetched", || text(&document).is_some());
    assert_eq!(text(&document).unwrap(), "version 0");
    refresh(&document);
    assert_eq!((text(&document).unwrap().as_str(), server.requests()), ("version 1", 2));
}

#[test]
fn document_is_not_refetched_within_the_minimum_interval() {
    let server = Server::start(|n| ok("", &format!("version {n}")));
    let document = start(DocumentConfig { refresh_interval_min: Duration::from_mins(10), ..config(&server) });
    until("the document is never fetched", || text(&document).is_some());
    until("the document can be fetched again at once", || document.refreshed().is_none());
    assert!((0..1000).all(|_| document.refreshed().is_none()));
    assert_eq!(server.requests(), 1);
}

#[test]
fn concurrent_refreshes_share_one_fetch() {
    let (release, gate) = channel();
    let server = Server::start(move |n| {
        if n == 1 {
            gate.recv().unwrap();
        }
        ok("", &format!("version {n}"))
    });
    let document = start(config(&server));
    until("the document is never fetched", || text(&document).is_some());
    // The server has the request and does not respond yet.
    until("the document is never fetched again", || document.refreshed().is_some() && server.requests() == 2);
    let missing: Vec<_> = (0..100).map(|_| document.refreshed().expect("a fetch is running")).collect();
    release.send(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for refreshed in missing {
        runtime.block_on(refreshed);
    }
    assert_eq!((text(&document).unwrap().as_str(), server.requests()), ("version 1", 2));
}

#[test]
fn max_age_sets_the_refresh_interval_within_limits() {
    // `max-age=0` does not disable the minimum interval, and `max-age=99999` does not exceed the maximum.
    let long = "Cache-Control: public, Max-Age=99999\r\n";
    for (fields, refresh_interval) in [
        ("Cache-Control: no-cache\r\n", 10 * 60),
        ("Cache-Control: max-age=60\r\nAge: 60\r\n", 10 * 60),
        (long, 0),
    ] {
        let server = Server::start(move |n| ok(fields, &format!("version {n}")));
        let document = start(DocumentConfig {
            refresh_interval: Duration::from_secs(refresh_interval),
            ..config(&server)
        });
        until("the document is never refreshed", || text(&document).as_deref() == Some("version 3"));
    }
    let server = Server::start(move |_| ok(long, "kept"));
    let document = start(config(&server));
    until("the document is never fetched", || text(&document).is_some());
    until("the document is never fetched again", || document.refreshed().is_some());
}

#[test]
fn failed_fetches_keep_the_previous_document() {
    let answers = |n: usize| match n {
        0 => ok("", "good"),
        1 => ok("", "broken"),
        2 => b"HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 6\r\n\r\nbroken".to_vec(),
        3 => b"HTTP/1.1 302 Found\r\nLocation: /other\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            .to_vec(),
        4 => b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\ncut off".to_vec(),
        5 => b"nonsense\r\n\r\n".to_vec(),
        6 => ok("", &"too large".repeat(1000)),
        7 => [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            b"8\r\ntoo long\r\n".repeat(1000),
        ]
        .concat(),
        8 => Vec::new(),
        _ => ok("", "good again"),
    };
    let server = Server::start(answers);
    let document = start(DocumentConfig { bytes_max: 1000, ..config(&server) });
    until("the document is never fetched", || text(&document).is_some());
    until("the fetches stop", || {
        let text = text(&document).unwrap();
        assert!(["good", "good again"].contains(&text.as_str()), "{text}");
        document.refreshed();
        text == "good again"
    });
    assert!(server.requests() >= 10);
}

#[test]
fn fetch_from_a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let fetch_timeout = Duration::from_millis(50);
    let document = start(DocumentConfig { fetch_timeout, ..DocumentConfig::new(url).unwrap() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The fetch is still running, or has ended.
    if let Some(refreshed) = document.refreshed() {
        runtime.block_on(refreshed);
    }
    assert!(document.refreshed().is_none() && text(&document).is_none());
}

#[test]
fn dropped_document_is_not_fetched_again() {
    let server = Server::start(|_| ok("Cache-Control: no-store\r\n", "x"));
    let held = Arc::new(());
    let holding = held.clone();
    let document = KeptDocument::start(config(&server), move |content| {
        assert!(Arc::strong_count(&holding) > 1);
        Ok::<_, fmt::Error>(content.len())
    });
    let other = document.clone();
    drop(document);
    until("the document is not fetched", || server.requests() > 2);
    let refreshed = other.refreshed();
    drop(other);
    until("the thread does not end", || Arc::strong_count(&held) == 1);
    if let Some(refreshed) = refreshed {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(refreshed);
    }
}

#[test]
fn initial_document_is_used_until_the_first_fetch() {
    let (release, gate) = channel();
    let server = Server::start(move |_| {
        gate.recv().unwrap();
        ok("", "fetched")
    });
    let read = |content: &[u8]| Ok::<_, fmt::Error>(content.len().to_string());
    let known = Fetched { value: "known".to_owned(), at: Clock::system().now() };
    let known = FetchedDocument(Arc::new(known));
    let document = KeptDocument::start_with(config(&server), Some(known), read);
    assert_eq!(text(&document).unwrap(), "known");
    release.send(()).unwrap();
    until("the document is not fetched", || text(&document).unwrap() == "7");
}

/// A document once stayed in use for as long as fetches failed. An unreachable server could then withdraw
/// nothing.
#[test]
fn document_that_cannot_be_refetched_expires_at_its_maximum_age() {
    let answers = |n: usize| match n {
        0 => ok("", "good"),
        _ => b"HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
    };
    let server = Server::start(answers);
    let age_max = Duration::from_hours(1);
    let document = start(DocumentConfig { age_max, ..config(&server) });
    until("the document is never fetched", || text(&document).is_some());
    refresh(&document);
    assert_eq!((text(&document).as_deref(), server.requests()), (Some("good"), 2));
    let fetched_at = document.fetched().unwrap().0.at;
    let ns = Duration::from_nanos(1);
    let text_at = |now| document.shared.read_at(now, String::clone);
    assert_eq!(text_at(fetched_at + age_max.saturating_sub(ns)).as_deref(), Some("good"));
    assert_eq!(text_at(fetched_at + age_max), None);
}

/// Without its age, a document would count as new after each change of the config.
#[test]
fn document_passed_to_a_new_config_keeps_its_age() {
    let server = Server::start(|_| Vec::new());
    let read = |_: &[u8]| Err("the server has no document");
    let now = Clock::system().now();
    let known = FetchedDocument(Arc::new(Fetched { value: "old".to_owned(), at: now }));
    let first = KeptDocument::start_with(config(&server), Some(known), read);
    let age_max = Duration::from_hours(1);
    let second =
        KeptDocument::start_with(DocumentConfig { age_max, ..config(&server) }, first.fetched(), read);
    assert_eq!(
        first.shared.read_at(now + age_max, String::clone).as_deref(),
        Some("old"),
        "the default is longer"
    );
    assert_eq!(second.shared.read_at(now + age_max / 2, String::clone).as_deref(), Some("old"));
    assert_eq!(second.shared.read_at(now + age_max, String::clone), None);
    assert_eq!(second.fetched().unwrap().0.at, now);
}

/// A caller once waited forever.
#[test]
fn callers_do_not_wait_if_the_fetch_thread_cannot_start() {
    let server = Server::start(|_| ok("", "x"));
    let read = |_: &[u8]| Ok::<_, fmt::Error>(String::new());
    let document =
        KeptDocument::begin(config(&server), None, read, |_| Err(io::ErrorKind::WouldBlock.into()));
    assert!(document.refreshed().is_none() && text(&document).is_none());
    assert_eq!(server.requests(), 0);
}

/// The same test for a failure to create the runtime, when descriptors were used up.
#[test]
fn callers_do_not_wait_if_the_runtime_cannot_be_created() {
    let (stage, _) = watch::channel(Stage { state: State::Fetching, fetches: 0 });
    let document = {
        let fetched = ArcSwapOption::<Fetched<()>>::empty();
        KeptDocument { shared: Arc::new(Shared { fetched, age_max: Duration::MAX, stage }) }
    };
    let waiting = document.refreshed().expect("a fetch is running");
    let shared = Arc::downgrade(&document.shared);
    let mut attempts = 0;
    let build = || {
        attempts += 1;
        match attempts {
            1 => Err(io::ErrorKind::OutOfMemory.into()),
            _ => tokio::runtime::Builder::new_current_thread().build(),
        }
    };
    // Only the failure has woken the waiting task.
    runtime(&shared, Duration::ZERO, build).unwrap().block_on(waiting);
    assert_eq!(document.shared.stage.borrow().fetches, 1);
    drop(document);
    assert!(runtime(&shared, Duration::ZERO, || Err(io::ErrorKind::OutOfMemory.into())).is_none());
}

#[test]
fn document_url_must_use_https_or_loopback() {
    for url in ["https://a.example/keys", "http://localhost/", "http://127.0.0.1:1/", "http://[::1]/"] {
        assert!(DocumentConfig::new(url).is_ok(), "{url}");
    }
    assert_eq!(DocumentConfig::new("http://a.example/"), Err(InvalidDocumentUrl::NotSecured));
    assert_eq!(DocumentConfig::new("http://127.0.0.1.a.example/"), Err(InvalidDocumentUrl::NotSecured));
    for url in ["", "a.example", "ftp://a.example/", "https:///keys", "file:///etc/passwd"] {
        assert_eq!(DocumentConfig::new(url), Err(InvalidDocumentUrl::Syntax), "{url}");
    }
}
