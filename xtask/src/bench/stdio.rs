//! Loads a child process over its standard input and output, one message a line.

use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::measure::with_cpu_time;
use super::metric::{Metric, Sample};
use super::prepare::Prepared;
use super::request::Request;
use super::server::{CLIENT_CORE, stdio_command};
use crate::child::{self, Running};
use crate::stop::{Stop, now};

/// How a child is loaded.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) request: Request,
    /// Messages that are unanswered at a time.
    pub(super) window: u32,
    pub(super) seconds: u32,
}

/// Runs a load against a freshly started child.
///
/// # Errors
/// Anything that makes the run no result; with the end of what the child printed besides.
pub(super) fn run(prepared: &Prepared, load: Load, stop: &Stop) -> anyhow::Result<Sample> {
    let errors = tempfile::NamedTempFile::new()?;
    let (running, input, output) = Running::start_with_pipes(stdio_command(prepared)?, errors.path())?;
    let id = running.id();
    let _pinned = Pinned::to(CLIENT_CORE)?;
    let limit = Duration::from_secs(u64::from(load.seconds)) + EXTRA;
    let loaded =
        guarded(running, limit, stop, || load_child(Pipes::new(input, output, load.request), id, load));
    loaded.map_err(|error| match child::tail(&std::fs::read_to_string(errors.path()).unwrap_or_default()) {
        tail if tail.is_empty() => error,
        tail => anyhow!("{error:#}\nthe server printed\n{tail}"),
    })
}

fn load_child(mut pipes: Pipes, id: u32, load: Load) -> anyhow::Result<Sample> {
    pipes.greet()?;
    pipes.exchange_first()?;
    pipes.run(load.window, |answered| answered < WARM_UP)?;
    with_cpu_time(id, || {
        let (start, duration) = (now(), Duration::from_secs(u64::from(load.seconds)));
        let answered = pipes.run(load.window, |_| start.elapsed() < duration)?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = answered as f64 / start.elapsed().as_secs_f64();
        Ok((answered, Sample::from([(Metric::RequestsPerSecond, rate)])))
    })
}

/// Runs `load`, and ends the child when it takes too long or it is time to end: then nothing is left to wait for.
pub(super) fn guarded<T: Send>(
    running: Running,
    limit: Duration,
    stop: &Stop,
    load: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let guard = scope.spawn(move || {
            let over = stop.wait("the load to end", limit, || {
                Ok(matches!(is_done.try_recv(), Err(mpsc::TryRecvError::Disconnected)).then_some(()))
            });
            drop(running);
            over
        });
        let loaded = load();
        drop(done);
        let over = guard.join().map_err(|_| anyhow!("the guard of the load panicked"))?;
        over.and(loaded)
    })
}

/// The two ends of a child.
struct Pipes {
    input: ChildStdin,
    output: ChildStdout,
    request: Request,
    /// A message, and where its id is.
    message: Vec<u8>,
    message_id: usize,
    /// The first answer, and where its id is: all others must be the same.
    answer: Vec<u8>,
    answer_id: usize,
    next_id: u32,
    /// What was read and is not a whole line yet.
    unread: Vec<u8>,
    buffer: Box<[u8]>,
    sent: Tally,
    answered: Tally,
}

/// How many ids there were, and their sum: that of a message and that of its answer are the same.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Tally {
    count: u64,
    ids: u64,
}

impl Tally {
    fn add(&mut self, id: u32) {
        self.count += 1;
        self.ids += u64::from(id);
    }
}

impl Pipes {
    fn new(input: ChildStdin, output: ChildStdout, request: Request) -> Self {
        let message = format!("{}\n", request.message(FIRST_ID)).into_bytes();
        Self {
            input,
            output,
            request,
            message_id: find_id(&message).unwrap_or_default(),
            message,
            answer: Vec::new(),
            answer_id: 0,
            next_id: FIRST_ID,
            unread: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into(),
            sent: Tally::default(),
            answered: Tally::default(),
        }
    }

    /// Says what comes before all messages.
    fn greet(&mut self) -> anyhow::Result<()> {
        for (message, is_answered) in self.request.greeting() {
            self.input.write_all(format!("{message}\n").as_bytes())?;
            if is_answered {
                self.read_line()?;
            }
        }
        Ok(())
    }

