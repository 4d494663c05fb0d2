//! Collectors of OTLP over gRPC, and collectors with TLS.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};

use thruway_daemon::Daemon;
use thruway_server::{
    BoxError, Content, ContentStream, FieldLinesBuf, Listener, OwnedRequest, Piece, Response, RunningServer,
    Server, StatusCode, TlsAcceptor, TlsAcceptorConfig,
};
use thruway_testkit::CertificateAuthority;
use thruway_testkit::otlp::decode_request;

use crate::client::{TIMEOUT, address_of, end, file_answering, get};
use crate::tracing::wait_for_count;

/// A collector that sends the paths and the bodies of its requests to a channel.
struct Collector {
    server: RunningServer,
    requests: Receiver<(String, Vec<u8>)>,
}

/// The trailers of a response to a gRPC call. An empty list belongs to a response without gRPC.
type Trailers = &'static [(&'static str, &'static str)];

const DONE: Trailers = &[("grpc-status", "0")];

impl Collector {
    /// Starts a collector that responds with `responses` in their order, and repeats the last one.
    fn start(authority: Option<&CertificateAuthority>, responses: &'static [Trailers]) -> Self {
        let mut listener = Listener::new("127.0.0.1:0".parse().unwrap()).http2();
        if let Some(authority) = authority {
            let files = authority.issue("collector", &["127.0.0.1"]);
            let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let config = TlsAcceptorConfig { alpn, ..TlsAcceptorConfig::new(vec![files]) };
            listener = listener.tls(Arc::new(TlsAcceptor::load(config).unwrap()));
        }
        let (sender, requests) = channel();
        let responded = Arc::new(AtomicUsize::new(0));
        let handler = move |mut request: OwnedRequest| {
            let (sender, responded) = (sender.clone(), responded.clone());
            async move {
                let body = request.content().collect(1 << 20).await.unwrap();
                let _ = sender.send((request.path().to_owned(), body.to_vec()));
                let number = responded.fetch_add(1, Ordering::Relaxed).min(responses.len() - 1);
                response(responses[number])
            }
        };
        let server = Server::new(handler).workers(1).listen_on(listener).start().unwrap();
        Self { server, requests }
    }

    /// Starts a daemon that exports to this collector, and sends a request to it.
    fn traced(&self, scheme: &str, roots: Option<&Path>) -> Daemon {
        let roots = roots.map(|roots| format!("roots = [\"{}\"]\n", roots.display())).unwrap_or_default();
        let telemetry = format!("[telemetry]\notlp = \"{scheme}://{}\"\n{roots}", self.server.addresses()[0]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), file_answering("fixed", &telemetry)).unwrap();
        let daemon = Daemon::from_file(file.path()).unwrap();
        assert_eq!(get(&address_of(&daemon), "/").1, "fixed");
        daemon
    }

    /// Returns the path of the next request, and the names of the spans in its body.
    fn receive(&self) -> (String, Vec<String>) {
        let (path, body) = self.requests.recv_timeout(TIMEOUT).unwrap();
        let message = if path == GRPC_PATH { &body[5..] } else { &body };
        (path, decode_request(message).1.into_iter().map(|span| span.name).collect())
    }

    fn end(self, daemon: Daemon) {
        end(daemon);
        self.server.drain();
        self.server.join();
    }
}

fn response(trailers: Trailers) -> Response {
    if trailers.is_empty() {
        return Response::new(StatusCode::OK);
    }
    let mut lines = FieldLinesBuf::new();
    for (name, value) in trailers {
        lines.append(name, *value).unwrap();
    }
    Response::new(StatusCode::OK)
        .with_field("Content-Type", "application/grpc")
        .with_content(Content::from_content_stream(OnlyTrailers(Some(lines))))
}

/// A body without bytes and with trailers.
struct OnlyTrailers(Option<FieldLinesBuf>);

impl ContentStream for OnlyTrailers {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        Poll::Ready(self.0.take().map(|trailers| Ok(Piece::Trailers(trailers))))
    }
}

const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

#[test]
fn collectors_get_spans_over_grpc_and_over_tls() {
    let authority = CertificateAuthority::new();
    for (scheme, is_secured, path, responses) in [
        ("grpc", false, GRPC_PATH, &[DONE]),
        ("grpcs", true, GRPC_PATH, &[DONE]),
        ("https", true, "/v1/traces", &[&[] as Trailers]),
    ] {
        let collector = Collector::start(is_secured.then_some(&authority), responses);
        let root = authority.root();
        let daemon = collector.traced(scheme, is_secured.then_some(&root));
        assert_eq!(collector.receive(), (path.to_owned(), vec!["GET / and below".to_owned()]), "{scheme}");
        wait_for_count(&daemon, "thruway_spans_exported_total", 1);
        collector.end(daemon);
    }
}

#[test]
fn collector_with_an_unknown_certificate_gets_no_spans() {
    let (trusted, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    for scheme in ["https", "grpcs"] {
        let collector = Collector::start(Some(&other), &[DONE]);
        let daemon = collector.traced(scheme, Some(&trusted.root()));
        // At its end, the daemon tries to export the spans once more.
        end(daemon);
        collector.server.drain();
        collector.server.join();
        assert!(collector.requests.try_recv().is_err(), "{scheme}");
    }
}

/// A `google.rpc.Status` with the code 8 and a `google.rpc.RetryInfo` of one millisecond.
const RETRY_INFO: &str = "CAgaMgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIGCgQQwIQ9";

#[test]
fn full_grpc_collector_gets_the_batch_again_only_with_retry_info() {
    static WITH: [Trailers; 2] = [&[("grpc-status", "8"), ("grpc-status-details-bin", RETRY_INFO)], DONE];
    static WITHOUT: [Trailers; 2] = [&[("grpc-status", "8")], DONE];
    let collector = Collector::start(None, &WITH);
    let daemon = collector.traced("grpc", None);
    assert_eq!(collector.receive(), collector.receive());
    wait_for_count(&daemon, "thruway_spans_exported_total", 1);
    collector.end(daemon);

    let collector = Collector::start(None, &WITHOUT);
    let daemon = collector.traced("grpc", None);
    collector.receive();
    wait_for_count(&daemon, "thruway_spans_failed_total", 1);
    assert_eq!(get(&address_of(&daemon), "/").1, "fixed");
    collector.receive();
    wait_for_count(&daemon, "thruway_spans_exported_total", 1);
    collector.end(daemon);
}
