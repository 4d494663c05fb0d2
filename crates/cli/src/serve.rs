//! `thruway serve` and `thruway check`.

use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use thruway_daemon::{ConfigSource, Daemon, Ended, Signals};
use thruway_server::{ListenAddr, RunningServer};

use crate::args::{CheckArgs, ServeArgs};
use crate::config::Failure;

/// Runs the server until a signal arrives, then shuts the server down gracefully.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let source = args.config.as_ref().map_or_else(ConfigSource::demo, ConfigSource::file);
    let source = source.listen_at(&args.listen);
    let source = args.workers.map_or(source.clone(), |workers| source.workers(workers.into()));
    // SIGHUP reloads the config file. Without a config file, SIGHUP keeps its default effect, so that the
    // process ends when the user closes the terminal.
    let signals = Signals::take_over(args.config.is_some())?;
    let daemon = Daemon::from_source(source)?;
    if args.config.is_none() {
        tracing::info!("no config: serving the test server; `/` lists its endpoints");
    }
    for listener in daemon.listeners() {
        print("listening on", listener.protocol, &listener.address);
    }
    for listener in daemon.admin_listeners() {
        print("admin listener on", listener.protocol, &listener.address);
    }
    Ok(match daemon.run_until(signals) {
        Ended::Clean => ExitCode::SUCCESS,
        Ended::CutOff => ExitCode::FAILURE,
    })
}

/// Prints the addresses of `server` to the standard output. If the operating system has chosen a port,
/// scripts learn the port in this way.
pub(crate) fn print_addresses(server: &RunningServer, scheme: &str) {
    server.addresses().iter().for_each(|address| print("listening on", scheme, address));
}

fn print(what: &str, scheme: &str, address: &ListenAddr) {
    let mut out = stdout().lock();
    // A write error is ignored, because the reader may have closed the pipe.
    let _ = match address {
        ListenAddr::Tcp(address) => writeln!(out, "{what} {scheme}://{address}"),
        ListenAddr::Unix(_) => writeln!(out, "{what} {address}"),
    };
    let _ = out.flush();
}

/// Checks a config and prints a summary. With `--explain`, prints the route of a request instead. With
/// `--schema`, prints the JSON Schema of config files.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let text = match &args.config {
        Some(path) => describe(path, args)?,
        None => format!("{:#}\n", thruway_daemon::schema().as_value()),
    };
    // A write error is ignored, because the reader may have closed the pipe.
    let _ = write!(stdout(), "{text}");
    Ok(ExitCode::SUCCESS)
}

fn describe(path: &Path, args: &CheckArgs) -> Result<String, Failure> {
    if let Some(request) = &args.explain {
        return thruway_daemon::explain(path, request, &args.header);
    }
    let checked = thruway_daemon::check(path, args.offline)?;
    if let Some(warnings) = checked.warnings {
        let _ = writeln!(stderr(), "{warnings}");
    }
    Ok(format!("`{}` is valid\n{}", path.display(), checked.description))
}
