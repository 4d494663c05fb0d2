//! Messages for the operator, on the standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

/// Prints what is logged from here on. `THRUWAY_LOG` chooses levels, as `debug` or `thruway_server=trace`.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("THRUWAY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        .init();
}
