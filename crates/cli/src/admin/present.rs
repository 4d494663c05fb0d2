//! What runs at present: replaced as a whole when the config is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_gateway::{Mirror, RefusalCount, RouteMeter, Upstream};

use crate::config::{Config, Route};
use crate::routes::Parts;

/// What runs at present. Clones are the same.
#[derive(Clone)]
pub(crate) struct Present(Arc<Mutex<Arc<Running>>>);

pub(crate) struct Running {
    /// In the order of the config.
    pub(super) routes: Vec<RunningRoute>,
    /// How many requests none of them took.
    pub(super) unrouted: Arc<RefusalCount>,
    pub(super) upstreams: Vec<Arc<Upstream>>,
}

pub(super) struct RunningRoute {
    /// Which requests it is for.
    pub(super) requests: String,
    /// What happens to them.
    pub(super) action: String,
    pub(super) meter: Option<Arc<RouteMeter>>,
    pub(super) mirror: Option<Arc<Mirror>>,
    /// Its policies in their order, and what each has refused.
    pub(super) refusals: Vec<(String, Arc<RefusalCount>)>,
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
        let route = |route: &Route| RunningRoute {
            requests: route.matching.to_string(),
            action: route.action.to_string(),
            meter: parts.meter_of(route).cloned(),
            mirror: parts.mirror_of(route).cloned(),
            refusals: parts.refusals_of(route),
        };
        Arc::new(Self {
            routes: config.routes.iter().map(route).collect(),
            unrouted: parts.unrouted().clone(),
            upstreams: parts.upstreams().cloned().collect(),
        })
    }

    pub(super) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name() == name)
    }
}
