//! Checks the names and addresses in a config that was built in code. Other modules check config files.

use std::collections::BTreeSet;

use thruway_gateway::PolicyConfig;
use thruway_server::ListenAddr;

use super::forward::ForwardTo;
use super::names::{NAME_HINT, is_name};
use super::own_listeners::refuse_loops;
use super::{Action, Config, Failure, ListenerConfig, is_listed};

/// Checks a config that does not come from a file.
///
/// # Errors
/// Returns all errors of the config: no listener or no route, a repeated address, an unknown name, an invalid
/// or repeated name of a route, an upstream without servers, an admin address that other machines can reach, or an upstream that leads back
/// to a listener of the config.
pub(crate) fn check_references(config: &Config) -> Result<(), Failure> {
    let mut failures = Vec::new();
    if config.listeners.is_empty() {
        failures.push(Failure::new("the config has no listener").with_hint("add one with `listen`"));
    }
    if config.routes.is_empty() && config.listeners.iter().any(ListenerConfig::has_routes) {
        failures.push(Failure::new("the config has no route").with_hint("add one with `route`"));
    }
    failures.extend(repeated_addresses(config));
    failures.extend(remote_admin_address(config));
    failures.extend(unknown_upstreams(config));
    failures.extend(unknown_policies(config));
    failures.extend(invalid_names("route", config.routes.iter().filter_map(|route| route.name.as_ref())));
    let of_listeners = config.listeners.iter().filter_map(|listener| listener.name.as_ref());
    failures.extend(invalid_names("listener", of_listeners));
    failures.extend(unknown_listeners(config));
    let empty = config.upstreams.iter().filter(|(_, upstream)| upstream.servers.is_empty());
    failures.extend(empty.map(|(name, _)| {
        Failure::new(format!("the upstream `{name}` has no server"))
            .with_hint("pass at least one address to `UpstreamConfig::new`")
    }));
    match Failure::all(failures) {
        Some(failure) => Err(failure),
        None => refuse_loops(config),
    }
}

fn repeated_addresses(config: &Config) -> Vec<Failure> {
    let mut known: Vec<&ListenAddr> = Vec::new();
    let mut failures = Vec::new();
    let admin = config.admin.iter().map(|admin| &admin.address);
    for address in config.listeners.iter().map(ListenerConfig::address).chain(admin) {
        if is_listed(known.iter().copied(), address) {
            let failure = Failure::new(format!("another listener has the address `{address}`"));
            failures.push(failure.with_hint("give each listener, and the admin listener, its own address"));
        }
        known.push(address);
    }
    failures
}

/// Refuses an admin listener that other machines can reach if it lacks TLS or users.
fn remote_admin_address(config: &Config) -> Option<Failure> {
    let admin = config.admin.as_ref().filter(|admin| admin.is_remote())?;
    (admin.tls.is_none() || admin.authentication.is_none()).then(|| {
        Failure::new(format!("other machines can reach the admin address `{}`", admin.address))
            .with_hint("use a loopback address or a Unix socket: the admin listener has no authentication")
    })
}

fn unknown_upstreams(config: &Config) -> Vec<Failure> {
    let upstreams = &config.upstreams;
    let mut failures = Vec::new();
    for route in &config.routes {
        let Action::Forward(forward) = &route.action else { continue };
        let mut names = match &forward.to {
            ForwardTo::Upstream(name) => vec![name],
            ForwardTo::Split { sides, .. } => sides.iter().map(|(name, _)| name).collect(),
        };
        names.extend(forward.mirror.as_ref().map(|mirror| &mirror.upstream));
        for name in names.into_iter().filter(|name| !config.upstreams.contains_key(*name)) {
            let message = format!("the route `{}` names the unknown upstream `{name}`", route.label());
            failures.push(Failure::new(message).with_hint("add the upstream with `Config::upstream`"));
        }
    }
    for (policy, config) in &config.policies {
        if let PolicyConfig::ForwardAuth(auth) = config
            && !upstreams.contains_key(&auth.upstream)
        {
            let message = format!("the policy `{policy}` names the unknown upstream `{}`", auth.upstream);
            failures.push(Failure::new(message).with_hint("add the upstream with `Config::upstream`"));
        }
    }
    failures
}

fn invalid_names<'c>(kind: &str, names: impl Iterator<Item = &'c String>) -> Vec<Failure> {
    let mut known = BTreeSet::new();
    let mut failures = Vec::new();
    for name in names {
        if !is_name(name) {
            let message = format!("`{}` is not a valid name of a {kind}", name.escape_debug());
            failures.push(Failure::new(message).with_hint(NAME_HINT));
        } else if !known.insert(name) {
            let failure = Failure::new(format!("two {kind}s have the name `{name}`"));
            failures.push(failure.with_hint(format!("give each {kind} its own name")));
        }
    }
    failures
}

fn unknown_listeners(config: &Config) -> Vec<Failure> {
    let is_known =
        |name: &String| config.listeners.iter().any(|listener| listener.name.as_ref() == Some(name));
    let mut failures = Vec::new();
    for route in &config.routes {
        for name in route.matching.listeners.iter().filter(|name| !is_known(name)) {
            let message = format!("the route `{}` names the unknown listener `{name}`", route.label());
            failures.push(Failure::new(message).with_hint("name a listener with `Config::listener_name`"));
        }
    }
    failures
}

fn unknown_policies(config: &Config) -> Vec<Failure> {
    let mut failures = Vec::new();
    for route in &config.routes {
        let names: BTreeSet<_> = route.policies.iter().collect();
        for name in names.into_iter().filter(|name| !config.policies.contains_key(*name)) {
            let message = format!("the route `{}` names the unknown policy `{name}`", route.label());
            failures.push(Failure::new(message).with_hint("add the policy with `Config::policy`"));
        }
    }
    failures
}
