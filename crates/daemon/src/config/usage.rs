//! Upstreams and policies that no route uses, and redirects to ports without TLS.

use thruway_server::ListenAddr;

use super::forward::{ForwardAction, ForwardTo};
use super::{Action, Config, Failure, ListenerConfig, Route};

/// Warnings of the upstreams and the policies that nothing uses: they may be meant for later, or be called otherwise where they are meant.
pub(crate) fn unused(config: &Config) -> Vec<Failure> {
    let has_upstream = |name: &str| {
        config.listeners.iter().any(|listener| forwards_to(listener, name))
            || config.routes.iter().any(|route| goes_to(route, name))
    };
    let has_policy = |name: &String| config.routes.iter().any(|route| route.policies.contains(name));
    let upstreams = config.places.upstreams.iter().filter(|(name, _)| !has_upstream(name));
    let policies = config.places.policies.iter().filter(|(name, _)| !has_policy(name));
    let upstreams = upstreams.map(|(name, places)| {
        let warning = config.warning_at(&places.span, format!("nothing uses the upstream `{name}`"));
        warning.with_hint("name it in a route or a listener, or leave it out")
    });
    let policies = policies.map(|(name, span)| {
        let warning = config.warning_at(span, format!("no route asks for the policy `{name}`"));
        warning.with_hint("name it in `policies` of a route, or leave it out")
    });
    upstreams.chain(policies).chain(redirects_without_tls(config)).collect()
}

/// Returns warnings of redirects to a port at which no listener of this config serves `https`. A load
/// balancer in front, or a port mapping, may do so.
fn redirects_without_tls(config: &Config) -> impl Iterator<Item = Failure> {
    let serves = |listener: &ListenerConfig, port: u16| {
        let is_at_port = match &listener.address {
            ListenAddr::Tcp(address) => address.port() == port || address.port() == 0,
            ListenAddr::Unix(_) => false,
        };
        is_at_port && (listener.tls.is_some() || listener.tcp.is_some())
    };
    let redirects = config.listeners.iter().filter_map(|listener| listener.redirect_to_https.as_ref());
    let unserved = redirects
        .filter(move |redirect| !config.listeners.iter().any(|listener| serves(listener, redirect.port)));
    unserved.map(move |redirect| {
        let port = redirect.port;
        let message = format!("no listener of this config serves https at port {port}");
        let hint = "see whether a load balancer or a port mapping leads from there to a listener with `tls`";
        config.warning_at(&redirect.span, message).with_hint(hint)
    })
}

pub(super) fn uses(config: &Config, upstream: &str) -> bool {
    config.listeners.iter().any(|listener| forwards_to(listener, upstream))
        || config.routes.iter().any(|route| goes_to(route, upstream))
}

/// Whether connections of `listener` are for this upstream, whatever they carry.
pub(super) fn forwards_to(listener: &ListenerConfig, upstream: &str) -> bool {
    let Some(tcp) = &listener.tcp else { return false };
    tcp.upstream == upstream || tcp.names.iter().any(|(_, of_name)| of_name == upstream)
}

/// Whether requests of `route`, or copies of them, are for this upstream.
pub(super) fn goes_to(route: &Route, upstream: &str) -> bool {
    let Action::Forward(action) = &route.action else { return false };
    let ForwardAction { to, mirror, .. } = &**action;
    let is_there = match to {
        ForwardTo::Upstream(name) => name == upstream,
        ForwardTo::Split { sides, .. } => sides.iter().any(|(name, _)| name == upstream),
    };
    is_there || mirror.as_ref().is_some_and(|mirror| mirror.upstream == upstream)
}
