//! Writes a log on a separate thread, so that no other thread waits for a slow disk, a terminal or a full
//! pipe. The caller chooses the target and formats the lines.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A thread that writes the lines of several buffers to one target. `S` is the type of a setting that each
/// buffer stores, such as the format of log lines.
///
/// Each buffer has a maximum size. Lines that do not fit are dropped and counted, so that logging never
/// waits.
///
/// ```
/// use std::io::Write;
/// use std::time::Duration;
///
/// use thruway_net::{LogTarget, LogWriter, LogWriterConfig};
///
/// struct Stderr;
///
/// impl LogTarget for Stderr {
///     fn write(&mut self, bytes: &[u8]) {
///         let _ = std::io::stderr().write_all(bytes);
///     }
///
///     fn report_dropped(&mut self, lines: u64) {
///         eprintln!("{lines} lines were dropped");
///     }
/// }
///
/// let config = LogWriterConfig {
///     thread_name: "log",
///     buffer_bytes_max: 64 << 10,
///     kept_bytes_max: 16 << 10,
///     write_every: Some(Duration::from_millis(100)),
/// };
/// let writer = LogWriter::start(config, (), Stderr)?;
/// let buffer = writer.add_buffer();
/// buffer.append(|bytes, ()| bytes.extend_from_slice(b"a line\n"));
/// assert_eq!(writer.finish(), 0);
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct LogWriter<S> {
    buffers: Arc<Mutex<Buffers<S>>>,
    buffer_bytes_max: usize,
    commands: Sender<Command<S>>,
    lost: Arc<AtomicU64>,
}

/// Numbers of lines that a log did not write, since its start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DroppedLines {
    /// Lines that were dropped because a buffer was full.
    pub buffer_full: u64,
    /// Lines that were lost because the target failed.
    pub target_failed: u64,
}

/// Settings of a [`LogWriter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogWriterConfig {
    /// Name of the thread.
    pub thread_name: &'static str,
    /// Maximum number of unwritten bytes in one buffer.
    pub buffer_bytes_max: usize,
    /// Number of bytes of memory that the thread keeps allocated for the next lines.
    pub kept_bytes_max: usize,
    /// Interval at which the thread writes the buffers. With `None`,
    /// [`append_line`](LogWriter::append_line) makes the thread write each line immediately.
    pub write_every: Option<Duration>,
}

/// Destination of the lines.
pub trait LogTarget: Send {
    /// Writes `bytes`, which are complete lines. `bytes` may be empty. The implementation must handle its
    /// own errors.
    fn write(&mut self, bytes: &[u8]);

    /// Reports that `lines` lines were dropped since the last report.
    fn report_dropped(&mut self, lines: u64);

    /// Reopens the destination, such as a log file that another program has renamed.
    fn reopen(&mut self) {}

    /// Returns `true` if the target accepts lines now. While it returns `false`, the lines wait in their
    /// buffers, and the writer thread asks again at its next write. The default target accepts lines at all
    /// times.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Returns the number of lines that the target has lost since the last call. The default target reports
    /// no losses.
    fn take_lost(&mut self) -> u64 {
        0
    }

    /// Ends the target. Lines that it has accepted but not sent are then lost.
    fn close(&mut self) {}
}

/// Unwritten lines of one thread. Only the thread that logs and the writer thread lock the buffer. The
/// writer thread holds the lock only while it removes the lines.
pub struct LogBuffer<S>(Mutex<Waiting<S>>);

struct Waiting<S> {
    setting: S,
    bytes: Vec<u8>,
    bytes_max: usize,
    dropped: u64,
}

/// All buffers, and the setting for new buffers.
struct Buffers<S> {
    setting: S,
    list: Vec<Arc<LogBuffer<S>>>,
    /// Lines that were dropped by buffers that are no longer in the list.
    dropped_before: u64,
}

enum Command<S> {
    /// Writes the lines of all buffers. Ends the thread if `is_last` is `true`.
    Write {
        is_last: bool,
        done: Option<Sender<()>>,
    },
    Reopen,
    Replace(S, Box<dyn LogTarget>),
}

