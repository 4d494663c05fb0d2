//! A gRPC server with our own engine. The handler supports the same calls as the other servers. The handler
//! frames messages, and sends the status of a call in trailers.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use anyhow::bail;
use bytes::Bytes;
use thruway_server::{
    BoxError, CertificateFiles, Content, ContentStream, FieldLinesBuf, Listener, OwnedRequest, Piece,
    RequestContent, Response, StatusCode, TlsAcceptor, TlsAcceptorConfig,
};

use crate::server::OwnServer;

/// Starts the server. Uses TLS if there are files with a certificate and its key.
pub(super) fn start(files: &[&Path]) -> anyhow::Result<OwnServer> {
    let mut listener = Listener::new("127.0.0.1:0".parse()?).http2();
    if let [chain, key] = *files {
        let files = CertificateFiles { chain: chain.to_owned(), key: key.to_owned(), ocsp: None };
        let alpn = vec![b"h2".to_vec()];
        let config = TlsAcceptorConfig { alpn, ..TlsAcceptorConfig::new(vec![files]) };
        let acceptor = TlsAcceptor::load(config).map_err(|error| anyhow::anyhow!("{error}"))?;
        listener = listener.tls(Arc::new(acceptor));
    }
    let cancelled = Arc::new(AtomicU64::new(0));
    let handler = move |request: OwnedRequest| answer(request, cancelled.clone());
    let server = thruway_server::Server::new(handler).workers(1).listen_on(listener).start()?;
    OwnServer::new(server, if files.is_empty() { "http" } else { "https" })
}

async fn answer(request: OwnedRequest, cancelled: Arc<AtomicU64>) -> Response {
    match call(request, &cancelled).await {
        Ok(response) => response,
        Err(error) => only_trailers(INTERNAL, &format!("{error:#}")),
    }
}

async fn call(mut request: OwnedRequest, cancelled: &AtomicU64) -> anyhow::Result<Response> {
    let method = request.path().strip_prefix("/test.Echo/").unwrap_or_default().to_owned();
    if method == "Both" {
        return Ok(grpc_response(Vec::new(), Some(request.take_content()), 0, ""));
    }
    let time_left = request.field("grpc-timeout").and_then(|value| milliseconds(value.as_str()?));
    let content =
        request.content().collect(CONTENT_BYTES).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    let messages = messages(&content)?;
    let message = messages.first().copied().unwrap_or_default();
    let one = |text: String| grpc_response(framed(text.as_bytes()), None, 0, "");
    Ok(match method.as_str() {
        "Unary" => unary(message),
        "Wait" => {
            let _count_on_drop = Cancelled(cancelled);
            std::future::pending().await
        }
        "Cancelled" => one(cancelled.load(Ordering::Relaxed).to_string()),
        "TimeLeft" => one(time_left.map_or_else(|| "none".to_owned(), |left| left.to_string())),
        "ClientStream" => one(messages.iter().map(|message| message.len()).sum::<usize>().to_string()),
        "ServerStream" => {
            let count: usize = std::str::from_utf8(message)?.parse()?;
            let all = (0..count).flat_map(|number| framed(number.to_string().repeat(1000).as_bytes()));
            grpc_response(all.collect(), None, 0, "")
        }
        _ => only_trailers(UNIMPLEMENTED, ""),
    })
}

fn unary(message: &[u8]) -> Response {
    let response = match message {
        b"refuse" => return only_trailers(PERMISSION_DENIED, "not %E2%98%83 for you: 100%25"),
        b"fail" => grpc_response(Vec::new(), None, NOT_FOUND, "it is not there"),
        message => grpc_response(framed(&[b"said ", message].concat()), None, 0, ""),
    };
    response.with_field("X-Initial", "1").with_field("X-Bytes-Bin", "AP8=")
}

/// Counts a call if the server drops its handler before the response.
struct Cancelled<'c>(&'c AtomicU64);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns a response without a body, with the status of the call in its header section.
fn only_trailers(status: u8, message: &str) -> Response {
    let response = Response::new(StatusCode::OK).with_field("Content-Type", "application/grpc");
    response.with_field("Grpc-Status", status.to_string()).with_field("Grpc-Message", message)
}

/// Returns a response that contains `messages`, then the messages of the client, and then the status of the
/// call.
fn grpc_response(messages: Vec<u8>, echo: Option<RequestContent>, status: u8, message: &str) -> Response {
    let mut trailers = FieldLinesBuf::new();
    for (name, value) in [
        ("Grpc-Status", status.to_string().as_str()),
        ("Grpc-Message", message),
        ("X-Trailing", "2"),
        ("X-Bytes-Bin", "/wA="),
    ] {
        // Appending cannot fail for these fields. The client would notice a missing field.
        let _appended = trailers.append(name, value);
    }
    let messages = Some(messages).filter(|messages| !messages.is_empty());
    let stream = GrpcBody { messages: messages.map(Bytes::from), echo, trailers: Some(trailers) };
    Response::new(StatusCode::OK)
        .with_field("Content-Type", "application/grpc")
        .with_content(Content::from_content_stream(stream))
}

struct GrpcBody {
    messages: Option<Bytes>,
    echo: Option<RequestContent>,
    trailers: Option<FieldLinesBuf>,
}

impl ContentStream for GrpcBody {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        if let Some(messages) = self.messages.take() {
            return Poll::Ready(Some(Ok(Piece::Data(messages))));
        }
        if let Some(echo) = &mut self.echo {
            match ready!(echo.poll_next(cx)) {
                Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Piece::Data(bytes)))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => self.echo = None,
            }
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Piece::Trailers(trailers))))
    }
}

/// Returns a message with its prefix: the flag for no compression, and the length.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), message].concat()
}

fn messages(mut bytes: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    let mut messages = Vec::new();
    while let [is_compressed, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let Some((message, rest)) = rest.split_at_checked(length).filter(|_| *is_compressed == 0) else {
            bail!("a message is incomplete or compressed")
        };
        messages.push(message);
        bytes = rest;
    }
    Ok(messages)
}

/// Parses a gRPC timeout: a number, and a letter for the unit.
fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "n" => Some(number / 1_000_000),
        "u" => Some(number / 1000),
        "m" => Some(number),
        "S" => Some(number * 1000),
        _ => None,
    }
}

const NOT_FOUND: u8 = 5;
const PERMISSION_DENIED: u8 = 7;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;

/// Maximum size of a request body. All calls of the clients have smaller bodies.
const CONTENT_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_timeouts_are_parsed() {
        let bytes = [framed(b"one"), framed(b""), framed(b"three")].concat();
        assert_eq!(messages(&bytes).unwrap(), [&b"one"[..], b"", b"three"]);
        assert!(messages(&bytes[..7]).is_err());
        let expected = [("10S", Some(10_000)), ("99999900u", Some(99_999)), ("10", None), ("", None)];
        assert_eq!(expected.map(|(text, _)| (text, milliseconds(text))), expected);
    }
}
