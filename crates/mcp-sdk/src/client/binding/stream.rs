//! A stream of lines each way: a child process, a Unix socket, a server in the same process.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::super::conversation::Conversation;
use super::super::error::McpClientError;
use super::Child;
use crate::stdio::{Input, Line, Lines, Output};

/// The near end of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Messages to be written.
    outbox: mpsc::Sender<Vec<u8>>,
    /// Tells the writer that there will be no more; so does dropping it.
    closing: watch::Sender<bool>,
    /// Whether all is over: closed when it is.
    over: watch::Receiver<()>,
}

/// Both directions, before anything is sent.
pub(crate) struct Ends {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) child: Option<Child>,
    pub(crate) exit_wait: Duration,
}

/// What is to be driven once there is somebody to tell.
pub(crate) struct Unstarted {
    ends: Ends,
    messages: mpsc::Receiver<Vec<u8>>,
    closing: watch::Receiver<bool>,
    over: watch::Sender<()>,
}

impl Stream {
    pub(crate) fn new(ends: Ends) -> (Self, Unstarted) {
        let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
        let (close, closing) = watch::channel(false);
        let (end, over) = watch::channel(());
        let stream = Self { outbox, closing: close, over };
        (stream, Unstarted { ends, messages, closing, over: end })
    }

    pub(super) async fn send(&self, octets: Vec<u8>) -> Result<(), McpClientError> {
        self.outbox.send(octets).await.map_err(|_| McpClientError::Closed)
    }

    /// Sends a message if there is room for it: what a server that does not read can do without.
    pub(super) fn try_send(&self, octets: Vec<u8>) {
        let _is_taken = self.outbox.try_send(octets);
    }

    /// Sends nothing more, and waits until the other end has noticed.
    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        let mut over = self.over.clone();
        while over.changed().await.is_ok() {}
    }
}

impl Unstarted {
    /// Begins to read and write, for as long as there is `conversation`.
    pub(crate) fn start(self, conversation: &Arc<Conversation>) {
        let bytes_max = conversation.options.message_bytes_max;
        let Ends { input, output, child, exit_wait } = self.ends;
        let reading = conversation.runtime.spawn(read(Arc::downgrade(conversation), input, bytes_max));
        let writing = conversation.runtime.spawn(write(output, self.messages, self.closing, exit_wait));
        let weak = Arc::downgrade(conversation);
        let over = self.over;
        conversation.runtime.spawn(async move {
            if let Some(child) = child {
                child.see_out(writing, exit_wait).await;
                // What it has written is read to its end, unless a process that it has left behind keeps that open.
                let _ = tokio::time::timeout(exit_wait, reading).await;
            } else {
                let _ = reading.await;
            }
            close(&weak, &McpClientError::Closed);
            drop(over);
        });
    }
}

fn close(conversation: &Weak<Conversation>, reason: &McpClientError) {
    if let Some(conversation) = conversation.upgrade() {
        conversation.incoming.close(reason);
    }
}

/// Reads lines until there are no more, or nobody wants them.
async fn read(weak: Weak<Conversation>, mut input: Input, bytes_max: usize) {
    let mut lines = Lines::with_bytes_max(bytes_max);
    let mut invalid_lines = 0;
    while input.read(lines.room()).await.is_ok_and(|read| read > 0) {
        let Some(conversation) = weak.upgrade() else { return };
        while let Some(line) = lines.next() {
            match line {
                // Whose answer it was cannot be told.
                Line::TooLong => conversation.incoming.fail_all(&McpClientError::MessageTooLarge),
                Line::Whole(line) if line.trim_ascii().is_empty() => {}
                Line::Whole(line) if conversation.handle_octets(line).is_ok() => {}
                Line::Whole(_) => invalid_lines += 1,
            }
        }
        if invalid_lines > INVALID_LINES_MAX {
            return conversation.incoming.close(&McpClientError::MessageInvalid);
        }
    }
    if let (Some(conversation), Some(line)) = (weak.upgrade(), lines.rest()) {
        // What the end has cut off is no message.
        let _ = conversation.handle_octets(line);
    }
    close(&weak, &McpClientError::Closed);
}

/// Writes messages until there will be no more: what is there then is written too, if the other end takes it in time.
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
    output.finish().await;
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
        if output.write(&octets).await.is_err() {
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

/// How many lines may be no messages: programs print greetings, but not for ever.
const INVALID_LINES_MAX: usize = 1000;
