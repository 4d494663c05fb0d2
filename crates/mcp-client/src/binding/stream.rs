//! A stream of lines each way: a child process, a Unix socket, a server in the same process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use thruway_mcp::stdio::{Line, Lines, Passed};
use thruway_net::{Admitted, LogLimit, PIPE_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc, watch};

use super::super::conversation::Conversation;
use super::super::error::McpClientError;
use super::super::invalid_lines::InvalidLines;
use super::transport::{Ends, Input, Link, Origin, Output, Stream};

/// What is to be driven once there is somebody to tell.
pub(crate) struct Unstarted {
    ends: Ends,
    messages: mpsc::Receiver<Vec<u8>>,
    closing: watch::Receiver<bool>,
    over: watch::Sender<()>,
    link: Weak<Link>,
}

impl Stream {
    pub(crate) fn new(ends: Ends, origin: Option<Origin>) -> (Self, Unstarted) {
        let (link, unstarted) = Link::new(ends);
        (Self { link: ArcSwap::new(link), origin: origin.map(Mutex::new) }, unstarted)
    }

    pub(super) async fn send(&self, octets: Vec<u8>) -> Result<(), McpClientError> {
        let link = self.link.load_full();
        // Whoever waits by now is told when it is lost; what was lost before answers nothing.
        if link.is_lost.load(Ordering::Acquire) {
            return Err(McpClientError::Closed);
        }
        link.outbox.send(octets).await.map_err(|_| McpClientError::Closed)
    }

    /// Sends a message if there is room for it: what a server that does not read can do without.
    pub(super) fn try_send(&self, octets: Vec<u8>) {
        let _is_taken = self.link.load().outbox.try_send(octets);
    }

    /// Whether the other end is started again when it has gone.
    pub(super) const fn can_reopen(&self) -> bool {
        self.origin.is_some()
    }

    /// Starts the other end again, if it has gone.
    pub(super) async fn reopen(&self, conversation: &Arc<Conversation>) -> Result<(), McpClientError> {
        let Some(origin) = &self.origin else { return Ok(()) };
        let link = self.link.load_full();
        if *link.closing.borrow() {
            return Err(McpClientError::Closed);
        }
        if link.outbox.is_closed() {
            // What does not read any more is about to end.
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

    /// Sends nothing more, and waits until the other end has noticed.
    pub(super) async fn close(&self) {
        let link = self.link.load_full();
        link.closing.send_replace(true);
        link.ended().await;
    }
}

impl Link {
    fn new(ends: Ends) -> (Arc<Self>, Unstarted) {
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        let (close, closing) = watch::channel(false);
        let (end, over) = watch::channel(());
        let link = Arc::new(Self { outbox, closing: close, over, is_lost: AtomicBool::new(false) });
        let unstarted = Unstarted { ends, messages, closing, over: end, link: Arc::downgrade(&link) };
        (link, unstarted)
    }

    /// Ready when all is over.
    async fn ended(&self) {
        let mut over = self.over.clone();
        while over.changed().await.is_ok() {}
    }
}

impl Unstarted {
    /// Begins to read and write, for as long as there is `conversation`.
    pub(crate) fn start(self, conversation: &Arc<Conversation>) {
        let bytes_max = conversation.options.message_bytes_max;
        let Ends { input, output, child, exit_wait } = self.ends;
        let near = Near { conversation: Arc::downgrade(conversation), link: self.link };
        let mut reading = conversation.runtime.spawn(read(near.clone(), input, bytes_max));
        let mut closing = self.closing.clone();
        let writing = conversation.runtime.spawn(write(output, self.messages, self.closing, exit_wait));
        let over = self.over;
        conversation.runtime.spawn(async move {
            if let Some(child) = child {
                child.see_out(writing, exit_wait).await;
            } else {
                tokio::select! {
                    _ = &mut reading => {}
                    // Told or dropped, it means the same.
                    _ = closing.changed() => drop(writing.await),
                }
            }
            // What it has written is read to its end, unless somebody keeps that open.
            if !reading.is_finished() && tokio::time::timeout(exit_wait, &mut reading).await.is_err() {
                reading.abort();
            }
            near.lose();
            drop(over);
        });
    }
}

/// Those who are to know when the other end has gone.
#[derive(Clone)]
struct Near {
    conversation: Weak<Conversation>,
    link: Weak<Link>,
}

impl Near {
    /// Nothing comes any more: whoever waits is told. If the other end can be started again, that is done for
    /// the next request.
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
                tracing::warn!(suppressed, "the server has exited; the next request starts it again");
            }
        }
    }
}

