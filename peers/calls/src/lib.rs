//! What every client of MCP does: calls of one tool, so many in flight at a time, first to warm up and then
//! for a while.
//!
//! It says `ready` on a line and waits for one, so that whoever measures can look at the processes before and
//! after. Then it says how many calls there were and how many seconds they took, and ends when its standard
//! input does.
//!
//! With `--calls N` it makes so many and says nothing: two runs under `valgrind --tool=callgrind` tell what a
//! call takes.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// What `echo` is called with.
pub const MESSAGE: &str = "Benchmark test message 1";

/// A load, as the arguments say.
pub struct Load {
    /// The MCP endpoint.
    pub url: String,
    /// Calls that are not answered at the same time.
    pub in_flight: usize,
    duration: Duration,
    /// How many calls there are in all, if nobody measures.
    calls: Option<u64>,
}

impl Load {
    /// The load of `--call URL --in-flight N --seconds N`; none if there is no `--call`, as the program is a
    /// server then.
    ///
    /// # Panics
    /// When the others are not numbers.
    #[must_use]
    pub fn from_arguments() -> Option<Self> {
        let number = |name: &str| Some(argument(name)?.parse::<u64>().expect("it is a number"));
        Some(Self {
            url: argument("--call")?,
            in_flight: usize::try_from(number("--in-flight").unwrap_or(1)).ok()?,
            duration: Duration::from_secs(number("--seconds").unwrap_or(1)),
            calls: number("--calls"),
        })
    }

    /// Makes the load. `call` calls the tool, and fails unless its answer is as it should be.
    ///
    /// # Errors
    /// When a call has failed, or nobody reads what is said.
    pub async fn run<C, F>(&self, call: C) -> Result<(), Box<dyn Error>>
    where
        C: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), String>> + Send,
    {
        if let Some(calls) = self.calls {
            let each = calls / self.in_flight as u64;
            self.call_while(call, move |called| called < each).await?;
            return Ok(());
        }
        self.call_for(WARM_UP, call.clone()).await?;
        say("ready")?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        let start = Instant::now();
        let calls = self.call_for(self.duration, call).await?;
        say(&format!("{calls} {}", start.elapsed().as_secs_f64()))?;
        // At the end of its input there is nobody who would look at it any more.
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

    /// Calls in each task for as long as `goes_on` says so of the calls that it has made.
    async fn call_while<C, F>(
        &self,
        call: C,
        goes_on: impl Fn(u64) -> bool + Copy + Send + 'static,
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
                while goes_on(calls) {
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

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// What stands after `name` among the arguments.
fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

const WARM_UP: Duration = Duration::from_millis(500);
