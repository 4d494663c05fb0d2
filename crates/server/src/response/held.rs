//! Guards that are kept until a response is complete, such as permits.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_net::Pipe;

use super::Response;
use super::content::{AtDrain, BoxError, Content, ContentStream, Piece, Source};
use super::tunnel::TunnelHandler;

impl Response {
    /// Keeps `guard` until the operating system has accepted the last bytes of the body, or the client has
    /// left. For a tunnel, keeps `guard` until the tunnel closes. Without a body, drops `guard` at once.
    #[must_use]
    pub fn holding(mut self, guard: impl Send + 'static) -> Self {
        let source = match self.take_content() {
            Source::Stream(stream) => Source::Stream(Box::pin(Held { stream, _guard: guard })),
            Source::Tunnel(handler) => Source::Tunnel(TunnelHandler::new(|tunnel| async {
                handler.run(tunnel).await;
                drop(guard);
            })),
            Source::File(mut range) => {
                range.held = Some(Box::new((range.held.take(), guard)));
                Source::File(range)
            }
            Source::Static(bytes) => held_with(Bytes::from_static(bytes), guard),
            Source::Pooled(bytes) => held_with(Bytes::from_owner(bytes), guard),
            Source::Bytes(bytes) => held_with(bytes, guard),
            source @ (Source::Empty | Source::LeftOut(_)) => source,
        };
        self.with_content(Content(source))
    }
}

/// A stream, and a guard that is dropped together with the stream.
struct Held<G> {
    stream: Pin<Box<dyn ContentStream>>,
    _guard: G,
}

/// The value can be moved, because its guard is never pinned and its stream is boxed.
impl<G> Unpin for Held<G> {}

impl<G> ContentStream for Held<G> {
    fn poll_pipe(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
        self.stream.as_mut().poll_pipe(cx)
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        self.stream.as_mut().poll_next(cx)
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.stream.as_mut().poll_meanwhile(cx)
    }

    fn length(&self) -> Option<u64> {
        self.stream.length()
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        self.stream.as_mut().at_drain()
    }
}

/// Bytes, and a guard that is dropped together with the bytes.
struct HeldBytes<G> {
    bytes: Bytes,
    _guard: G,
}

impl<G> AsRef<[u8]> for HeldBytes<G> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn held_with(bytes: Bytes, guard: impl Send + 'static) -> Source {
    Source::Bytes(Bytes::from_owner(HeldBytes { bytes, _guard: guard }))
}

#[cfg(test)]
mod tests {
    use thruway_message::StatusCode;

    use super::*;

    /// A stream with a single pipe and no other data.
    struct Piped;

    impl ContentStream for Piped {
        fn poll_pipe(self: Pin<&mut Self>, _: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
            Some(Poll::Ready(Pipe::take().ok_or_else(|| "there is no pipe".into())))
        }

        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
            Poll::Ready(None)
        }
    }

    /// The server once copied a piped body into memory if a policy had attached a guard to the response.
    #[test]
    fn piped_body_stays_piped_with_attached_guard() {
        let mut response =
            Response::new(StatusCode::OK).with_content(Content::from_content_stream(Piped)).holding(());
        let Source::Stream(mut stream) = response.take_content() else {
            panic!("the body should still be a stream")
        };
        let piped = stream.as_mut().poll_pipe(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(matches!(piped, Some(Poll::Ready(Ok(_)))));
    }
}
