//! Server-sent events (HTML Living Standard §9.2).

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep};

use super::content::{AtDrain, BoxError, Content, ContentStream, Piece};
use super::writer::{ContentWriter, WriterFuture};

/// A server-sent event.
///
/// ```
/// use std::time::Duration;
///
/// use thruway_server::{Event, Response, Router};
///
/// let keep_alive = Duration::from_secs(15);
/// let router = Router::new().get("/countdown", move || {
///     Response::finite_events(keep_alive, async |mut sender| {
///         for number in (0..3).rev() {
///             sender.send(Event::data(&number.to_string()).with_type("tick")).await;
///         }
///         Ok(())
///     })
/// });
/// # let _ = router;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Event {
    text: String,
}

impl Event {
    /// Creates an event with `data`, which may have several lines.
    pub fn data(data: &str) -> Self {
        let mut event = Self::default();
        for line in lines(data) {
            event.push("data", line);
        }
        event
    }

    /// Sets the type of the event. Default `message`. Line ends are removed.
    #[must_use]
    pub fn with_type(mut self, name: &str) -> Self {
        self.push("event", &without_line_ends(name));
        self
    }

    /// Sets the id of the event. A client that reconnects sends the id of its last event in `Last-Event-ID`.
    /// Line ends and NUL are removed.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.push("id", &without_line_ends(id));
        self
    }

    /// Sets the time that a client waits before it reconnects.
    #[must_use]
    pub fn with_retry(mut self, after: Duration) -> Self {
        self.push("retry", &after.as_millis().to_string());
        self
    }

    fn push(&mut self, field: &str, value: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{field}: {value}");
    }

    /// Returns the bytes of the event, including the empty line at its end.
    pub fn into_bytes(mut self) -> Bytes {
        self.text.push('\n');
        self.text.into()
    }
}

/// Splits text into lines as the standard requires: at CRLF, LF or CR.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

fn without_line_ends(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\r' | '\n' | '\0')).collect()
}

/// Sends the events of one stream.
#[derive(Debug)]
pub struct EventSender(ContentWriter);

impl EventSender {
    /// Sends `event`. Waits while the client does not read.
    ///
    /// # Cancel safety
    /// Cancel safe: if the future is dropped before it completes, the event is not sent.
    pub async fn send(&mut self, event: Event) {
        self.0.write(event.into_bytes()).await;
    }
}

/// Creates a body with a stream of events. `at_drain` returns the behavior of the stream during a graceful
/// shutdown.
pub(super) fn content<F>(
    keep_alive: Duration,
    at_drain: impl FnMut() -> AtDrain + Unpin + 'static,
    send: impl FnOnce(EventSender) -> F,
) -> Content
where
    F: Future<Output = Result<(), BoxError>> + 'static,
{
    let events = WriterFuture::new(|writer| send(EventSender(writer)));
    let content = KeepAliveComments { events, period: keep_alive, at_drain, keep_alive_timer: None };
    Content::from_content_stream(content)
}

/// A stream of events with keep-alive comments. It contains a comment after each `period` without an event.
struct KeepAliveComments<F, D> {
    events: WriterFuture<F>,
    period: Duration,
    at_drain: D,
    /// Timer for the next comment.
    keep_alive_timer: Option<Pin<Box<Sleep>>>,
}

impl<F, D> ContentStream for KeepAliveComments<F, D>
where
    F: Future<Output = Result<(), BoxError>>,
    D: FnMut() -> AtDrain + Unpin,
{
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let this = &mut *self;
        let keep_alive_timer = this.keep_alive_timer.get_or_insert_with(|| Box::pin(sleep(this.period)));
        let next = match Pin::new(&mut this.events).poll_next(cx) {
            Poll::Pending if keep_alive_timer.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Some(Ok(Piece::Data(Bytes::from_static(COMMENT)))))
            }
            next => next,
        };
        if next.is_ready() {
            keep_alive_timer.as_mut().reset(Instant::now() + this.period);
        }
        next
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        (self.at_drain)()
    }
}

const COMMENT: &[u8] = b":\n\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event: Event) -> String {
        String::from_utf8(event.into_bytes().to_vec()).unwrap()
    }

    #[test]
    fn each_line_of_event_data_is_a_field() {
        assert_eq!(text(Event::data("a\nb\r\nc\rd")), "data: a\ndata: b\ndata: c\ndata: d\n\n");
        assert_eq!(text(Event::data("")), "data: \n\n");
    }

    #[test]
    fn line_breaks_in_event_values_cannot_inject_fields() {
        let event =
            Event::data("x").with_type("a\ndata: y").with_id("1\r\n\0").with_retry(Duration::from_secs(2));
        assert_eq!(text(event), "data: x\nevent: adata: y\nid: 1\nretry: 2000\n\n");
    }
}
