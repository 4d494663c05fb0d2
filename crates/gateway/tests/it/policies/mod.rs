//! Policies before handlers and before upstreams: what passes, what does not, and what is kept until when.

mod scenes;
mod forwarded;

use std::sync::Arc;

use thruway_gateway::{Guarded, Policy, PolicyConfig};
use thruway_server::{Handler, IntoHandler};

/// `handler` behind policies, the first of which decides first.
fn guarded(policies: impl IntoIterator<Item = PolicyConfig>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
    let policies: Vec<_> = policies.into_iter().collect();
    policies.into_iter().rev().fold(handler, |handler, config| {
        Guarded::new(Arc::new(Policy::new("policy", config)), "route", handler).into_handler()
    })
}
