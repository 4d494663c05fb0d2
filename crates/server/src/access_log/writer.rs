//! The thread that writes access logs, and the buffers it empties.

use std::io;
use std::mem::take;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::AccessLogTarget;
use super::sink::Sink;

/// The buffers of all workers and the thread that empties them.
pub(super) struct Writer {
    workers: Arc<Mutex<Vec<Arc<Lines>>>>,
    commands: Sender<Command>,
    finished: Mutex<Receiver<()>>,
}

/// The lines of one worker that are not written yet. Only this worker and the thread ever hold the lock, and the
/// thread only to take the buffer away.
#[derive(Default)]
pub(super) struct Lines(Mutex<Buffer>);

#[derive(Default)]
struct Buffer {
    octets: Vec<u8>,
    dropped: u64,
}

/// What the thread is told.
enum Command {
    Finish,
    Reopen,
}

impl Writer {
    pub(super) fn start(target: &AccessLogTarget) -> io::Result<Self> {
        let sink = Sink::open(target)?;
        let workers = Arc::<Mutex<Vec<Arc<Lines>>>>::default();
        let (commands, receiver) = channel();
        let (done, finished) = channel();
        let of_thread = workers.clone();
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            run(sink, &of_thread, &receiver);
            let _ = done.send(());
        })?;
        Ok(Self { workers, commands, finished: Mutex::new(finished) })
    }

    /// The buffer of one more worker.
    pub(super) fn add_worker(&self) -> Arc<Lines> {
        let lines = Arc::<Lines>::default();
        lock(&self.workers).push(lines.clone());
        lines
    }

    pub(super) fn reopen(&self) {
        // A thread that has finished has nothing to open again.
        let _ = self.commands.send(Command::Reopen);
    }

    pub(super) fn finish(&self) -> u64 {
        let _ = self.commands.send(Command::Finish);
        let _ = lock(&self.finished).recv_timeout(FINISH_WITHIN);
        lock(&self.workers).iter().map(|lines| lock(&lines.0).dropped).sum()
    }
}

impl Lines {
    /// Lets `write` append a line, or counts it as dropped.
    pub(super) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = lock(&self.0);
        if buffer.octets.len() < BUFFER_BYTES_MAX {
            write(&mut buffer.octets);
        } else {
            buffer.dropped += 1;
        }
    }
}

/// Writes what there is, a few times a second, until it is told to finish.
fn run(mut sink: Sink, workers: &Mutex<Vec<Arc<Lines>>>, commands: &Receiver<Command>) {
    let mut octets = Vec::new();
    let mut reported = 0;
    loop {
        let command = commands.recv_timeout(WRITE_EVERY);
        let is_last = matches!(command, Ok(Command::Finish) | Err(RecvTimeoutError::Disconnected));
        if matches!(command, Ok(Command::Reopen)) {
            sink.reopen();
            tracing::info!("the access log was opened again");
        }
        let mut dropped = 0;
        let all: Vec<Arc<Lines>> = lock(workers).clone();
        for lines in all {
            // The worker gets the emptied buffer, so that neither side allocates in the steady state.
            octets.clear();
            {
                let mut buffer = lock(&lines.0);
                std::mem::swap(&mut buffer.octets, &mut octets);
                dropped += buffer.dropped;
            }
            sink.write(&octets);
        }
        if dropped > reported {
            tracing::warn!(lines = dropped - reported, "the access log is too slow: lines were dropped");
            reported = dropped;
        }
        if is_last {
            return;
        }
        if octets.capacity() > KEPT_BYTES_MAX {
            drop(take(&mut octets));
        }
    }
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
