//! The bodies of responses to relayed calls. The gateway reads them, and signs the `requestState` in them.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use thruway_mcp_sdk::{RelayedCall, RelayedResponse};
use thruway_server::{AtDrain, BoxError, Content, ContentStream, Piece, Response};

/// Returns `response` with the body for the client, and shows the gateway the outcome of `call`.
pub(super) fn observed(mut response: Response, call: RelayedCall) -> Response {
    let is_event_stream = has_media_type(&response, b"text/event-stream");
    let changed = match response.content().as_bytes() {
        None => {
            let observer = call.into_response(is_event_stream);
            let content = match response.take_body().into_stream() {
                Ok(stream) => Content::from_content_stream(ObservedBody { stream, observer }),
                Err(content) => content,
            };
            return response.with_content(content);
        }
        Some(bytes) if is_event_stream => {
            let mut observer = call.into_response(true);
            let for_client = changed(observer.read(bytes));
            observer.end();
            for_client
        }
        Some(bytes) => call.finish(bytes),
    };
    match changed {
        Some(changed) => response.with_content(changed),
        None => response,
    }
}

/// Reads the body of an error response. Returns no bytes if the body is incomplete or longer than
/// [`ERROR_BYTES_MAX`].
pub(super) async fn first_bytes(body: Content) -> Vec<u8> {
    let mut stream = match body.into_stream() {
        Ok(stream) => stream,
        Err(whole) => {
            let bytes = whole.as_bytes().filter(|bytes| bytes.len() <= ERROR_BYTES_MAX);
            return bytes.unwrap_or_default().to_vec();
        }
    };
    let mut bytes = Vec::new();
    while let Some(piece) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        match piece {
            Ok(Piece::Data(data)) if bytes.len() + data.len() <= ERROR_BYTES_MAX => {
                bytes.extend_from_slice(&data);
            }
            Ok(Piece::Trailers(_)) => {}
            Ok(Piece::Data(_)) | Err(_) => return Vec::new(),
        }
    }
    bytes
}

pub(super) fn has_media_type(response: &Response, expected: &[u8]) -> bool {
    let media_type = response.field("Content-Type").map(|value| value.as_bytes()).unwrap_or_default();
    media_type.get(..expected.len()).is_some_and(|start| start.eq_ignore_ascii_case(expected))
}

fn changed(bytes: Cow<'_, [u8]>) -> Option<Vec<u8>> {
    match bytes {
        Cow::Owned(changed) => Some(changed),
        Cow::Borrowed(_) => None,
    }
}

/// A streamed body. `observer` reads its bytes and returns the bytes for the client.
struct ObservedBody {
    stream: Pin<Box<dyn ContentStream>>,
    observer: RelayedResponse,
}

/// This stream has no [`length`](ContentStream::length), because a signed state is longer. It does not implement
/// `poll_pipe`, because the bytes in a pipe cannot be read.
impl ContentStream for ObservedBody {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        loop {
            let polled = self.stream.as_mut().poll_next(cx);
            match &polled {
                Poll::Ready(Some(Ok(Piece::Data(bytes)))) => match changed(self.observer.read(bytes)) {
                    // The state is incomplete.
                    Some(changed) if changed.is_empty() => continue,
                    Some(changed) => return Poll::Ready(Some(Ok(Piece::Data(changed.into())))),
                    None => {}
                },
                // After an error, the server sends no more bytes. A client that disconnects causes no error.
                Poll::Ready(None | Some(Err(_))) => self.observer.end(),
                _ => {}
            }
            return polled;
        }
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.stream.as_mut().poll_meanwhile(cx).inspect_err(|_| self.observer.end())
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        self.stream.as_mut().at_drain()
    }
}

/// Maximum length of the body of an error response, in bytes. Longer bodies count as no JSON-RPC message.
const ERROR_BYTES_MAX: usize = 64 << 10;
