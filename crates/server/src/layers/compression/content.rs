//! Bodies that are encoded while they arrive.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_message::FieldLinesBuf;
use thruway_net::{Deadline, PooledBuffer, Worker};

use super::encoder::{Operation, log_encoder_failure};
use super::pool::PooledEncoder;
use crate::layers::source::SourceBody;
use crate::response::{AtDrain, BoxError, ContentStream, Piece};

/// A response body that is encoded while its source arrives.
///
/// ```text
/// ExpectContent ── end ──────▶ Over
///       │ trailers ──▶ ExpectTrailersSent ──▶ Over
///       └ error ─────▶ Failed: the end of the coding and of the stream is never written
/// ```
pub(super) struct Encoded {
    /// The unencoded body. It is kept until this value is dropped, because it may contain a guard, such as a
    /// permit.
    source: SourceBody,
    encoder: PooledEncoder,
    state: State,
    /// Input that is not encoded yet.
    input: Bytes,
    /// Number of bytes that the source must still supply, if it has a known length. This type checks the
    /// length, because the response announces no length for an encoded body.
    remaining: Option<u64>,
    /// `true` if the encoder is flushed after each piece of input, so that the client can decode the piece at
    /// once.
    flushes: bool,
    pause_timer: PauseTimer,
    /// Number of bytes that were encoded since other tasks last ran.
    burst_bytes: usize,
}

enum State {
    ExpectContent,
    ExpectTrailersSent(FieldLinesBuf),
    Over,
    Failed,
}

/// Timer that flushes the encoder if the source supplies no data for some time.
struct PauseTimer {
    worker: Rc<Worker>,
    /// Time at which the encoder is flushed. `None` if the encoder holds no data.
    flush_at: Option<Duration>,
    /// Wakes the task at the time `flush_at`. Created when the task first waits.
    deadline: Option<Deadline>,
}

impl Encoded {
    pub(super) fn new(source: SourceBody, encoder: PooledEncoder, flushes: bool, worker: Rc<Worker>) -> Self {
        let remaining = source.length();
        Self {
            source,
            encoder,
            state: State::ExpectContent,
            input: Bytes::new(),
            remaining,
            flushes,
            pause_timer: PauseTimer { worker, flush_at: None, deadline: None },
            burst_bytes: 0,
        }
    }

    /// Reads and encodes until a piece of output is available, or the source has ended.
    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let mut output = PooledBuffer::take();
        loop {
            if output.len() >= PIECE_BYTES {
                return piece(output);
            }
            if !self.input.is_empty() {
                if self.burst_bytes >= BURST_BYTES {
                    return self.yield_to_worker(cx, output);
                }
                self.encode_some(&mut output)?;
                continue;
            }
            match self.source.poll_next(cx) {
                Poll::Ready(Some(Ok(Piece::Data(data)))) => {
                    self.count(data.len())?;
                    self.input = data;
                }
                Poll::Ready(Some(Ok(Piece::Trailers(trailers)))) => {
                    self.state = State::ExpectTrailersSent(trailers);
                    return self.finish(output);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.state = State::Over;
                    return self.finish(output);
                }
                Poll::Pending => return self.poll_flush_after_idle(cx, output),
            }
        }
    }

    /// Encodes at most [`STEP_BYTES`] of the input.
    fn encode_some(&mut self, output: &mut PooledBuffer) -> Result<(), BoxError> {
        let input = self.input.split_to(self.input.len().min(STEP_BYTES));
        let is_flushed = self.flushes && self.input.is_empty();
        let operation = if is_flushed { Operation::Flush } else { Operation::Continue };
        self.encoder.encode(&input, operation, output)?;
        self.burst_bytes += input.len();
        if is_flushed {
            self.pause_timer.flush_at = None;
        } else {
            self.pause_timer.begin();
        }
        Ok(())
    }

    fn finish(&mut self, mut output: PooledBuffer) -> Poll<Option<Result<Piece, BoxError>>> {
        if self.remaining.is_some_and(|remaining| remaining > 0) {
            return Poll::Ready(Some(Err("the body is shorter than its announced length".into())));
        }
        self.encoder.encode(&[], Operation::Finish, &mut output)?;
        piece(output)
    }

    /// Flushes the encoder if no input has arrived for some time. Called when the source has no data.
    fn poll_flush_after_idle(
        &mut self,
        cx: &mut Context<'_>,
        mut output: PooledBuffer,
    ) -> Poll<Option<Result<Piece, BoxError>>> {
        self.burst_bytes = 0;
        if output.is_empty() && self.pause_timer.poll_end(cx).is_ready() {
            self.encoder.encode(&[], Operation::Flush, &mut output)?;
            self.pause_timer.flush_at = None;
        }
        if output.is_empty() { Poll::Pending } else { piece(output) }
    }

    /// Lets the other connections of the worker run before the next input is encoded.
    fn yield_to_worker(
        &mut self,
        cx: &Context<'_>,
        output: PooledBuffer,
    ) -> Poll<Option<Result<Piece, BoxError>>> {
        if !output.is_empty() {
            return piece(output);
        }
        self.burst_bytes = 0;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn count(&mut self, bytes: usize) -> Result<(), BoxError> {
        if let Some(remaining) = &mut self.remaining {
            let left = remaining.checked_sub(bytes as u64);
            *remaining = left.ok_or("the body exceeds its announced length")?;
        }
        Ok(())
    }

    /// Encodes the remaining input and then `last`. Returns the last bytes of the encoded body.
    fn end_with(&mut self, last: &[u8]) -> Result<Bytes, BoxError> {
        let mut output = PooledBuffer::take();
        self.encoder.encode(&self.input, Operation::Continue, &mut output)?;
        self.encoder.encode(last, Operation::Finish, &mut output)?;
        Ok(Bytes::from_owner(output))
    }
}

