//! Streams of lines: a child process, a Unix socket, or a server in the same process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use thruway_mcp::stdio::{Line, Lines, SkippedMessage};
use thruway_net::{Admitted, LogLimit, PIPE_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc, watch};

use super::super::conversation::Conversation;
use super::super::error::McpClientError;
use super::super::invalid_lines::InvalidLines;
use super::transport::{Input, Link, Origin, Output, Stream, StreamIo};

/// A stream whose tasks have not started yet. The tasks need the [`Conversation`], which is created after
/// the stream.
pub(crate) struct UnstartedStream {
    ends: StreamIo,
    messages: mpsc::Receiver<Vec<u8>>,
    closing: watch::Receiver<bool>,
    over: watch::Sender<()>,
    link: Weak<Link>,
}

impl Stream {
    pub(crate) fn new(ends: StreamIo, origin: Option<Origin>) -> (Self, UnstartedStream) {
        let (link, unstarted) = Link::new(ends);
        (Self { link: ArcSwap::new(link), origin: origin.map(Mutex::new) }, unstarted)
    }

    pub(super) async fn send(&self, bytes: Vec<u8>) -> Result<(), McpClientError> {
        let link = self.link.load_full();
        // When the stream ends, the requests in flight fail. A request that is sent later would never get
        // an answer, so it fails here.
        if link.is_lost.load(Ordering::Acquire) {
            return Err(McpClientError::Closed);
        }
        link.outbox.send(bytes).await.map_err(|_| McpClientError::Closed)
    }

    /// Queues a message, or drops it if the queue is full.
    pub(super) fn try_send(&self, bytes: Vec<u8>) {
        let _is_taken = self.link.load().outbox.try_send(bytes);
    }

    /// `true` if the client can restart the server after the stream has ended.
    pub(super) const fn can_reopen(&self) -> bool {
        self.origin.is_some()
    }

    /// Restarts the server if its stream has ended.
    pub(super) async fn reopen(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        let Some(origin) = &self.origin else { return Ok(()) };
        let link = self.link.load_full();
        if *link.closing.borrow() {
            return Err(McpClientError::Closed);
        }
        if link.outbox.is_closed() {
            // A server that no longer reads is about to exit.
            link.ended().await;
        }
        if !link.is_lost.load(Ordering::Acquire) {
            return Ok(());
        }
        let ends = origin.lock().await.start_again().await?;
        if *link.closing.borrow() {
            return Err(McpClientError::Closed);
        }
        let (link, unstarted) = Link::new(ends);
        self.link.store(link);
        unstarted.start(conversation);
        Ok(())
    }

    /// Permits one more start of the server after many restarts in a row.
    pub(super) async fn permit_restart(&self) {
        if let Some(origin) = &self.origin {
            origin.lock().await.permit_restart();
        }
    }

    /// Closes the writing side of the stream and waits until the stream has ended.
    pub(super) async fn close(&self) {
        let link = self.link.load_full();
        link.closing.send_replace(true);
        link.ended().await;
    }
}

impl Link {
    fn new(ends: StreamIo) -> (Arc<Self>, UnstartedStream) {
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        let (close, closing) = watch::channel(false);
        let (end, over) = watch::channel(());
        let link = Arc::new(Self { outbox, closing: close, over, is_lost: AtomicBool::new(false) });
        let unstarted = UnstartedStream { ends, messages, closing, over: end, link: Arc::downgrade(&link) };
        (link, unstarted)
    }

    /// Resolves when all tasks of the stream have ended.
    async fn ended(&self) {
        let mut over = self.over.clone();
        while over.changed().await.is_ok() {}
    }
}

impl UnstartedStream {
    /// Starts the tasks that read and write the stream. They run until the stream ends or `conversation` is
    /// dropped.
    pub(crate) fn start(self, conversation: &Arc<Conversation>) {
        let bytes_max = conversation.options.message_bytes_max;
        let StreamIo { input, output, child, exit_wait } = self.ends;
        let near = StreamHandles { conversation: Arc::downgrade(conversation), link: self.link };
        let mut reading = conversation.runtime.spawn(read(near.clone(), input, bytes_max));
        let (mut closing, ended) = (self.closing.clone(), self.closing.clone());
        let writing = conversation.runtime.spawn(write(output, self.messages, self.closing, exit_wait));
        let over = self.over;
        conversation.runtime.spawn(async move {
            if let Some(child) = child {
                child.wait_for_exit(writing, exit_wait).await;
            } else {
                tokio::select! {
                    _ = &mut reading => {}
                    // The result is ignored, because a dropped sender also means that the stream must
                    // close.
                    _ = closing.changed() => drop(writing.await),
                }
            }
            // Reads the remaining messages of the server. Stops after a wait, because another process may keep
            // the pipe open. If the client closes the stream, it needs no further messages.
            let wait = if *ended.borrow() { exit_wait.min(REST_WAIT) } else { exit_wait };
            if !reading.is_finished() && tokio::time::timeout(wait, &mut reading).await.is_err() {
                reading.abort();
            }
            near.lose();
            drop(over);
        });
    }
}

