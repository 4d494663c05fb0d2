//! Tests with collectors that are killed, slow, absent or full. The clock of the requests stands still, so a request
//! that waited would get no response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use thruway_telemetry::{ExportCounts, SpanQueue};
use thruway_testkit::test_server::TestServer;

use super::LiveTelemetry;
use crate::config::Config;

/// A fault of a collector.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No process listens.
    Absent,
    /// The process ends while it reads the first batches.
    Killed,
    /// The process never responds.
    Slow,
    /// The process asks for a retry in 30 seconds.
    Full,
    /// The process accepts each batch, but the body of its response never ends.
    EndlessBody,
}

impl Fault {
    /// Starts a collector with this fault.
    fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || match self {
            Self::Absent => drop(listener),
            Self::Killed => {
                for stream in listener.incoming().take(2) {
                    let _ = stream.unwrap().read(&mut [0; 1000]);
                }
            }
            Self::Slow => {
                let streams: Vec<_> = listener.incoming().collect();
                drop(streams);
            }
            Self::Full => respond_to_all(&listener, FULL),
            Self::EndlessBody => respond_to_all(&listener, ENDLESS),
        });
        address
    }
}

/// Sends `response` after each read.
fn respond_to_all(listener: &TcpListener, response: &'static [u8]) {
    for stream in listener.incoming() {
        thread::spawn(move || {
            let mut stream = stream.unwrap();
            while stream.read(&mut [0; 1 << 12]).is_ok_and(|read| read > 0) {
                let _ = stream.write_all(response);
            }
        });
    }
}

const FULL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n";

const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n";

/// Sends requests while the exporter uses a collector with this fault. Returns the counts of their spans.
fn counts_with(scheme: &str, fault: Fault, requests: u64) -> ExportCounts {
    let text = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nrespond.body = \"\"\n\
         [telemetry]\notlp = \"{scheme}://{}\"\n",
        fault.start()
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let config = Config::read(file.path()).unwrap();
    let live = LiveTelemetry::default();
    let tracer = live.replace(&config).unwrap().unwrap();
    let server = TestServer::traced(|| "hello", &tracer);
    let mut client = server.connect();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: {}\r\n\r\n", "x".repeat(1000));
    for number in 0..requests {
        client.send(&request);
        assert!(client.received().ends_with("hello"), "{scheme} {fault:?} {number}");
        let bytes = tracer.queue().bytes();
        assert!(bytes <= SpanQueue::BYTES_MAX + SPAN_BYTES_MAX, "{scheme} {fault:?} {number}: {bytes}");
    }
    let queue = Arc::clone(tracer.queue());
    live.finish();
    assert_eq!(queue.bytes(), 0, "{scheme} {fault:?}");
    queue.counts()
}

/// More spans than the queue can contain.
const REQUESTS: u64 = 9000;

const SPAN_BYTES_MAX: usize = 2000;

#[test]
fn requests_do_not_wait_for_a_faulty_collector_and_all_spans_are_counted() {
    thread::scope(|scope| {
        for scheme in ["http", "grpc"] {
            for fault in [Fault::Absent, Fault::Killed, Fault::Slow, Fault::Full] {
                scope.spawn(move || {
                    let counts = counts_with(scheme, fault, REQUESTS);
                    let ExportCounts { exported, dropped, failed } = counts;
                    assert!(dropped > 0 && failed > 0, "{scheme} {fault:?} {counts:?}");
                    assert_eq!((exported, dropped + failed), (0, REQUESTS), "{scheme} {fault:?}");
                });
            }
        }
    });
}

#[test]
fn accepted_batch_is_not_sent_again_if_the_body_of_the_response_never_ends() {
    let counts = counts_with("http", Fault::EndlessBody, 3);
    assert_eq!(counts, ExportCounts { exported: 3, ..ExportCounts::default() });
}
