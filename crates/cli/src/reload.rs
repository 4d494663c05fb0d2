//! Another config for a server that runs: all of it or nothing.

use std::thread;

use thruway_gateway::LiveRoutes;
use thruway_server::ReloadSignal;

use crate::args::ServeArgs;
use crate::config::{Config, Failure};
use crate::routes::{self, Parts};
use crate::serve;

/// What runs, and what it can be made anew from.
pub(crate) struct Reloader {
    pub(crate) args: ServeArgs,
    /// The config that the server was started with: parts of it stay until it ends.
    pub(crate) started: Config,
    pub(crate) routes: LiveRoutes,
    pub(crate) parts: Parts,
}

impl Reloader {
    /// Reads the config anew whenever `signal` arrives. Signals that arrive meanwhile are one.
    pub(crate) fn reload_at(mut self, mut signal: ReloadSignal) {
        thread::spawn(move || {
            loop {
                signal.wait();
                match self.reload() {
                    Ok(()) => tracing::info!("the config was reloaded"),
                    Err(failure) => {
                        tracing::error!("the config cannot be used, that of before is kept\n{failure}");
                    }
                }
            }
        });
    }

    fn reload(&mut self) -> Result<(), Failure> {
        let config = serve::load(&self.args)?;
        let (routes, mut parts) = routes::build(&config, &self.parts)?;
        parts.start();
        self.routes.replace(routes);
        self.parts = parts;
        for key in self.started.fixed_changes(&config) {
            tracing::warn!("`{key}` is not what it was at the start: that takes effect with a restart");
        }
        Ok(())
    }
}
