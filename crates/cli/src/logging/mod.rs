//! Writes log messages for the operator to the standard error. A separate thread writes the messages, so that
//! requests do not wait for a slow terminal or pipe.

mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Write as _};
use std::io::{IsTerminal, Write as _, stderr};
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::thread;

use thruway_daemon::{event_as_json, logs_json, message_as_json};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::Failure;
use writer::MessageWriter;

/// Starts logging with the levels in `THRUWAY_LOG`, or with `info` if the variable is not set.
pub(crate) fn start() -> Result<(), Failure> {
    let levels = std::env::var_os(VARIABLE).filter(|levels| !levels.is_empty());
    let levels = levels.as_ref().map_or("info".into(), |levels| levels.to_string_lossy());
    let mut words = levels.split(',').filter(|word| !word.contains(['=', '[']));
    if let Some(word) = words.find(|word| word.trim().parse::<LevelFilter>().is_err()) {
        // Without this check, `EnvFilter` would interpret an invalid level as the name of a module, and
        // disable the messages of all other modules.
        return Err(
            Failure::new(format!("invalid `{VARIABLE}`: `{word}` is not a log level")).with_hint(HINT)
        );
    }
    let filter = EnvFilter::builder()
        .parse(format!("{H2_LEVEL},{levels}"))
        .map_err(|error| Failure::new(format!("invalid `{VARIABLE}`: {error}")).with_hint(HINT))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(stderr().is_terminal())
        .with_writer(writer()?)
        .event_format(LineFormat(Format::default().with_target(false)))
        .init();
    panic::set_hook(Box::new(print_panic));
    Ok(())
}

/// Writes events as text, or as JSON if the config of the running service sets `log.format` to `json`.
struct LineFormat(Format<Full>);

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if logs_json() {
            writer.write_str(&event_as_json(event))
        } else {
            self.0.format_event(context, writer, event)
        }
    }
}

/// Waits for the log thread to write all messages, but no longer than one second.
pub(crate) fn finish() {
    if let Some(writer) = WRITER.get() {
        writer.finish();
    }
}

fn writer() -> Result<MessageWriter, Failure> {
    let writer = MessageWriter::start(stderr())
        .map_err(|error| Failure::new(format!("cannot start the log thread: {error}")))?;
    Ok(WRITER.get_or_init(|| writer).clone())
}

/// Logs the message of a panic after all earlier log messages. Waits until the message is written, because
/// the process may end after the panic.
fn print_panic(panic: &PanicHookInfo<'_>) {
    let Some(mut writer) = WRITER.get() else { return };
    let thread = thread::current();
    let mut text = format!("thread '{}' {panic}\n", thread.name().unwrap_or("?"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{backtrace}");
    }
    if logs_json() {
        text = message_as_json("ERROR", "panic", text.trim_end());
    }
    let _ = writer.write_all(text.as_bytes());
    writer.finish();
}

static WRITER: OnceLock<MessageWriter> = OnceLock::new();

const VARIABLE: &str = "THRUWAY_LOG";

/// Log level of the HTTP/2 library `h2`. At a lower level, the library logs a warning for certain frames, so
/// any client could fill the log. In the filter, the levels of the user follow this level, so the user can
/// override it.
const H2_LEVEL: &str = "h2=error";
const HINT: &str = "set a level, such as `debug`, or levels by crate, such as `info,thruway_server=trace`";
