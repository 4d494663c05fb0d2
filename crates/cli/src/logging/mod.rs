//! Messages for the operator, on the standard error. What is logged on the path of a request is written off
//! it.

mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr};
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::thread;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::Failure;
use writer::MessageWriter;

/// Prints what is logged from here on, as far as `THRUWAY_LOG` lets it; without that, from `info` on.
pub(crate) fn start() -> Result<(), Failure> {
    let levels = std::env::var_os(VARIABLE).filter(|levels| !levels.is_empty());
    let levels = levels.as_ref().map_or("info".into(), |levels| levels.to_string_lossy());
    let mut words = levels.split(',').filter(|word| !word.contains(['=', '[']));
    if let Some(word) = words.find(|word| word.trim().parse::<LevelFilter>().is_err()) {
        // It would be taken for the name of a part, and everything else be silenced.
        return Err(
            Failure::new(format!("`{VARIABLE}` cannot be used: `{word}` is no level")).with_hint(HINT)
        );
    }
    let filter = EnvFilter::builder()
        .parse(format!("{QUIET},{levels}"))
        .map_err(|error| Failure::new(format!("`{VARIABLE}` cannot be used: {error}")).with_hint(HINT))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(stderr().is_terminal())
        .with_writer(writer()?)
        .init();
    panic::set_hook(Box::new(print_panic));
    Ok(())
}

/// Waits until all is written that was logged, but not for a reader that does not read.
pub(crate) fn finish() {
    if let Some(writer) = WRITER.get() {
        writer.finish();
    }
}

fn writer() -> Result<MessageWriter, Failure> {
    let writer = MessageWriter::start(stderr())
        .map_err(|error| Failure::new(format!("there is no thread for the log: {error}")))?;
    Ok(WRITER.get_or_init(|| writer).clone())
}

/// What a panic says goes where all messages go, behind those before it. The process may end with it, so it
/// is waited for.
fn print_panic(panic: &PanicHookInfo<'_>) {
    let Some(mut writer) = WRITER.get() else { return };
    let thread = thread::current();
    let mut text = format!("thread '{}' {panic}\n", thread.name().unwrap_or("?"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{backtrace}");
    }
    let _ = writer.write_all(text.as_bytes());
    writer.finish();
}

static WRITER: OnceLock<MessageWriter> = OnceLock::new();

const VARIABLE: &str = "THRUWAY_LOG";

/// Comes first, so that whoever names the library gets what is asked for. It warns of frames that anybody may
/// send as often as they like.
const QUIET: &str = "h2=error";
const HINT: &str = "it holds a level, as `debug`, or levels of parts, as `info,thruway_server=trace`";