impl<S: Clone + Send + 'static> LogWriter<S> {
    /// Starts the writer thread.
    ///
    /// # Errors
    /// The operating system refuses to create a thread.
    pub fn start(config: LogWriterConfig, setting: S, target: impl LogTarget + 'static) -> io::Result<Self> {
        let buffers = Arc::new(Mutex::new(Buffers { setting, list: Vec::new(), dropped_before: 0 }));
        let (commands, receiver) = channel();
        let lost = Arc::new(AtomicU64::new(0));
        let (of_thread, lost_by_thread) = (buffers.clone(), lost.clone());
        let run = move || run(config, Box::new(target), &of_thread, &receiver, &lost_by_thread);
        thread::Builder::new().name(config.thread_name.to_owned()).spawn(run)?;
        Ok(Self { buffers, buffer_bytes_max: config.buffer_bytes_max, commands, lost })
    }

    /// Adds a buffer for one more thread that logs.
    pub fn add_buffer(&self) -> Arc<LogBuffer<S>> {
        let mut buffers = lock(&self.buffers);
        let setting = buffers.setting.clone();
        let bytes_max = self.buffer_bytes_max;
        let waiting = Waiting { setting, bytes: Vec::new(), bytes_max, dropped: 0 };
        let buffer = Arc::new(LogBuffer(Mutex::new(waiting)));
        // Removes the buffers of ended threads. A buffer without another owner gets no more lines, and can
        // be removed when all its lines are written.
        let Buffers { list, dropped_before, .. } = &mut *buffers;
        list.retain(|buffer| {
            let waiting = lock(&buffer.0);
            let is_used = Arc::strong_count(buffer) > 1 || !waiting.bytes.is_empty();
            if !is_used {
                *dropped_before += waiting.dropped;
            }
            is_used
        });
        list.push(buffer.clone());
        buffer
    }

    /// Appends `line` to `buffer` and makes the writer thread write the line immediately. If the line does
    /// not fit, drops and counts the line.
    pub fn append_line(&self, buffer: &LogBuffer<S>, line: &[u8]) {
        let was_empty = {
            let mut waiting = lock(&buffer.0);
            if waiting.bytes.len() + line.len() > waiting.bytes_max {
                waiting.dropped += 1;
                return;
            }
            let was_empty = waiting.bytes.is_empty();
            waiting.bytes.extend_from_slice(line);
            was_empty
        };
        // If the buffer was not empty, a write command is already pending.
        if was_empty {
            let _ = self.commands.send(Command::Write { is_last: false, done: None });
        }
    }

    /// Replaces the target and the setting of all buffers. The writer thread first writes the pending lines
    /// to the previous target, so the replacement completes after this function returns. Some changes of
    /// the setting must apply immediately. For such changes, this function calls `at_once` with the current
    /// setting of each buffer before it returns.
    pub fn replace(&self, setting: S, target: impl LogTarget + 'static, at_once: impl Fn(&mut S)) {
        {
            let mut buffers = lock(&self.buffers);
            at_once(&mut buffers.setting);
            for buffer in &buffers.list {
                at_once(&mut lock(&buffer.0).setting);
            }
        }
        let _ = self.commands.send(Command::Replace(setting, Box::new(target)));
    }

    /// Makes the writer thread reopen the target. Returns before the target is reopened.
    pub fn reopen(&self) {
        // Sending fails only after the thread has finished. A finished thread has no target to reopen.
        let _ = self.commands.send(Command::Reopen);
    }

    /// Waits until the pending lines are written, but no longer than one second.
    pub fn flush(&self) {
        self.write(false);
    }

    /// Writes the remaining lines and ends the thread. Waits no longer than one second. Returns the number
    /// of lines that were dropped since the start.
    pub fn finish(&self) -> u64 {
        self.write(true);
        let dropped = self.dropped();
        dropped.buffer_full + dropped.target_failed
    }

    /// Returns the numbers of lines that were not written since the start.
    pub fn dropped(&self) -> DroppedLines {
        DroppedLines {
            buffer_full: lock(&self.buffers).dropped(),
            target_failed: self.lost.load(Ordering::Relaxed),
        }
    }

    fn write(&self, is_last: bool) {
        let (done, finished) = channel();
        let _ = self.commands.send(Command::Write { is_last, done: Some(done) });
        let _ = finished.recv_timeout(FINISH_WITHIN);
    }
}

impl<S> Buffers<S> {
    /// Returns the number of lines that the buffers have dropped since the start.
    fn dropped(&self) -> u64 {
        self.dropped_before + self.list.iter().map(|buffer| lock(&buffer.0).dropped).sum::<u64>()
    }
}

