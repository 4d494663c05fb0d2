//! Another config for a server that runs: all of it or nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use thruway_gateway::LiveRoutes;
use thruway_server::ReloadSignal;

use crate::args::ServeArgs;
use crate::config::{Config, Failure};
use crate::present::Present;
use crate::routes::{self, Parts};
use crate::streams::Streams;

/// What runs, and what it can be made anew from.
pub(crate) struct Reloader {
    pub(crate) args: ServeArgs,
    /// The config that the server was started with: parts of it stay until it ends.
    pub(crate) started: Config,
    pub(crate) routes: LiveRoutes,
    pub(crate) parts: Parts,
    pub(crate) streams: Streams,
    /// Where is told what runs.
    pub(crate) present: Present,
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
    fn reload(&mut self) -> Result<(), Failure> {
        let config = Config::of(&self.args)?;
        let (routes, mut parts) = routes::build(&config, &self.parts)?;
        parts.start();
        parts.keep_standings_of(&self.parts);
        self.routes.replace(routes);
        self.streams.replace(&parts);
        self.present.replace(&config, &parts);
        self.parts = parts;
        for key in self.started.fixed_changes(&config) {
            tracing::warn!("`{key}` is not what it was at the start: that takes effect with a restart");
        }
        Ok(())
    }
}
