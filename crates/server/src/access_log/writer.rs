//! The thread that writes access logs, and the buffers it empties.

use std::io;
use std::mem::take;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::format::AccessLogLines;
use super::sink::OpenTarget;

/// The buffers of all workers and the thread that empties them.
pub(super) struct Writer {
    workers: Arc<Mutex<Workers>>,
    commands: Sender<Command>,
    finished: Mutex<Receiver<()>>,
}

/// The buffers of all workers, and what is written into one that is added.
struct Workers {
    style: AccessLogLines,
    lines: Vec<Arc<Lines>>,
}

/// The lines of one worker that are not written yet. Only this worker and the thread ever hold the lock, and the
/// thread only to take the buffer away.
pub(super) struct Lines(Mutex<Buffer>);

struct Buffer {
    style: AccessLogLines,
    octets: Vec<u8>,
    dropped: u64,
}

/// What the thread is told.
enum Command {
    Finish,
    Reopen,
    Replace(AccessLogLines, OpenTarget),
}

impl Writer {
    pub(super) fn start(style: AccessLogLines, target: OpenTarget) -> io::Result<Self> {
        let workers = Arc::new(Mutex::new(Workers { style, lines: Vec::new() }));
        let (commands, receiver) = channel();
        let (done, finished) = channel();
        let of_thread = workers.clone();
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            run(target, &of_thread, &receiver);
            let _ = done.send(());
        })?;
        Ok(Self { workers, commands, finished: Mutex::new(finished) })
    }

    /// The buffer of one more worker.
    pub(super) fn add_worker(&self) -> Arc<Lines> {
        let mut workers = lock(&self.workers);
        let style = workers.style.clone();
        let lines = Arc::new(Lines(Mutex::new(Buffer { style, octets: Vec::new(), dropped: 0 })));
        // Those whose worker takes other records now are empty at last.
        workers.lines.retain(|lines| Arc::strong_count(lines) > 1 || !lock(&lines.0).octets.is_empty());
        workers.lines.push(lines.clone());
        lines
    }

    pub(super) fn replace(&self, style: AccessLogLines, target: OpenTarget) {
        {
            // The first request with a key under a new name may come before the thread has replaced the
            // style.
            let mut workers = lock(&self.workers);
            workers.style.masked_parameters = style.masked_parameters.clone();
            for lines in &workers.lines {
                lock(&lines.0).style.masked_parameters = style.masked_parameters.clone();
            }
        }
        let _ = self.commands.send(Command::Replace(style, target));
    }

    pub(super) fn reopen(&self) {
        // A thread that has finished has nothing to open again.
        let _ = self.commands.send(Command::Reopen);
    }

    pub(super) fn finish(&self) -> u64 {
        let _ = self.commands.send(Command::Finish);
        let _ = lock(&self.finished).recv_timeout(FINISH_WITHIN);
        lock(&self.workers).lines.iter().map(|lines| lock(&lines.0).dropped).sum()
    }
}

impl Lines {
    /// Lets `write` append a line, or counts it as dropped.
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>, &AccessLogLines)) {
        let buffer = &mut *lock(&self.0);
        if buffer.octets.len() < BUFFER_BYTES_MAX {
            write(&mut buffer.octets, &buffer.style);
        } else {
            buffer.dropped += 1;
        }
    }
}

/// Writes what there is, a few times a second, until it is told to finish.
fn run(mut target: OpenTarget, workers: &Mutex<Workers>, commands: &Receiver<Command>) {
    let mut octets = Vec::new();
    let mut reported = 0;
    loop {
        let (mut is_last, mut next) = (false, None);
        match commands.recv_timeout(WRITE_EVERY) {
            Ok(Command::Finish) | Err(RecvTimeoutError::Disconnected) => is_last = true,
            Ok(Command::Reopen) => {
                target.reopen();
                tracing::info!("the access log was opened again");
            }
            Ok(Command::Replace(style, target)) => {
                lock(workers).style = style;
                next = Some(target);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let dropped = write_all(&mut target, workers, &mut octets);
        if dropped > reported {
            tracing::warn!(lines = dropped - reported, "the access log is too slow: lines were dropped");
        }
        reported = dropped;
        if is_last {
            return;
        }
        if let Some(next) = next {
            target = next;
        }
        if octets.capacity() > KEPT_BYTES_MAX {
            drop(take(&mut octets));
        }
    }
}

/// Writes what all workers have, and has them go on with the format that is wanted now. Returns how many lines they have
/// dropped since the start.
fn write_all(target: &mut OpenTarget, workers: &Mutex<Workers>, octets: &mut Vec<u8>) -> u64 {
    let all = lock(workers).lines.clone();
    let mut dropped = 0;
    for lines in all {
        // The worker gets the emptied buffer, so that neither side allocates in the steady state.
        octets.clear();
        {
            // Both locks, in the order of `replace`: an old style must not come back after it.
            let workers = lock(workers);
            let mut buffer = lock(&lines.0);
            std::mem::swap(&mut buffer.octets, octets);
            buffer.style = workers.style.clone();
            dropped += buffer.dropped;
        }
        target.write(octets);
    }
    dropped
}

/// Counting and appending cannot be interrupted half-way, so a panic elsewhere does not matter here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a worker keeps for a log that is too slow; beyond, lines are dropped. About a hundred thousand lines.
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// What the thread keeps for the next round.
const KEPT_BYTES_MAX: usize = 1 << 20;
const WRITE_EVERY: Duration = Duration::from_millis(100);
const FINISH_WITHIN: Duration = Duration::from_secs(1);
