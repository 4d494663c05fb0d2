//! `thruway check`.

use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use thruway_gateway::{Routes, Unresolved, unresolved};
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
    let names = if args.offline { Vec::new() } else { unresolved_names(&config) };
    if let Some(warnings) = Failure::all(config.unused().into_iter().chain(names).collect()) {
        // Nobody may be reading there.
        let _ = writeln!(stderr(), "{warnings}");
    }
    Ok(format!("`{}` is valid\n{config}", path.display()))
}

/// Warnings of the names of servers that cannot be resolved here and now: elsewhere, or later, they may be.
fn unresolved_names(config: &Config) -> Vec<Failure> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return vec![Failure::warning("nothing can be asked about the names of servers")];
    };
    let mut lookups = JoinSet::new();
    for (name, upstream) in config.upstreams.clone() {
        lookups.spawn_on(
            async move { (unresolved(&upstream, LOOKUP_MAX).await, name, upstream) },
            runtime.handle(),
        );
    }
    let mut found = runtime.block_on(lookups.join_all());
    // The system may still be asking.
    runtime.shutdown_background();
    found.sort_by(|(_, one, _), (_, other, _)| one.cmp(other));
    let warnings = found.into_iter().flat_map(|(servers, name, upstream)| {
        servers.into_iter().map(move |Unresolved { server, reason }| {
            let address = &upstream.servers[server].address;
            let message = match reason {
                None => format!("`{address}` has no address"),
                Some(reason) => format!("`{address}` could not be looked up: {reason}"),
            };
            config.warning_at_server(&name, server, message).with_hint(NAME_HINT)
        })
    });
    warnings.collect()
}

/// How long somebody may take to say which addresses a name has.
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
