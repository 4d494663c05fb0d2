//! `thruway check`.

use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use thruway_gateway::{Routes, ServerLookup, look_up_servers};
use thruway_message::mask_userinfo;
use tokio::task::JoinSet;

use crate::access_log;
use crate::args::CheckArgs;
use crate::config::{self, Config, Failure};
use crate::explain::explain;
use crate::routes::{self, Parts};
use crate::tls;

/// Says what the config would do, or what is wrong with it.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let said = match &args.config {
        Some(path) => mask_userinfo(&say(path, args)?).into_owned(),
        None => format!("{:#}\n", config::schema().as_value()),
    };
    // Nobody may be reading there.
    let _ = write!(stdout(), "{said}");
    Ok(ExitCode::SUCCESS)
}

fn say(path: &Path, args: &CheckArgs) -> Result<String, Failure> {
    let config = Config::load(path)?;
    let routes = checked(&config)?;
    if let Some(request) = &args.explain {
        return explain(&config, &routes, request, &args.header);
    }
    let lookups = if args.offline { Ok(Vec::new()) } else { look_up_names(&config) };
    let (lookups, failed) = match lookups {
        Ok(lookups) => (lookups, None),
        Err(failed) => (Vec::new(), Some(failed)),
    };
    let warnings = config.unused().into_iter().chain(config.possible_loops(&lookups)).chain(failed);
    let warnings = warnings.chain(unresolved_names(&config, &lookups)).collect();
    if let Some(warnings) = Failure::all(warnings) {
        // Nobody may be reading there.
        let _ = writeln!(stderr(), "{warnings}");
    }
    Ok(format!("`{}` is valid\n{config}", path.display()))
}

/// Looks up the names of all servers, by the names of their upstreams.
///
/// # Errors
/// The system refuses what a lookup needs.
fn look_up_names(config: &Config) -> Result<Vec<(String, ServerLookup)>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::warning(format!("names cannot be looked up: {error}")))?;
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
            Some(error) => format!("`{address}` could not be looked up: {error}"),
        };
        config.warning_at_server(name, *server, message).with_hint(NAME_HINT)
    });
    warnings.collect()
}

/// Time for the lookup of a name.
const LOOKUP_MAX: Duration = Duration::from_secs(2);

const NAME_HINT: &str = "see whether the name is right; where it is not known yet, or nobody can be asked, `--offline` leaves this out";

/// The routes of `config`, if all of it can be served.
fn checked(config: &Config) -> Result<Routes, Failure> {
    match (routes::build(config, &Parts::default()), access_log::check(config), tls::check(config)) {
        (Ok((routes, _)), Ok(()), Ok(())) => Ok(routes),
        (routes, log, tls) => {
            Err(Failure::joined(routes.err().into_iter().chain(log.err()).chain(tls.err()).collect()))
        }
    }
}
