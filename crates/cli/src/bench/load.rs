//! Builds loads from command line arguments, and handles Ctrl-C. The first Ctrl-C ends the load, and the command
//! reports the measurements so far. The second Ctrl-C ends the command and its child processes.

use std::io;
use std::process::exit;
use std::thread;

use thruway_bench::{
    Expected, HttpOptions, Limit, Load, LoadOptions, Pace, ProcessGroups, StopFlag, TlsOptions,
    reachable_address, read_content, restore_terminal,
};
use thruway_net::TerminationSignals;
use thruway_net::tls::TlsVersion;

use super::args::{HttpLoadArgs, LoadArgs};
use super::output::{EXIT_INTERRUPTED, not_planned};
use crate::config::{Failure, parse_headers};

impl LoadArgs {
    /// Returns the load options that the arguments select.
    pub(super) fn options(&self) -> LoadOptions {
        let pace = match self.rate {
            None => Pace::Closed,
            Some(rate) if self.poisson => Pace::poisson(rate, self.seed),
            Some(rate) => Pace::Constant { rate },
        };
        let options = LoadOptions {
            connections: self.connections,
            workers: self.workers,
            limit: self.requests.map_or(Limit::Duration(self.duration), Limit::Requests),
            warm_up: self.warm_up,
            pace,
            pipeline: self.pipeline,
            is_persistent: !self.is_not_persistent,
            timeout: self.timeout,
            tls: TlsOptions {
                ca: self.ca.clone(),
                verify: !self.is_insecure,
                version: self.tls_version.map(TlsVersion::from),
                post_quantum: !self.is_classical,
                resume: !self.is_without_resumption,
            },
        };
        let seed = self.poisson.then(|| self.seed.unwrap_or_else(Pace::random_seed));
        match &self.stages {
            Some(stages) => options.with_stages(stages.clone(), seed),
            None => options,
        }
    }
}

impl HttpLoadArgs {
    /// Returns the request options that the arguments select.
    fn http_options(&self) -> Result<HttpOptions, Failure> {
        let content = self.content.as_deref().map(read_content).transpose();
        Ok(HttpOptions {
            method: self.method.clone(),
            content: content.map_err(not_planned)?,
            headers: parse_headers(&self.load.header)?,
            expected: Expected { status: self.status, content_bytes: self.length, sha256: self.sha256 },
            http2_streams: self.is_http2.then_some(self.streams),
        })
    }
}

/// Builds the load that sends requests to the URLs `targets` with the options `args`. Checks that the server
/// accepts connections.
pub(super) fn build(targets: &[String], args: &HttpLoadArgs, stop: &StopFlag) -> Result<Load, Failure> {
    let mut load = build_unreached(targets, args, stop)?;
    let checked = args.load.options().check_tls(load.tls.is_some());
    let reached = checked.and_then(|()| reachable_address(&load.addresses));
    load.addresses = vec![reached.map_err(not_planned)?];
    Ok(load)
}

/// Builds the load that sends requests to the URLs `targets` with the options `args`. The server need not be
/// running yet.
pub(super) fn build_unreached(
    targets: &[String],
    args: &HttpLoadArgs,
    stop: &StopFlag,
) -> Result<Load, Failure> {
    let options = args.load.options();
    options.check().map_err(not_planned)?;
    args.http_options()?.load(targets, &options, stop).map_err(not_planned)
}

/// Returns a flag that the first SIGINT or SIGTERM sets. The second signal ends the processes in `started`
/// and then this process.
pub(super) fn stop_flag(started: &ProcessGroups) -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    watch(stop.clone(), started.clone())
        .map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
    Ok(stop)
}

fn watch(stop: StopFlag, started: ProcessGroups) -> io::Result<()> {
    let mut signals = TerminationSignals::take_over()?;
    let wait = move || {
        signals.wait();
        stop.stop();
        signals.wait();
        restore_terminal();
        let _ended = started.kill();
        exit(EXIT_INTERRUPTED.into());
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}
