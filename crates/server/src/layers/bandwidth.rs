//! Limits the rate at which response bodies are sent.

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use thruway_net::{Deadline, Worker};

use super::Layer;
use super::source::SourceBody;
use crate::handler::{Answer, Handler};
use crate::request::Request;
use crate::response::{AtDrain, BoxError, Content, ContentStream, Piece, Response};

/// A layer that limits the rate of each response body. Responses of the same client do not share the rate.
///
/// The limit applies to the bytes of the body after compression, without headers and framing. It does not apply to
/// tunnels. The server sends a limited body in pieces about every 100 ms, and never moves it directly between sockets
/// or from a file (`splice`, `sendfile`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bandwidth {
    bytes_per_second: u64,
    after_bytes: u64,
}

impl Bandwidth {
    /// Minimum rate. With a lower rate, timeouts would end many responses.
    pub const BYTES_PER_SECOND_MIN: u64 = 1024;

    /// Creates a layer that sends at most `bytes_per_second` bytes of each response per second, but at least
    /// [`BYTES_PER_SECOND_MIN`](Self::BYTES_PER_SECOND_MIN).
    pub const fn new(bytes_per_second: u64) -> Self {
        let is_too_low = bytes_per_second < Self::BYTES_PER_SECOND_MIN;
        let bytes_per_second = if is_too_low { Self::BYTES_PER_SECOND_MIN } else { bytes_per_second };
        Self { bytes_per_second, after_bytes: 0 }
    }

    /// Sends the first `bytes` bytes of each response without a limit. Default 0.
    #[must_use]
    pub const fn after(self, bytes: u64) -> Self {
        Self { after_bytes: bytes, ..self }
    }

    /// Returns the maximum number of bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.bytes_per_second
    }

    /// Returns the number of bytes that are sent without a limit.
    pub const fn after_bytes(self) -> u64 {
        self.after_bytes
    }

    /// Limits the body of `response`.
    fn limit(self, mut response: Response, worker: Rc<Worker>) -> Response {
        match SourceBody::of(response.take_content()) {
            Ok(body) if body.length().is_some_and(|length| length <= self.after_bytes) => {
                response.set_content(Content(body.into_source()));
            }
            Ok(body) => {
                let budget = ByteBudget::new(self, worker.clock().now());
                let limited = Limited { body, budget, pending: Bytes::new(), deadline: None, worker };
                response.set_content(Content::from_content_stream(limited));
            }
            Err(source) => response.set_content(Content(source)),
        }
        response
    }
}

impl Layer for Bandwidth {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithBandwidth { bandwidth: self, inner })
    }
}

struct WithBandwidth {
    bandwidth: Bandwidth,
    inner: Arc<dyn Handler>,
}

impl Handler for WithBandwidth {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let (bandwidth, worker) = (self.bandwidth, request.worker().clone());
        self.inner.handle(request).map(move |response| bandwidth.limit(response, worker))
    }
}

/// A token bucket. Each token is a byte that may be sent.
#[derive(Debug)]
struct ByteBudget {
    bytes_per_second: u64,
    tokens: u64,
    /// Time up to which tokens were added.
    filled: Duration,
}

impl ByteBudget {
    fn new(Bandwidth { bytes_per_second, after_bytes }: Bandwidth, now: Duration) -> Self {
        Self { bytes_per_second, tokens: after_bytes, filled: now }
    }

    /// Adds the tokens since the last call. A bucket holds the tokens of half a second. If the bucket has more tokens,
    /// these are the bytes without a limit.
    fn fill(&mut self, now: Duration) {
        let most = (self.bytes_per_second / 2).max(self.tokens);
        let elapsed = now.saturating_sub(self.filled);
        if elapsed >= Duration::from_secs(1) {
            (self.tokens, self.filled) = (most, now);
            return;
        }
        // The product of a rate and a time below a second fits, and the quotient is at most the rate.
        let rate = u128::from(self.bytes_per_second);
        let added = rate * elapsed.as_micros() / MICROSECONDS;
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        self.tokens = self.tokens.saturating_add(added).min(most);
        // The time of a fraction of a byte counts the next time.
        let counted = u128::from(added) * MICROSECONDS / rate;
        self.filled += Duration::from_micros(u64::try_from(counted).unwrap_or(u64::MAX));
    }

    /// Takes up to `wanted` tokens. Returns 0 if there are too few tokens, so that the server does not send many small
    /// pieces.
    fn take(&mut self, wanted: usize) -> usize {
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        if self.tokens < wanted.min(self.bytes_per_second / 20) {
            return 0;
        }
        let taken = wanted.min(self.tokens);
        self.tokens -= taken;
        usize::try_from(taken).unwrap_or(usize::MAX)
    }
}

/// A body that is sent at a limited rate.
struct Limited {
    body: SourceBody,
    budget: ByteBudget,
    /// Bytes of the body that are not sent yet.
    pending: Bytes,
    /// The timer until the budget has more tokens. `None` until the stream waits for the first time.
    deadline: Option<Deadline>,
    worker: Rc<Worker>,
}

