//! Another config for a server that runs: all of it or nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use thruway_gateway::LiveRoutes;
use thruway_server::{LiveServer, Recorder, ReloadSignal, ServerError};

use crate::access_log::{LiveLog, Wanted};

use crate::config::{Config, Failure};
use crate::present::Present;
use crate::routes::{self, Parts};
use crate::source::ConfigSource;
use crate::streams::Streams;
use crate::tls::Secured;

/// What runs, and what it can be made anew from.
pub(crate) struct Reloader {
    /// The place from which the config is read again; `None` for a config that was made in code.
    pub(crate) source: Option<ConfigSource>,
    /// The config that the server was started with: parts of it stay until it ends.
    pub(crate) started: Config,
    pub(crate) server: LiveServer,
    pub(crate) log: LiveLog,
    /// Whether requests are logged.
    pub(crate) is_logged: bool,
    pub(crate) routes: LiveRoutes,
    pub(crate) parts: Parts,
    pub(crate) streams: Streams,
    /// Where is told what runs.
    pub(crate) present: Present,
    /// What speaks TLS.
    pub(crate) secured: Secured,
}

/// The same for all who may ask for another config. One is loaded after the other.
#[derive(Clone)]
pub(crate) struct SharedReloader(Arc<Mutex<Reloader>>);

impl SharedReloader {
    pub(crate) fn new(reloader: Reloader) -> Self {
        Self(Arc::new(Mutex::new(reloader)))
    }

    /// Reads the config anew whenever `signal` arrives. Signals that arrive meanwhile are one.
    pub(crate) fn reload_at(self, mut signal: ReloadSignal) {
        thread::spawn(move || {
            loop {
                signal.wait();
                // What is wrong was logged.
                let _ = self.reload();
            }
        });
    }

    /// Reads the config anew, and logs what became of it. Names of upstreams are waited for.
    pub(crate) fn reload(&self) -> Result<(), Failure> {
        let outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner).reload();
        match &outcome {
            Ok(()) => tracing::info!("the config was reloaded"),
            Err(failure) => {
                tracing::error!("the config cannot be used, that of before is kept\n{failure}");
            }
        }
        outcome
    }
}

impl Reloader {
    fn source(&self) -> Result<&ConfigSource, Failure> {
        let source = self.source.as_ref().filter(|source| source.has_file());
        source.ok_or_else(|| {
            Failure::new("this service has no config file")
                .with_hint("start it with a config file to reload it")
        })
    }

    fn reload(&mut self) -> Result<(), Failure> {
        let mut config = self.source()?.load()?;
        self.secured.kept_in(&mut config);
        let (routes, mut parts) = routes::build(&config, &self.parts)?;
        let streams = Streams::new(&config, &parts, &self.streams);
        let log = self.log.open(&config)?;
        let listeners = self.server.bind(streams.listeners(&config)).map_err(ServerError::from)?;
        // From here on, nothing can fail.
        parts.start();
        parts.keep_standings_of(&self.parts);
        streams.follow(&parts);
        self.write_to(log);
        // Before the routes: which hosts are served elsewhere is known when the first of their requests could be answered.
        self.server.replace(config.server.clone(), listeners);
        self.routes.replace(routes);
        self.server.set_connections_max(config.connections_max);
        self.present.replace(&config, &parts, &streams);
        self.secured.follow(&config, &parts);
        (self.parts, self.streams) = (parts, streams);
        for key in self.started.fixed_changes(&config) {
            tracing::warn!("`{key}` is not what it was at the start: that takes effect with a restart");
        }
        Ok(())
    }
    /// Has requests logged as it is wanted; where they already are or are not, workers are told nothing.
    fn write_to(&mut self, log: Wanted) {
        let log = self.log.replace(log);
        if log.is_some() != self.is_logged {
            self.is_logged = log.is_some();
            let recorder = log.map(|log| Arc::new(log) as Arc<dyn Recorder>);
            self.server.record(recorder.as_ref());
        }
    }
}