/// Weak references to the conversation and the link, for the tasks of the stream.
#[derive(Clone)]
struct StreamHandles {
    conversation: Weak<Conversation>,
    link: Weak<Link>,
}

impl StreamHandles {
    /// Handles the end of the stream: fails the requests in flight. If the client can restart the server,
    /// the next request does so.
    fn lose(&self) {
        static LIMIT: LogLimit = LogLimit::new();
        let Some(conversation) = self.conversation.upgrade() else { return };
        let Some(link) = self.link.upgrade() else { return };
        if link.is_lost.swap(true, Ordering::AcqRel) {
            return;
        }
        if *link.closing.borrow() || !conversation.binding.can_reopen() {
            conversation.incoming.close(&McpClientError::Closed);
        } else {
            conversation.lose();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                let server = conversation.options.log_name();
                tracing::warn!(server, suppressed, "the server has exited; the next request starts it again");
            }
        }
    }
}

/// Reads lines until the stream ends or the conversation is dropped.
async fn read(near: StreamHandles, mut input: Input, bytes_max: usize) {
    let mut lines = Lines::with_bytes_max(bytes_max);
    let mut invalid_lines = InvalidLines::default();
    let Some(mut budget) = near.conversation.upgrade().map(|conversation| conversation.wait_budget()) else {
        return;
    };
    while receive(&mut input, lines.input_buffer()).await.is_ok_and(|read| read > 0) {
        let Some(conversation) = near.conversation.upgrade() else { return };
        while let Some(line) = lines.next_line() {
            match line {
                // The client learns the id of the message only at the end of the line.
                Line::TooLong => {}
                Line::SkippedMessage(SkippedMessage::Request(id)) => conversation.refuse_too_large(id),
                Line::SkippedMessage(passed) => {
                    conversation.incoming.handle_skipped(&passed, conversation.options.log_name());
                }
                Line::Whole(line) => conversation.handle_line(line, &mut invalid_lines, &mut budget).await,
            }
        }
        if invalid_lines.are_too_many() {
            return conversation.incoming.close(&McpClientError::MessageInvalid);
        }
    }
    if let (Some(conversation), Some(Line::Whole(line))) = (near.conversation.upgrade(), lines.rest()) {
        // Errors are ignored, because the last line may be incomplete.
        let _ = conversation.handle_bytes(line, &mut budget).await;
    }
    near.lose();
}

/// Appends the bytes that have arrived. Returns 0 at the end of the stream.
async fn receive(input: &mut Input, bytes: &mut Vec<u8>) -> io::Result<usize> {
    bytes.reserve(PIPE_BYTES);
    input.read_buf(bytes).await
}

/// Writes the queued messages until the stream is closed. Then writes the remaining messages for at most
/// `exit_wait`.
async fn write(
    mut output: Output,
    messages: mpsc::Receiver<Vec<u8>>,
    mut closing: watch::Receiver<bool>,
    exit_wait: Duration,
) {
    let writing = write_all(&mut output, messages, closing.clone());
    let request_timeouts = async {
        // The result is ignored, because a dropped sender also means that the stream must close.
        let _ = closing.changed().await;
        tokio::time::sleep(exit_wait).await;
    };
    tokio::select! {
        () = writing => {}
        () = request_timeouts => {}
    }
    // Errors are ignored, because dropping a pipe closes it too.
    let _ = output.shutdown().await;
}

async fn write_all(
    output: &mut Output,
    mut messages: mpsc::Receiver<Vec<u8>>,
    mut closing: watch::Receiver<bool>,
) {
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            biased;
            message = messages.recv() => match message {
                Some(message) => append_line(&mut bytes, &message),
                None => return,
            },
            _ = closing.changed() => return,
        }
        while bytes.len() < BATCH_BYTES
            && let Ok(message) = messages.try_recv()
        {
            append_line(&mut bytes, &message);
        }
        if output.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
        bytes.shrink_to(BATCH_BYTES);
    }
}

fn append_line(bytes: &mut Vec<u8>, message: &[u8]) {
    bytes.extend_from_slice(message);
    bytes.push(b'\n');
}

/// Maximum number of queued messages. Callers wait while the queue is full.
const MESSAGES_MAX: usize = 64;

/// Target size of one write, in bytes. After a larger write, the buffer shrinks to this size.
const BATCH_BYTES: usize = 64 << 10;

/// Maximum time to read the remaining messages of a process that has exited after the client has closed its input.
const REST_WAIT: Duration = Duration::from_millis(100);