impl<S> LogBuffer<S> {
    /// Calls `write`, which appends a line to the buffer. If the buffer is full, counts a dropped line
    /// instead.
    #[inline]
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>, &S)) {
        self.append_if(|_| true, write);
    }

    /// Does the same as [`append`](Self::append), but only if `is_wanted` returns `true` for the setting. A
    /// full buffer counts only wanted lines as dropped.
    #[inline]
    pub fn append_if(&self, is_wanted: impl FnOnce(&S) -> bool, write: impl FnOnce(&mut Vec<u8>, &S)) {
        let waiting = &mut *lock(&self.0);
        if !is_wanted(&waiting.setting) {
            return;
        }
        if waiting.bytes.len() < waiting.bytes_max {
            write(&mut waiting.bytes, &waiting.setting);
        } else {
            waiting.dropped += 1;
        }
    }
}

/// Body of the writer thread: executes commands and writes the lines of all buffers, until the last
/// command.
fn run<S: Clone>(
    config: LogWriterConfig,
    mut target: Box<dyn LogTarget>,
    buffers: &Mutex<Buffers<S>>,
    commands: &Receiver<Command<S>>,
    lost: &AtomicU64,
) {
    let mut bytes = Vec::new();
    let mut reported = 0;
    loop {
        let command = match config.write_every {
            Some(interval) => commands.recv_timeout(interval),
            None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let (mut ends, mut acknowledge, mut next) = (false, None, None);
        match command {
            Ok(Command::Write { is_last, done }) => (ends, acknowledge) = (is_last, done),
            Ok(Command::Reopen) => target.reopen(),
            Ok(Command::Replace(setting, target)) => {
                lock(buffers).setting = setting;
                next = Some(target);
            }
            Err(RecvTimeoutError::Disconnected) => ends = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        // Without this attempt, the lines would stay in the buffers, because the caller waits for them or the
        // target ends.
        let is_forced = ends || acknowledge.is_some() || next.is_some();
        write_all(&mut *target, buffers, &mut bytes, is_forced);
        if ends || next.is_some() {
            target.close();
        }
        lost.fetch_add(target.take_lost(), Ordering::Relaxed);
        let dropped = lock(buffers).dropped();
        if dropped > reported {
            target.report_dropped(dropped - reported);
        }
        reported = dropped;
        if let Some(done) = acknowledge {
            let _ = done.send(());
        }
        if ends {
            return;
        }
        if let Some(next) = next {
            target = next;
        }
        bytes.clear();
        bytes.shrink_to(config.kept_bytes_max);
    }
}

/// Writes the lines of all buffers, and copies the current setting to each buffer. If the target is not ready
/// and `is_forced` is `false`, the lines stay in the buffers.
fn write_all<S: Clone>(
    target: &mut dyn LogTarget,
    buffers: &Mutex<Buffers<S>>,
    bytes: &mut Vec<u8>,
    is_forced: bool,
) {
    let all = lock(buffers).list.clone();
    for buffer in all {
        let is_written = target.is_ready() || is_forced;
        // The swap below gives this empty vector to the buffer, so that neither thread allocates memory in
        // the long run.
        bytes.clear();
        {
            // Takes both locks, in the same order as `replace`. If this code released the first lock
            // earlier, it could overwrite a new setting from `replace` with the old setting.
            let buffers = lock(buffers);
            let mut waiting = lock(&buffer.0);
            if is_written {
                std::mem::swap(&mut waiting.bytes, bytes);
            }
            waiting.setting = buffers.setting.clone();
        }
        if is_written {
            target.write(bytes);
        }
    }
}

/// Locks `mutex` even if another thread has panicked, because a panic cannot leave the counters or bytes
/// inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const FINISH_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that reports each write, and waits for permission to continue.
    struct Reader {
        written: Sender<Vec<u8>>,
        allowed: Receiver<()>,
        dropped: Sender<u64>,
    }

    impl LogTarget for Reader {
        fn write(&mut self, bytes: &[u8]) {
            if !bytes.is_empty() {
                let _ = self.written.send(bytes.to_vec());
                let _ = self.allowed.recv();
            }
        }

        fn report_dropped(&mut self, lines: u64) {
            let _ = self.dropped.send(lines);
        }
    }

    struct Test {
        writer: LogWriter<()>,
        buffer: Arc<LogBuffer<()>>,
        allow: Sender<()>,
        found: Receiver<Vec<u8>>,
        dropped: Receiver<u64>,
    }

    fn start() -> Test {
        let ((allow, allowed), (written, found), (report, dropped)) = (channel(), channel(), channel());
        let config = LogWriterConfig {
            thread_name: "log",
            buffer_bytes_max: BYTES_MAX,
            kept_bytes_max: 16 << 10,
            write_every: None,
        };
        let writer = LogWriter::start(config, (), Reader { written, allowed, dropped: report }).unwrap();
        let buffer = writer.add_buffer();
        Test { writer, buffer, allow, found, dropped }
    }

    const BYTES_MAX: usize = 1 << 20;

    #[test]
    fn logging_does_not_block_and_counts_dropped_lines() {
        let Test { writer, buffer, allow, found, dropped } = start();
        writer.append_line(&buffer, b"first\n");
        assert_eq!(found.recv().unwrap(), b"first\n");
        let line = vec![b'a'; BYTES_MAX / 4];
        (0..20).for_each(|_| writer.append_line(&buffer, &line));
        assert_eq!(lock(&buffer.0).bytes.len(), BYTES_MAX);
        // The reader reads nothing, but this call still returns.
        writer.flush();
        drop(allow);
        writer.flush();
        assert_eq!(found.try_iter().flatten().count(), BYTES_MAX);
        assert_eq!(dropped.try_iter().sum::<u64>(), 16);
        assert_eq!(writer.finish(), 16);
    }

    /// A target that is not ready before the test allows it, and loses each line without a line break.
    struct Gate {
        is_open: Receiver<()>,
        asked: Sender<()>,
        written: Sender<Vec<u8>>,
        lost: u64,
    }

    impl LogTarget for Gate {
        fn write(&mut self, bytes: &[u8]) {
            match bytes {
                b"" => {}
                [.., b'\n'] => drop(self.written.send(bytes.to_vec())),
                _ => self.lost += 1,
            }
        }

        fn report_dropped(&mut self, _: u64) {}

        fn is_ready(&mut self) -> bool {
            let _ = self.asked.send(());
            self.is_open.try_recv().is_ok()
        }

        fn take_lost(&mut self) -> u64 {
            std::mem::take(&mut self.lost)
        }
    }

    #[test]
    fn lines_wait_in_their_buffer_until_the_target_is_ready() {
        let ((open, is_open), (asked, asks), (written, found)) = (channel(), channel(), channel());
        let config = LogWriterConfig {
            thread_name: "log",
            buffer_bytes_max: 10,
            kept_bytes_max: 10,
            write_every: Some(Duration::from_millis(1)),
        };
        let writer = LogWriter::start(config, (), Gate { is_open, asked, written, lost: 0 }).unwrap();
        let buffer = writer.add_buffer();
        let append = |line: &[u8]| buffer.append(|bytes, ()| bytes.extend_from_slice(line));
        append(b"123456789\n");
        append(b"dropped\n");
        (0..3).for_each(|_| asks.recv().unwrap());
        assert!(found.try_recv().is_err());
        open.send(()).unwrap();
        assert_eq!(found.recv().unwrap(), b"123456789\n");
        append(b"lost");
        assert_eq!(writer.finish(), 2);
        assert_eq!(writer.dropped(), DroppedLines { buffer_full: 1, target_failed: 1 });
    }

    #[test]
    fn dropped_lines_of_an_ended_thread_stay_counted() {
        let Test { writer, buffer, allow, .. } = start();
        drop(allow);
        writer.append_line(&buffer, &vec![b'a'; BYTES_MAX + 1]);
        drop(buffer);
        drop(writer.add_buffer());
        assert_eq!(writer.dropped().buffer_full, 1);
    }

    #[test]
    fn unwanted_lines_are_not_counted_as_dropped() {
        let Test { writer, buffer, .. } = start();
        lock(&buffer.0).bytes_max = 0;
        buffer.append_if(|()| false, |_, ()| panic!("the line is not wanted"));
        assert_eq!(writer.dropped().buffer_full, 0);
        buffer.append_if(|()| true, |_, ()| panic!("the buffer is full"));
        assert_eq!(writer.dropped().buffer_full, 1);
    }

    #[test]
    fn flush_and_finish_write_all_lines() {
        let Test { writer, buffer, allow, found, .. } = start();
        drop(allow);
        let lines: Vec<_> = (0..1_000).map(|n| n.to_string() + "\n").collect();
        lines[..500].iter().for_each(|line| writer.append_line(&buffer, line.as_bytes()));
        writer.flush();
        let bytes: Vec<u8> = found.try_iter().flatten().collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), lines[..500].concat());
        lines[500..]
            .iter()
            .for_each(|line| buffer.append(|bytes, ()| bytes.extend_from_slice(line.as_bytes())));
        writer.finish();
        let bytes: Vec<u8> = found.try_iter().flatten().collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), lines[500..].concat());
        writer.finish();
    }
}