impl ContentStream for Encoded {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let this = &mut *self;
        match std::mem::replace(&mut this.state, State::Over) {
            State::ExpectContent => {
                this.state = State::ExpectContent;
                let next = this.poll_content(cx);
                if let Poll::Ready(Some(Err(_))) = next {
                    this.state = State::Failed;
                }
                next
            }
            State::ExpectTrailersSent(trailers) => Poll::Ready(Some(Ok(Piece::Trailers(trailers)))),
            State::Over => Poll::Ready(None),
            State::Failed => {
                this.state = State::Failed;
                Poll::Ready(Some(Err("the body has already failed".into())))
            }
        }
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        match self.state {
            State::ExpectContent => self.source.poll_meanwhile(cx),
            _ => Ok(()),
        }
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        let this = &mut *self;
        if !matches!(this.state, State::ExpectContent) {
            return AtDrain::Finishes;
        }
        let AtDrain::Ends(last) = this.source.at_drain() else { return AtDrain::Finishes };
        match this.end_with(&last) {
            Ok(end) => AtDrain::Ends(end),
            Err(error) => {
                log_encoder_failure(&*error);
                this.state = State::Failed;
                AtDrain::Finishes
            }
        }
    }
}

impl PauseTimer {
    /// Starts the timer, unless it is already running. Called when the encoder has received data.
    fn begin(&mut self) {
        if self.flush_at.is_none() {
            self.flush_at = Some(self.worker.clock().now() + FLUSH_AFTER_IDLE);
        }
    }

    /// Ready when the timer has expired.
    fn poll_end(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Some(flush_at) = self.flush_at else { return Poll::Pending };
        if self.worker.clock().now() >= flush_at {
            return Poll::Ready(());
        }
        let deadline = self.deadline.get_or_insert_with(|| self.worker.deadlines().register());
        deadline.set(Some(flush_at));
        deadline.set_waker(cx.waker());
        Poll::Pending
    }
}

fn piece(output: PooledBuffer) -> Poll<Option<Result<Piece, BoxError>>> {
    Poll::Ready(Some(Ok(Piece::Data(Bytes::from_owner(output)))))
}

/// Maximum number of input bytes in one encoding step, which takes at most a millisecond at the default
/// levels.
const STEP_BYTES: usize = 16 << 10;

/// Number of bytes to encode before other tasks run.
const BURST_BYTES: usize = 64 << 10;

/// Size at which a piece of output is sent. A larger size would need more memory for each stream.
const PIECE_BYTES: usize = 16 << 10;

/// Time without input after which the encoder is flushed.
const FLUSH_AFTER_IDLE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Wake, Waker};

    use thruway_net::Clock;

    use super::*;
    use crate::content_coding::ContentCoding;
    use crate::layers::compression::config::LeveledCoding;
    use crate::response::Content;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An endless body of zeros. It counts the bytes that were read from it.
    struct Zeros(Arc<Mutex<usize>>);

    impl ContentStream for Zeros {
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
            *self.0.lock().unwrap() += 10_000;
            Poll::Ready(Some(Ok(Piece::Data(vec![0; 10_000].into()))))
        }
    }

    /// Zeros produce no output for a long time. A source that is always ready must not block other
    /// connections.
    #[test]
    fn compression_without_output_yields_to_other_connections() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstandard, ContentCoding::Brotli] {
            let taken = Arc::new(Mutex::new(0));
            let Ok(source) = SourceBody::of(Content::from_content_stream(Zeros(taken.clone())).0) else {
                panic!()
            };
            let worker = Worker::for_test(Clock::system());
            let encoder = PooledEncoder::take(&worker, LeveledCoding::new(coding), 1).unwrap();
            let mut content = Encoded::new(source, encoder, false, worker);
            let woken = Arc::new(Wakes::default());
            let waker = Waker::from(woken.clone());
            for iteration in 1..20 {
                let mut cx = Context::from_waker(&waker);
                while Pin::new(&mut content).poll_next(&mut cx).is_ready() {}
                assert_eq!(woken.0.load(Ordering::Relaxed), iteration, "{coding:?}: the task wakes itself");
                assert!(
                    *taken.lock().unwrap() <= iteration * (BURST_BYTES + STEP_BYTES + 10_000),
                    "{coding:?}"
                );
            }
        }
    }
}
