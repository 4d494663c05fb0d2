//! `thruway serve`.

use std::io::{Write, stdout};
use std::process::ExitCode;

use thruway_gateway::LiveRoutes;
use thruway_server::{
    AccessLog, ListenAddr, ReloadSignal, ReopenSignal, RunningServer, Server, ServerError,
    TerminationSignals, raise_descriptor_limit,
};

use crate::access_log::LiveLog;
use crate::admin::Admin;
use crate::args::ServeArgs;
use crate::config::{Config, Failure};
use crate::present::Present;
use crate::reload::{Reloader, SharedReloader};
use crate::routes::{self, Parts};
use crate::streams::Streams;
use crate::tls::Secured;

/// Serves until a signal, and drains.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let config = Config::of(args)?;
    let secured = Secured::default();
    raise_descriptor_limit();
    // Before the first thread, so that no signal finds the default.
    let signals = TerminationSignals::take_over().map_err(ServerError::from)?;
    let reopen = ReopenSignal::take_over().map_err(ServerError::from)?;
    // Without a config there is nothing to reload: the demo ends with its terminal.
    let reload =
        args.config.as_ref().map(|_| ReloadSignal::take_over()).transpose().map_err(ServerError::from)?;
    let (routes, mut parts) = routes::build(&config, &Parts::default())?;
    let routes = LiveRoutes::new(routes);
    let live_log = LiveLog::default();
    let log = live_log.replace(live_log.open(&config)?);
    parts.start();
    let streams = Streams::new(&config, &parts, &Streams::default());
    let present = Present::new(&config, &parts, &streams);
    let server = start(&config, routes.clone(), &streams, log.as_ref())?;
    live_log.clone().reopen_at(reopen);
    secured.follow(&config, &parts);
    secured.clone().watch();
    let admin = config.admin.clone();
    let schemes =
        config.listeners.iter().map(|listener| if listener.tls.is_some() { "https" } else { "http" });
    let schemes: Vec<_> = schemes.collect();
    let reloader = SharedReloader::new(Reloader {
        args: args.clone(),
        started: config,
        server: server.live(),
        log: live_log.clone(),
        is_logged: log.is_some(),
        routes,
        parts,
        streams: streams.clone(),
        present: present.clone(),
        secured: secured.clone(),
    });
    let admin = admin
        .map(|admin| Admin::new(&server, present, reloader.clone(), secured).start(&admin))
        .transpose()?;
    if let Some(signal) = reload {
        reloader.reload_at(signal);
    } else {
        tracing::info!("no config: serving the demo; `/` says what is there");
    }
    for (listener, address) in server.addresses().iter().enumerate() {
        match streams.of_listener(listener) {
            None => print("listening on", schemes.get(listener).copied().unwrap_or("http"), address),
            Some(_) => print("listening on", "tcp", address),
        }
    }
    if let Some(admin) = &admin {
        admin.addresses().iter().for_each(|address| print("admin listener on", "http", address));
    }
    let loads = server.run_until(signals);
    if let Some(admin) = admin {
        admin.drain();
        admin.join();
    }
    live_log.finish();
    let is_clean = loads.iter().all(|load| load.connections == 0);
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start(
    config: &Config,
    routes: LiveRoutes,
    streams: &Streams,
    log: Option<&AccessLog>,
) -> Result<RunningServer, ServerError> {
    let mut server = Server::new(routes).config(config.server.clone()).batch_sends(config.batch_sends);
    for listener in streams.listeners(config) {
        server = server.listen_on(listener);
    }
    if let Some(workers) = config.workers {
        server = server.workers(workers);
    }
    if let Some(connections) = config.connections_max {
        server = server.connections_max(connections);
    }
    if let Some(log) = log {
        server = server.record(log.clone());
    }
    server.start()
}

/// Prints the addresses on the standard output, for scripts that let the system choose a port. Nobody may be
/// reading there.
pub(crate) fn print_addresses(server: &RunningServer, scheme: &str) {
    server.addresses().iter().for_each(|address| print("listening on", scheme, address));
}

fn print(what: &str, scheme: &str, address: &ListenAddr) {
    let mut out = stdout().lock();
    let _ = match address {
        ListenAddr::Tcp(address) => writeln!(out, "{what} {scheme}://{address}"),
        ListenAddr::Unix(_) => writeln!(out, "{what} {address}"),
    };
    let _ = out.flush();
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let failure = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
