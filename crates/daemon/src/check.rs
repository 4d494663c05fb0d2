//! Checks of a config file that nothing serves.

use std::path::Path;
use std::time::Duration;

use thruway_gateway::{Routes, ServerLookup, look_up_servers};
use thruway_message::mask_userinfo;
use tokio::task::JoinSet;

use crate::access_log;
use crate::config::own_listeners::possible_loops;
use crate::config::usage::unused;
use crate::config::{Config, Failure};
use crate::explain::explain_request;
use crate::routes::{self, Parts};
use crate::tls;

/// The result of a check: the config in words, and the warnings about it.
#[derive(Debug)]
pub struct Checked {
    /// A line for each listener, route, upstream and policy.
    pub description: String,
    /// The warnings, if there are any.
    pub warnings: Option<Failure>,
}

/// Checks the config file at `path` without serving it. The names of servers are looked up unless `offline`.
///
/// # Errors
/// The config cannot be used.
pub fn check(path: &Path, offline: bool) -> Result<Checked, Failure> {
    let config = Config::from_file(path)?;
    routes_of(&config)?;
    let lookups = if offline { Ok(Vec::new()) } else { look_up_names(&config) };
    let (lookups, failed) = match lookups {
        Ok(lookups) => (lookups, None),
        Err(failed) => (Vec::new(), Some(failed)),
    };
    let warnings = unused(&config).into_iter().chain(possible_loops(&config, &lookups)).chain(failed);
    let warnings = warnings.chain(unresolved_names(&config, &lookups)).collect();
    Ok(Checked {
        description: mask_userinfo(&config.to_string()).into_owned(),
        warnings: Failure::all(warnings),
    })
}

/// Explains which route of the config file at `path` takes a request, and why. `request` is a method and a
/// URI, such as `GET http://example.com/path`; each header is written `Name: value`.
///
/// # Errors
/// The config or the request cannot be used.
pub fn explain(path: &Path, request: &str, headers: &[String]) -> Result<String, Failure> {
    let config = Config::from_file(path)?;
    let routes = routes_of(&config)?;
    let explanation = explain_request(&config, &routes, request, headers)?;
    Ok(mask_userinfo(&explanation).into_owned())
}

/// Looks up the names of all servers. Returns the results with the names of their upstreams.
///
/// # Errors
/// The system refuses what a lookup needs.
fn look_up_names(config: &Config) -> Result<Vec<(String, ServerLookup)>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::warning(format!("cannot look up names: {error}")))?;
    let mut lookups = JoinSet::new();
    for (name, upstream) in config.upstreams.clone() {
        let lookup = async move { (name, look_up_servers(&upstream, LOOKUP_MAX).await) };
        lookups.spawn_on(lookup, runtime.handle());
    }
    let mut found = runtime.block_on(lookups.join_all());
    // The system may still be asking.
    runtime.shutdown_background();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let each = |(name, servers): (String, Vec<ServerLookup>)| {
        servers.into_iter().map(move |server| (name.clone(), server))
    };
    Ok(found.into_iter().flat_map(each).collect())
}

/// Returns warnings of the names without an address. They may have one elsewhere, or later.
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

/// Time for the lookup of a name.
const LOOKUP_MAX: Duration = Duration::from_secs(2);

const NAME_HINT: &str = "check the name; without DNS, skip this check with `--offline`";

/// The routes of `config`, if all of it can be served.
fn routes_of(config: &Config) -> Result<Routes, Failure> {
    match (routes::build(config, &Parts::default()), access_log::check(config), tls::check(config)) {
        (Ok((routes, _)), Ok(()), Ok(())) => Ok(routes),
        (routes, log, tls) => {
            Err(Failure::joined(routes.err().into_iter().chain(log.err()).chain(tls.err()).collect()))
        }
    }
}