/// Reads lines until there are no more, or nobody wants them.
async fn read(near: Near, mut input: Input, bytes_max: usize) {
    let mut lines = Lines::with_bytes_max(bytes_max);
    let mut invalid_lines = InvalidLines::default();
    let Some(mut budget) = near.conversation.upgrade().map(|conversation| conversation.wait_budget()) else {
        return;
    };
    while receive(&mut input, lines.room()).await.is_ok_and(|read| read > 0) {
        let Some(conversation) = near.conversation.upgrade() else { return };
        while let Some(line) = lines.next_line() {
            match line {
                // Whose answer it is shows at its end.
                Line::TooLong => {}
                Line::Passed(Passed::Request(id)) => conversation.refuse_too_large(id),
                Line::Passed(passed) => conversation.incoming.handle_passed(&passed),
                Line::Whole(line) => conversation.handle_line(line, &mut invalid_lines, &mut budget).await,
            }
        }
        if invalid_lines.are_too_many() {
            return conversation.incoming.close(&McpClientError::MessageInvalid);
        }
    }
    if let (Some(conversation), Some(Line::Whole(line))) = (near.conversation.upgrade(), lines.rest()) {
        // What the end has cut off is no message.
        let _ = conversation.handle_octets(line, &mut budget).await;
    }
    near.lose();
}

/// Appends the bytes that have arrived; 0 at the end.
async fn receive(input: &mut Input, bytes: &mut Vec<u8>) -> io::Result<usize> {
    bytes.reserve(PIPE_BYTES);
    input.read_buf(bytes).await
}

/// Writes messages until there will be no more: what is there then is written too, if the other end takes it
/// in time.
async fn write(
    mut output: Output,
    messages: mpsc::Receiver<Vec<u8>>,
    mut closing: watch::Receiver<bool>,
    exit_wait: Duration,
) {
    let writing = write_all(&mut output, messages, closing.clone());
    let patience = async {
        // Told or dropped, it means the same.
        let _ = closing.changed().await;
        tokio::time::sleep(exit_wait).await;
    };
    tokio::select! {
        () = writing => {}
        () = patience => {}
    }
    // A pipe ends when it is dropped.
    let _ = output.shutdown().await;
}

async fn write_all(
    output: &mut Output,
    mut messages: mpsc::Receiver<Vec<u8>>,
    mut closing: watch::Receiver<bool>,
) {
    let mut octets = Vec::new();
    loop {
        tokio::select! {
            biased;
            message = messages.recv() => match message {
                Some(message) => append_line(&mut octets, &message),
                None => return,
            },
            _ = closing.changed() => return,
        }
        while octets.len() < BATCH_BYTES
            && let Ok(message) = messages.try_recv()
        {
            append_line(&mut octets, &message);
        }
        if output.write_all(&octets).await.is_err() {
            return;
        }
        octets.clear();
        octets.shrink_to(BATCH_BYTES);
    }
}

fn append_line(octets: &mut Vec<u8>, message: &[u8]) {
    octets.extend_from_slice(message);
    octets.push(b'\n');
}

/// How many messages wait to be written before callers do.
const MESSAGES_MAX: usize = 64;

/// How much is written at once; a larger buffer is given back.
const BATCH_BYTES: usize = 64 << 10;
