//! `cargo xtask interop --traces`: one trace spans Python programs, a gateway and an MCP endpoint. See `run.py`.

use std::time::Duration;

use super::check::Checker;
use super::words;
use crate::child;
use crate::program::find_on_path;

/// Checks the traces. If Go is installed, also checks them through the OpenTelemetry Collector.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    checker.check("python3", "traces over OTLP", || {
        let mut words = vec!["{python:traces}/python", "-I", "{file:traces/run.py}", "{program}"];
        words.extend(find_on_path("go").map(|_| "{go:traces/otelcol}/otelcol"));
        let program = ("program", checker.program.display().to_string());
        let command = words::command(&words, &[program], checker)?;
        child::output_of("the check of the traces", command, LIMIT, checker.stop)
    })
}

const LIMIT: Duration = Duration::from_mins(4);
