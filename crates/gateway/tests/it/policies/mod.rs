//! Tests of policies in front of handlers and upstream servers: accepted and refused requests, and the
//! duration of slots.

mod scenes;
mod forwarded;

use std::sync::Arc;

use thruway_gateway::{Guarded, Policy, PolicyConfig};
use thruway_server::{Handler, IntoHandler};

/// Wraps `handler` in policies. The first one decides first.
fn guarded(policies: impl IntoIterator<Item = PolicyConfig>, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
    let policies: Vec<_> = policies.into_iter().collect();
    policies.into_iter().rev().fold(handler, |handler, config| {
        Guarded::new(Arc::new(Policy::new("policy", config)), "route", handler).into_handler()
    })
}