impl Limited {
    /// Returns `bytes`, which may be kept for a long time. Copies a large buffer of a stream, because such buffers belong
    /// to a small pool, and other responses need them in the meantime.
    fn kept(&self, bytes: Bytes) -> Bytes {
        let is_of_pool = matches!(self.body, SourceBody::Stream(_)) && LARGE_BYTES.contains(&bytes.len());
        if is_of_pool { Bytes::copy_from_slice(&bytes) } else { bytes }
    }

    /// Sets a timer for the next piece.
    fn wait(&mut self, cx: &Context<'_>, now: Duration) {
        let deadline = self.deadline.get_or_insert_with(|| self.worker.deadlines().register());
        deadline.set(Some(now + PIECE_INTERVAL));
        deadline.set_waker(cx.waker());
    }
}

impl ContentStream for Limited {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let this = &mut *self;
        if this.pending.is_empty() {
            match ready!(this.body.poll_next(cx)) {
                Some(Ok(Piece::Data(bytes))) => this.pending = this.kept(bytes),
                other => return Poll::Ready(other),
            }
        }
        let now = this.worker.clock().now();
        this.budget.fill(now);
        let taken = this.budget.take(this.pending.len());
        if taken == 0 && !this.pending.is_empty() {
            this.wait(cx, now);
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Piece::Data(this.pending.split_to(taken)))))
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.body.poll_meanwhile(cx)
    }

    fn length(&self) -> Option<u64> {
        self.body.length().map(|left| left.saturating_add(self.pending.len() as u64))
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        if self.pending.is_empty() { self.body.at_drain() } else { AtDrain::Finishes }
    }
}

/// Time after which a waiting stream tries again.
const PIECE_INTERVAL: Duration = Duration::from_millis(50);

/// Sizes of the pieces that may be large buffers.
const LARGE_BYTES: RangeInclusive<usize> = (64 << 10) + 1..=1 << 20;

const MICROSECONDS: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::IntoHandler;
    use crate::testing::TestClient;

    fn client(bandwidth: Bandwidth, length: usize) -> TestClient {
        let handler = move || Response::text(vec![b'a'; length]);
        TestClient::new(bandwidth.wrap(handler.into_handler()))
    }

    #[test]
    fn budget_follows_the_rate_and_holds_half_a_second() {
        let mut budget = ByteBudget::new(Bandwidth::new(10_000).after(3_000), Duration::ZERO);
        assert_eq!((budget.take(2_000), budget.take(5_000), budget.take(1)), (2_000, 1_000, 0));
        budget.fill(Duration::from_millis(40));
        assert_eq!(budget.take(5_000), 0, "a piece has at least the bytes of 50 ms");
        budget.fill(Duration::from_millis(100));
        assert_eq!(budget.take(5_000), 1_000);
        budget.fill(Duration::from_mins(1));
        assert_eq!(budget.take(50_000), 5_000);
        // A small rest needs only its own tokens.
        budget.fill(Duration::from_mins(1) + Duration::from_millis(1));
        assert_eq!(budget.take(10), 10);
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        let mut budget = ByteBudget::new(Bandwidth::new(u64::MAX).after(u64::MAX), Duration::ZERO);
        budget.fill(Duration::MAX);
        assert_eq!(budget.take(usize::MAX), usize::MAX);
        assert_eq!(Bandwidth::new(0).bytes_per_second(), Bandwidth::BYTES_PER_SECOND_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn body_takes_the_time_of_its_rate() {
        let client = client(Bandwidth::new(10_000).after(5_000), 25_000);
        let start = tokio::time::Instant::now();
        let mut response = client.get("/").send().await.unwrap();
        assert_eq!(response.header("Content-Length"), Some("25000"));
        let mut received = 0;
        while let Some(chunk) = response.chunk().await.unwrap() {
            received += chunk.len();
            let allowed = 5_000 + 10 * (start.elapsed().as_millis() + 500);
            assert!(received as u128 <= allowed, "{received} bytes after {:?}", start.elapsed());
        }
        assert_eq!(received, 25_000);
        let seconds = start.elapsed().as_secs_f64();
        assert!((1.9..2.3).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn small_body_is_not_limited() {
        let client = client(Bandwidth::new(1_024).after(5_000), 5_000);
        let start = tokio::time::Instant::now();
        assert_eq!(client.get("/").send().await.unwrap().bytes().await.unwrap().len(), 5_000);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn file_and_stream_are_limited_and_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, vec![b'b'; 100_000]).unwrap();
        let file = move || {
            let file = std::fs::File::open(&path).unwrap();
            Response::text(Content::file(file, 0, 100_000))
        };
        let pieces = || {
            let pieces = (0..10).map(|_| Ok::<_, BoxError>(Bytes::from(vec![b'b'; 10_000])));
            Response::text(Content::stream(futures_util::stream::iter(pieces)))
        };
        for handler in [file.into_handler() as Arc<dyn Handler>, pieces.into_handler()] {
            let client = TestClient::new(Bandwidth::new(100_000).wrap(handler));
            let start = tokio::time::Instant::now();
            let body = client.get("/").send().await.unwrap().bytes().await.unwrap();
            assert!(body.len() == 100_000 && body.iter().all(|byte| *byte == b'b'));
            let seconds = start.elapsed().as_secs_f64();
            assert!((0.9..1.3).contains(&seconds), "{seconds}");
        }
    }
}
