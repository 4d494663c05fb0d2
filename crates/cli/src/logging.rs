//! Messages for the operator, on the standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::Failure;

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
        .parse(&levels)
        .map_err(|error| Failure::new(format!("`{VARIABLE}` cannot be used: {error}")).with_hint(HINT))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(stderr().is_terminal())
        .with_writer(stderr)
        .init();
    Ok(())
}

const VARIABLE: &str = "THRUWAY_LOG";
const HINT: &str = "it holds a level, as `debug`, or levels of parts, as `info,thruway_server=trace`";
