//! Checks and explains a config file without serving it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use thruway_gateway::{ListenerRoutes, ServerLookup, look_up_servers};
use thruway_message::mask_userinfo;
use thruway_net::Clock;
use tokio::task::JoinSet;

use crate::access_log;
use crate::config::own_listeners::possible_loops;
use crate::config::usage::unused;
use crate::config::{Config, Failure};
use crate::explain::explain_request;
use crate::live_store;
use crate::mcp::audit_logs;
use crate::mcp::listing::list_tools;
use crate::routes::{self, Parts};
use crate::tls;

/// The result of [`check`]: a description of the config, and warnings about the config.
#[derive(Debug)]
pub struct Checked {
    /// Description of the config, with one line for each listener, route, upstream and policy.
    pub description: String,
    /// Warnings about the config, if any.
    pub warnings: Option<Failure>,
}

/// Checks the config file at `path` without serving it. If `offline` is `false`, looks up the names of
/// upstream servers, connects to the shared store and to the MCP servers, and adds the tools to the description.
///
/// # Errors
/// Returns an error if the config is invalid or cannot be served, or if the shared store cannot be used.
pub fn check(path: &Path, offline: bool) -> Result<Checked, Failure> {
    let config = Config::from_file(path)?;
    let (_, mut parts) = routes_and_parts_of(&config)?;
    let lookups = if offline { Ok(Vec::new()) } else { look_up_names(&config) };
    let (lookups, failed) = match lookups {
        Ok(lookups) => (lookups, None),
        Err(failed) => (Vec::new(), Some(failed)),
    };
    let warnings = unused(&config).into_iter().chain(possible_loops(&config, &lookups)).chain(failed);
    let mut warnings: Vec<_> = warnings.chain(unresolved_names(&config, &lookups)).collect();
    if !offline {
        warnings.extend(live_store::check(&config)?);
    }
    let mut description = config.to_string();
    let now = Clock::system().time_of_day();
    description.push_str(&certificates(&config, now));
    warnings.extend(expiring_certificates(&config, now));
    if !offline && !config.mcp.endpoints.is_empty() {
        parts.start_upstreams();
        match list_tools(&config, &parts.running_upstreams()) {
            Ok((tools, missing)) => {
                description.push_str(&tools);
                warnings.extend(missing);
            }
            Err(failed) => warnings.push(failed),
        }
    }
    Ok(Checked { description: mask_userinfo(&description).into_owned(), warnings: Failure::all(warnings) })
}

/// Explains which route of a config file handles a request, and why. `path` is the path of the file.
/// `request` is a method and a URI, such as `GET http://example.com/path`. Each of `headers` has the form
/// `Name: value`.
///
/// # Errors
/// Returns an error if the config cannot be served, or if the request is invalid.
pub fn explain(path: &Path, request: &str, headers: &[String]) -> Result<String, Failure> {
    let config = Config::from_file(path)?;
    let (routes, _) = routes_and_parts_of(&config)?;
    let explanation = explain_request(&config, &routes, request, headers)?;
    Ok(mask_userinfo(&explanation).into_owned())
}

/// Describes the certificates of all listeners, with one line for each.
fn certificates(config: &Config, now: SystemTime) -> String {
    let mut lines = Vec::new();
    for (listener, tls) in config.listener_tls() {
        for certificate in tls.acceptor.served() {
            let end = certificate.contents.validity.not_after;
            let line = format!(
                "certificate {} of {listener}: expires in {} days, at {}\n",
                certificate.path.display(),
                days_until(end, now),
                humantime::format_rfc3339_seconds(end)
            );
            lines.push(line);
        }
    }
    lines.concat()
}

/// Returns a warning for each certificate that expires soon. Thruway renews ACME certificates and
/// certificates of the local CA itself.
fn expiring_certificates(config: &Config, now: SystemTime) -> Vec<Failure> {
    let mut warnings = Vec::new();
    for (_, tls) in config.listener_tls() {
        let renewed = &tls.acceptor.config().awaited;
        for certificate in tls.acceptor.served() {
            let days = days_until(certificate.contents.validity.not_after, now);
            if days < EXPIRY_DAYS && tls.internal.is_empty() && !renewed.contains(&certificate.path) {
                let path = certificate.path.display();
                let message = format!("the certificate `{path}` expires in {days} days");
                let hint = "renew the certificate and replace the file: Thruway notices the new file";
                warnings.push(config.warning_at(&tls.span, message).with_hint(hint));
            }
        }
    }
    warnings
}

/// Returns the number of full days until `end`. Returns 0 if it has passed.
fn days_until(end: SystemTime, now: SystemTime) -> u64 {
    end.duration_since(now).unwrap_or_default().as_secs() / SECONDS_PER_DAY
}

/// A certificate with less days until its expiry causes a warning.
const EXPIRY_DAYS: u64 = 14;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Looks up the names of all upstream servers. Returns each result with the name of its upstream.
///
/// # Errors
/// Returns an error if the system refuses the resources for the lookups.
fn look_up_names(config: &Config) -> Result<Vec<(String, ServerLookup)>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::warning(format!("cannot look up names: {error}")))?;
    let mut lookups = JoinSet::new();
    for (name, upstream) in config.upstreams.clone() {
        let lookup = async move { (name, look_up_servers(&upstream, LOOKUP_MAX).await) };
        lookups.spawn_on(lookup, runtime.handle());
    }
    let mut found = runtime.block_on(lookups.join_all());
    // Does not wait for lookups that are still in progress after their timeout.
    runtime.shutdown_background();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let each = |(name, servers): (String, Vec<ServerLookup>)| {
        servers.into_iter().map(move |server| (name.clone(), server))
    };
    Ok(found.into_iter().flat_map(each).collect())
}

/// Returns a warning for each server name that cannot be resolved. This is not an error, because the name may
/// be resolvable on another machine or at a later time.
fn unresolved_names(config: &Config, lookups: &[(String, ServerLookup)]) -> Vec<Failure> {
    let unresolved = lookups.iter().filter(|(_, lookup)| lookup.addresses.is_empty());
    let warnings = unresolved.map(|(name, ServerLookup { server, error, .. })| {
        let address = &config.upstreams[name].servers[*server].address;
        let message = match error {
            None => format!("`{address}` has no address"),
            Some(error) => format!("cannot look up `{address}`: {error}"),
        };
        config.warning_at_server(name, *server, message).with_hint(NAME_HINT)
    });
    warnings.collect()
}

/// Timeout for the lookup of a name.
const LOOKUP_MAX: Duration = Duration::from_secs(2);

const NAME_HINT: &str = "check the name; if this machine has no DNS, skip this check with `--offline`";

/// Returns the routes of `config` and their components, which are not started. Returns an error if a part of
/// `config` cannot be served.
fn routes_and_parts_of(config: &Config) -> Result<(ListenerRoutes, Parts), Failure> {
    let routes = routes::build(config, &Parts::default());
    let checks = [access_log::check(config), audit_logs::check(config), tls::check(config)];
    let failures: Vec<_> = checks.into_iter().filter_map(Result::err).collect();
    match routes {
        Ok(built) if failures.is_empty() => Ok(built),
        routes => Err(Failure::joined(routes.err().into_iter().chain(failures).collect())),
    }
}
