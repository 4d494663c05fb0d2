//! The admin listener and the access log.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::PolicyConfig;
use thruway_server::{AccessLogFormat, AccessLogLines, AccessLogTarget, InvalidListenAddr, ListenAddr};

use crate::config::listeners::resolve_listener;
use crate::config::policies::ResolvedPolicies;
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;
use crate::config::{AccessLogConfig, AdminConfig, ListenerConfig, is_listed};

/// The admin listener, for health, status, metrics, reloads and the admin state of servers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAdmin {
    /// Address of the admin listener: `IP:PORT` of this machine, or `unix:PATH`. It must differ from the
    /// addresses in `listeners`.
    pub(in crate::config) address: Spanned<String>,
    /// `true` allows an address that other machines can reach. Risk: the listener has no authentication, so
    /// every client that can connect to it controls the server. Default: false.
    #[serde(default)]
    pub(in crate::config) allow_remote: bool,
}

/// The access log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAccessLog {
    /// Format of the lines: `common`, `combined` or `json`. Default: `combined`.
    #[serde(default)]
    pub(in crate::config) format: RawFormat,
    /// Path of the log file, or `-` for the standard output. A relative path starts at the directory of the
    /// config. Default: `-`.
    pub(in crate::config) path: Option<Spanned<PathBuf>>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawFormat {
    Common,
    #[default]
    Combined,
    Json,
}

pub(in crate::config) fn resolve_admin(
    resolver: &mut Resolver<'_>,
    raw: &RawAdmin,
    listeners: &[ListenerConfig],
) -> Option<AdminConfig> {
    let address = match raw.address.get_ref().parse() {
        Ok(address) => resolve_listener(resolver, address),
        Err(error) => {
            resolver.refuse_with(&raw.address, error, InvalidListenAddr::HINT);
            return None;
        }
    };
    if is_listed(listeners.iter().map(ListenerConfig::address), &address) {
        resolver.refuse_with(
            &raw.address,
            format!("another listener has the address `{address}`"),
            OWN_ADDRESS_HINT,
        );
    }
    let is_remote = matches!(&address, ListenAddr::Tcp(address) if !address.ip().is_loopback());
    if is_remote && !raw.allow_remote {
        resolver.refuse_with(
            &raw.address,
            format!("`{address}` can be reached from other machines"),
            REMOTE_HINT,
        );
    }
    Some(AdminConfig { address, allow_remote: raw.allow_remote })
}

pub(in crate::config) fn resolve_access_log(
    resolver: &Resolver<'_>,
    raw: RawAccessLog,
    policies: &ResolvedPolicies,
) -> AccessLogConfig {
    let format = match raw.format {
        RawFormat::Common => AccessLogFormat::Common,
        RawFormat::Combined => AccessLogFormat::Combined,
        RawFormat::Json => AccessLogFormat::Json,
    };
    let (target, span) = match raw.path {
        Some(path) => (log_target(resolver, path.get_ref()), path.span()),
        None => (AccessLogTarget::Stdout, 0..0),
    };
    // Masks the API key parameters of all policies, because a client may send its key to any route.
    let keys = policies.values().flatten().filter_map(PolicyConfig::key_parameter);
    let masked_parameters = keys.map(str::to_owned).collect();
    AccessLogConfig { lines: AccessLogLines { format, masked_parameters }, target, span }
}

/// Returns the target of a log: a file, or the standard output for the path `-`.
pub(in crate::config) fn log_target(resolver: &Resolver<'_>, path: &Path) -> AccessLogTarget {
    if path == Path::new("-") {
        AccessLogTarget::Stdout
    } else {
        AccessLogTarget::File(resolver.relative_to_config(path))
    }
}

const OWN_ADDRESS_HINT: &str = "choose another address for the admin listener";

const REMOTE_HINT: &str = "anyone with access to the admin listener can reload the config and disable servers: write `127.0.0.1:PORT` or `unix:PATH`, or, \
                           if only trusted machines can connect, `allow_remote = true`";