    /// Sends the first message and checks its answer to the letter.
    fn exchange_first(&mut self) -> anyhow::Result<()> {
        self.send(1)?;
        let answer = self.read_line()?;
        self.request.check_message(str::from_utf8(&answer)?)?;
        self.answer_id = find_id(&answer).context("the answer has another id")?;
        self.answer = answer;
        self.answered.add(FIRST_ID);
        Ok(())
    }

    /// Keeps `window` messages unanswered for as long as `goes_on` says so of the answers so far, then waits for the last
    /// ones; how many were answered.
    fn run(&mut self, window: u32, goes_on: impl Fn(u64) -> bool) -> anyhow::Result<u64> {
        let before = self.answered.count;
        self.send(window)?;
        while goes_on(self.answered.count - before) {
            let n = self.receive()?;
            self.send(n)?;
        }
        while self.answered.count < self.sent.count {
            self.receive()?;
        }
        ensure!(self.answered == self.sent, "an id was answered twice, and another one not");
        ensure!(self.unread.is_empty(), "the server sent octets after the last answer");
        Ok(self.answered.count - before)
    }

    /// Sends so many messages with one write.
    fn send(&mut self, n: u32) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(self.message.len() * n as usize);
        for _ in 0..n {
            let start = batch.len() + self.message_id;
            batch.extend_from_slice(&self.message);
            batch[start..start + ID_DIGITS].copy_from_slice(self.next_id.to_string().as_bytes());
            self.sent.add(self.next_id);
            self.next_id = if self.next_id == LAST_ID { FIRST_ID } else { self.next_id + 1 };
        }
        Ok(self.input.write_all(&batch)?)
    }

    /// Reads what is there, at least one octet, and checks the answers in it; how many there were.
    fn receive(&mut self) -> anyhow::Result<u32> {
        let n = self.read()?;
        let mut unread = std::mem::take(&mut self.unread);
        let mut answers = 0;
        let mut rest = &self.buffer[..n];
        while let Some(end) = rest.iter().position(|&octet| octet == b'\n') {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            let id = if unread.is_empty() {
                self.check(line)
            } else {
                unread.extend_from_slice(line);
                let id = self.check(&unread);
                unread.clear();
                id
            };
            self.answered.add(id?);
            answers += 1;
        }
        unread.extend_from_slice(rest);
        self.unread = unread;
        Ok(answers)
    }

    /// Compares an answer with the first; its id.
    fn check(&self, answer: &[u8]) -> anyhow::Result<u32> {
        let (start, end) = (self.answer_id, self.answer_id + ID_DIGITS);
        let is_same = answer.len() == self.answer.len()
            && answer[..start] == self.answer[..start]
            && answer[end..] == self.answer[end..];
        ensure!(is_same, "an answer is {:?}", String::from_utf8_lossy(answer));
        let id = str::from_utf8(&answer[start..end])?;
        id.parse().with_context(|| format!("the id `{id}` was not sent"))
    }

    fn read_line(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let n = self.read()?;
            line.extend_from_slice(&self.buffer[..n]);
        }
        Ok(line)
    }

    fn read(&mut self) -> anyhow::Result<usize> {
        match self.output.read(&mut self.buffer)? {
            0 => bail!("the server closed its output"),
            n => Ok(n),
        }
    }
}

/// Where a message has its id, which is [`FIRST_ID`].
fn find_id(message: &[u8]) -> Option<usize> {
    message.windows(ID_DIGITS).position(|octets| octets == FIRST_ID.to_string().as_bytes())
}

/// This thread, and what it starts, runs on one core until this is dropped.
pub(super) struct Pinned(CpuSet);

impl Pinned {
    /// # Errors
    /// There is no such core.
    pub(super) fn to(core: u32) -> anyhow::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(usize::try_from(core)?);
        sched_setaffinity(None, &only)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A core that was there is there.
        let _restored = sched_setaffinity(None, &self.0);
    }
}

/// Ids have the same number of digits, so that all messages are as long as the first.
const FIRST_ID: u32 = 1_000_001;
const LAST_ID: u32 = 9_999_999;
const ID_DIGITS: usize = 7;

/// As much as a pipe holds.
const BUFFER_BYTES: usize = 64 << 10;

/// Messages before anything is measured.
const WARM_UP: u64 = 2_000;

/// What a run may take beyond its duration.
const EXTRA: Duration = Duration::from_secs(20);
