//! A minimal hand-written loop over pipes, for comparison with our load generator. The loop uses blocking
//! calls, sends the same message with changing IDs, and counts responses. The loop records no response times.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use thruway_bench::{Revision, usage};
use thruway_net::Clock;

use crate::case::{Case, Role};
use crate::cores::run_on;
use crate::figures::{Figures, Metric};
use crate::found::Found;
use crate::process::{PipedChild, Runner};
use crate::server::ServerResources;

/// The hand-written loop with its Thruway server on pipes.
pub(crate) struct HandWritten {
    child: PipedChild,
    message: Vec<u8>,
    id_at: usize,
    next_id: u64,
    buffer: Vec<u8>,
    /// Length of each response.
    answer_bytes: u64,
    received_bytes: u64,
}

impl HandWritten {
    /// Starts the server on the server core.
    pub(crate) fn start(ours: &Found, resources: ServerResources<'_>) -> anyhow::Result<Self> {
        let setup = ours.peer.setup(Role::Pipes).context("the peer does not support this role")?;
        let mut command = Command::new(&ours.program);
        command.args(&setup.arguments);
        run_on(&resources.cores.server);
        let child = PipedChild::start(&mut command, resources.runner);
        run_on(&resources.cores.load);
        let message = message();
        let id = FIRST_ID.to_string();
        let id_at = message.windows(id.len()).position(|bytes| bytes == id.as_bytes()).unwrap_or_default();
        let mut started = Self {
            child: child?,
            message,
            id_at,
            next_id: FIRST_ID,
            buffer: vec![0; BUFFER_BYTES],
            answer_bytes: 0,
            received_bytes: 0,
        };
        resources.runner.guarded(started.child.id(), WAIT_LIMIT, || started.exchange_first())?;
        Ok(started)
    }

    /// Runs the load for `warm_up` and then for `duration`. Keeps as many requests in flight as the case has.
    pub(crate) fn load(
        &mut self,
        case: &Case,
        warm_up: Duration,
        duration: Duration,
        runner: Runner<'_>,
    ) -> anyhow::Result<Figures> {
        let window = u64::from(case.pipeline);
        runner.guarded(self.child.id(), warm_up + duration + WAIT_LIMIT, || {
            self.send(window)?;
            self.exchange(warm_up)?;
            let figures = self.measure(duration)?;
            self.receive_last(window)?;
            Ok(figures)
        })
    }

    fn measure(&mut self, duration: Duration) -> anyhow::Result<Figures> {
        let (clock, before) = (Clock::system(), usage(self.child.id()));
        let (start, cpu) = (clock.now_exact(), thread_cpu_time());
        let answered = self.exchange(duration)?;
        let own = thread_cpu_time().saturating_sub(cpu);
        let seconds = clock.now_exact().saturating_sub(start).as_secs_f64();
        let after = usage(self.child.id());
        let used = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        let figures = Figures::counted(answered, seconds);
        Ok(figures.with_cpu(Metric::ServerCpu, used).with_cpu(Metric::GeneratorCpu, Some(own)))
    }

    /// Returns the status of the server, if it has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.status()
    }

    /// Sends the first message, and stores the length of its response. All responses have this length.
    fn exchange_first(&mut self) -> anyhow::Result<()> {
        self.send(1)?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            self.receive()?;
            let n = usize::try_from(self.received_bytes).unwrap_or(usize::MAX) - answer.len();
            answer.extend_from_slice(&self.buffer[..n]);
        }
        let answer = String::from_utf8_lossy(&answer);
        ensure!(answer.contains(MESSAGE), "unexpected response: {}", answer.escape_debug());
        self.answer_bytes = self.received_bytes;
        Ok(())
    }

    /// For the duration `time`, sends a new request after each response. Returns the number of responses.
    fn exchange(&mut self, time: Duration) -> anyhow::Result<u64> {
        let clock = Clock::system();
        let end = clock.now_exact() + time;
        let mut answered = 0;
        while clock.now_exact() < end {
            let answers = self.receive()?;
            self.send(answers)?;
            answered += answers;
        }
        Ok(answered)
    }

    /// Receives the remaining responses, and checks that all responses have the same length.
    fn receive_last(&mut self, unanswered: u64) -> anyhow::Result<()> {
        let mut left = unanswered;
        while left > 0 {
            left = left.saturating_sub(self.receive()?);
        }
        let is_even = self.received_bytes.is_multiple_of(self.answer_bytes);
        ensure!(is_even, "the responses have different lengths");
        Ok(())
    }

    /// Sends `requests` requests with one write.
    fn send(&mut self, requests: u64) -> anyhow::Result<()> {
        let mut batch = Vec::new();
        for _ in 0..requests {
            let id_at = batch.len() + self.id_at;
            batch.extend_from_slice(&self.message);
            let id = self.next_id.to_string();
            batch[id_at..id_at + id.len()].copy_from_slice(id.as_bytes());
            self.next_id = if self.next_id == LAST_ID { FIRST_ID } else { self.next_id + 1 };
        }
        self.child.input.write_all(&batch).context("the server stopped reading")
    }

    /// Returns the number of responses in the next read.
    fn receive(&mut self) -> anyhow::Result<u64> {
        let n = self.child.output.read(&mut self.buffer)?;
        ensure!(n > 0, "the server closed its output");
        let read = &self.buffer[..n];
        self.received_bytes += n as u64;
        Ok(read.iter().map(|byte| u64::from(*byte == b'\n')).sum())
    }
}

fn message() -> Vec<u8> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": Revision::LATEST.as_str(),
        "io.modelcontextprotocol/clientInfo": {"name": "hand-written", "version": "1.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({"message": MESSAGE});
    let params = json!({"name": "echo", "arguments": arguments, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": FIRST_ID, "method": "tools/call", "params": params});
    format!("{message}\n").into_bytes()
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

const MESSAGE: &str = "Benchmark test message";
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// All IDs have the same number of digits.
const FIRST_ID: u64 = 1_000_000;
const LAST_ID: u64 = 9_999_999;

/// The capacity of a pipe.
const BUFFER_BYTES: usize = 64 << 10;
