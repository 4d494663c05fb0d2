//! The thread that writes what is logged: whoever logs waits neither for a slow terminal nor for a pipe that nobody reads.

use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use thruway_message::mask_userinfo;
use tracing_subscriber::fmt::MakeWriter;

/// Where lines go. Clones are the same.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// There is something to write.
    news: Condvar,
    /// All is written.
    rest: Condvar,
}

/// What is not written yet.
#[derive(Default)]
struct Waiting {
    octets: Vec<u8>,
    /// Lines for which there was no room.
    dropped: u64,
    is_writing: bool,
}

impl LogWriter {
    /// Has a thread write to `target`.
    pub(super) fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let writer = Self(Arc::default());
        let of_thread = writer.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || of_thread.run(target))?;
        Ok(writer)
    }

    /// Waits until all is written, but not for long.
    pub(super) fn finish(&self) {
        let is_left = |waiting: &mut Waiting| waiting.is_writing || !waiting.octets.is_empty();
        drop(self.0.rest.wait_timeout_while(self.lock(), FINISH_WITHIN, is_left));
    }

    fn run(&self, mut target: impl Write) {
        let mut octets = Vec::new();
        loop {
            let dropped = self.take(&mut octets);
            // Where nobody reads it, nobody misses it.
            let _ = target.write_all(&octets);
            octets.clear();
            octets.shrink_to(KEPT_BYTES_MAX);
            if dropped > 0 {
                tracing::warn!(lines = dropped, "the log is too slow: lines were dropped");
            }
        }
    }

    /// Waits for something to write, and takes it; how many lines were dropped behind it.
    fn take(&self, octets: &mut Vec<u8>) -> u64 {
        let mut waiting = self.lock();
        waiting.is_writing = false;
        if waiting.octets.is_empty() {
            self.0.rest.notify_all();
        }
        let is_idle = |waiting: &mut Waiting| waiting.octets.is_empty();
        let waited = self.0.news.wait_while(waiting, is_idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_writing = true;
        std::mem::swap(&mut waiting.octets, octets);
        take(&mut waiting.dropped)
    }

    /// Appending cannot be interrupted half-way, so a panic elsewhere does not matter here.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each call writes one line. Credentials in URLs are masked here, so that no part of the program can log
/// them.
impl Write for &LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let masked = str::from_utf8(line).map(mask_userinfo);
        let masked = masked.as_ref().map_or(line, |text| text.as_bytes());
        let mut waiting = self.lock();
        if waiting.octets.len() + masked.len() <= WAITING_BYTES_MAX {
            waiting.octets.extend_from_slice(masked);
            self.0.news.notify_one();
        } else {
            waiting.dropped += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = &'w Self;

    fn make_writer(&'w self) -> Self::Writer {
        self
    }
}

/// What waits for a log that is too slow; beyond, lines are dropped. About ten thousand lines.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// What the thread keeps for the next lines.
const KEPT_BYTES_MAX: usize = 16 << 10;
const FINISH_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that shows what it is given, and keeps the writer waiting until it is told not to.
    struct Reader {
        written: Sender<Vec<u8>>,
        allowed: Receiver<()>,
    }

    impl Write for Reader {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let _ = self.written.send(octets.to_vec());
            let _ = self.allowed.recv();
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Octets that wait, and lines that were dropped and not told of.
    fn left(writer: &LogWriter) -> (usize, u64) {
        let waiting = writer.lock();
        (waiting.octets.len(), waiting.dropped)
    }

    fn log(mut writer: &LogWriter, line: &[u8]) {
        writer.write_all(line).unwrap();
    }

    #[test]
    fn who_logs_does_not_wait_for_who_reads_and_what_does_not_fit_is_counted() {
        let ((allow, allowed), (written, found)) = (channel(), channel());
        let writer = LogWriter::start(Reader { written, allowed }).unwrap();
        log(&writer, b"first\n");
        assert_eq!(found.recv().unwrap(), b"first\n");
        let line = vec![b'a'; WAITING_BYTES_MAX / 4];
        (0..20).for_each(|_| log(&writer, &line));
        assert_eq!(left(&writer), (WAITING_BYTES_MAX, 16));
        // Nobody reads, and still this ends.
        writer.finish();
        drop(allow);
        writer.finish();
        assert_eq!(found.try_iter().flatten().count(), WAITING_BYTES_MAX);
        assert_eq!(left(&writer), (0, 0), "they were told");
    }

    /// A line about a URL that could not be fetched had the password in it.
    #[test]
    fn credentials_in_urls_are_masked() {
        let ((allow, allowed), (written, found)) = (channel::<()>(), channel());
        let writer = LogWriter::start(Reader { written, allowed }).unwrap();
        drop(allow);
        log(&writer, b"`http://bob:sesame@a.example/` failed\n");
        writer.finish();
        assert_eq!(found.recv().unwrap(), b"`http://**********@a.example/` failed\n");
    }

    #[test]
    fn at_the_end_all_is_written() {
        let ((allow, allowed), (written, found)) = (channel::<()>(), channel());
        let writer = LogWriter::start(Reader { written, allowed }).unwrap();
        drop(allow);
        let lines: Vec<_> = (0..1_000).map(|n| n.to_string() + "\n").collect();
        for line in &lines {
            log(&writer, line.as_bytes());
        }
        writer.finish();
        let octets: Vec<u8> = found.try_iter().flatten().collect();
        assert_eq!(String::from_utf8(octets).unwrap(), lines.concat());
    }
}
