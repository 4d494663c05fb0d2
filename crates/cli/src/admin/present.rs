//! What runs at present: replaced as a whole when the config is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_gateway::Upstream;

use crate::config::Config;
use crate::routes::Parts;

/// What runs at present. Clones are the same.
#[derive(Clone)]
pub(crate) struct Present(Arc<Mutex<Arc<Running>>>);

pub(crate) struct Running {
    /// In the order of the config: which requests, and what happens to them.
    pub(super) routes: Vec<(String, String)>,
    pub(super) upstreams: Vec<Arc<Upstream>>,
}

impl Present {
    pub(crate) fn new(config: &Config, parts: &Parts) -> Self {
        Self(Arc::new(Mutex::new(Running::of(config, parts))))
    }

    pub(crate) fn replace(&self, config: &Config, parts: &Parts) {
        *self.lock() = Running::of(config, parts);
    }

    pub(super) fn load(&self) -> Arc<Running> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn of(config: &Config, parts: &Parts) -> Arc<Self> {
        let routes = config.routes.iter();
        Arc::new(Self {
            routes: routes.map(|route| (route.matching.to_string(), route.action.to_string())).collect(),
            upstreams: parts.upstreams().cloned().collect(),
        })
    }

    pub(super) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name() == name)
    }
}
