//! The load of all MCP clients: concurrent calls of one tool, during a warm-up and then during the measured
//! time.
//!
//! After the warm-up, the client prints the line `ready` and waits for a line of input. During this wait, the
//! program that started the client can measure the processes. After the measured time, the client prints the
//! number of calls and their duration in seconds, and exits when its standard input ends.
//!
//! With `--calls N`, the client makes `N` calls and prints nothing. The difference of two such runs under
//! `valgrind --tool=callgrind` shows the cost of a call.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// Argument of the tool `echo`.
pub const MESSAGE: &str = "Benchmark test message 1";

/// A load, from the command-line arguments.
pub struct Load {
    /// URL of the MCP endpoint.
    pub url: String,
    /// Number of concurrent calls.
    pub in_flight: usize,
    duration: Duration,
    /// Total number of calls (`--calls`). If set, the run has no warm-up and no measurement.
    calls: Option<u64>,
}

impl Load {
    /// Reads the load from `--call URL --in-flight N --seconds N`. Returns `None` without
    /// `--call`, because the program is then a server.
    ///
    /// # Panics
    /// Panics if the value of a numeric argument is not a number.
    #[must_use]
    pub fn from_arguments() -> Option<Self> {
        let number = |name: &str| Some(argument(name)?.parse::<u64>().expect("the value should be a number"));
        Some(Self {
            url: argument("--call")?,
            in_flight: usize::try_from(number("--in-flight").unwrap_or(1)).ok()?,
            duration: Duration::from_secs(number("--seconds").unwrap_or(1)),
            calls: number("--calls"),
        })
    }

    /// Runs the load. `call` calls the tool and returns an error if the result is wrong.
    ///
    /// # Errors
    /// Returns an error if a call failed or the output cannot be written.
    pub async fn run<C, F>(&self, call: C) -> Result<(), Box<dyn Error>>
    where
        C: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), String>> + Send,
    {
        if let Some(calls) = self.calls {
            let calls_per_task = calls / self.in_flight as u64;
            self.call_while(call, move |called| called < calls_per_task).await?;
            return Ok(());
        }
        self.call_for(WARM_UP, call.clone()).await?;
        print_line("ready")?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        let start = Instant::now();
        let calls = self.call_for(self.duration, call).await?;
        print_line(&format!("{calls} {}", start.elapsed().as_secs_f64()))?;
        // Waits for the end of the input, so that the program that started this client can still read the CPU
        // time of the process.
        io::stdin().lock().read_line(&mut line)?;
        Ok(())
    }

    async fn call_for<C, F>(&self, duration: Duration, call: C) -> Result<u64, String>
    where
        C: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), String>> + Send,
    {
        let end = Instant::now() + duration;
        self.call_while(call, move |_| Instant::now() < end).await
    }

    /// Makes calls in each task while `should_continue` returns `true` for the number of calls so far.
    async fn call_while<C, F>(
        &self,
        call: C,
        should_continue: impl Fn(u64) -> bool + Copy + Send + 'static,
    ) -> Result<u64, String>
    where
        C: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), String>> + Send,
    {
        let mut tasks = JoinSet::new();
        for _ in 0..self.in_flight {
            let call = call.clone();
            tasks.spawn(async move {
                let mut calls = 0;
                while should_continue(calls) {
                    call().await?;
                    calls += 1;
                }
                Ok::<u64, String>(calls)
            });
        }
        let mut calls = 0;
        while let Some(task) = tasks.join_next().await {
            calls += task.map_err(|error| error.to_string())??;
        }
        Ok(calls)
    }
}

fn print_line(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// Returns the argument after `name`.
fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

const WARM_UP: Duration = Duration::from_millis(500);
