//! The access log.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::PolicyConfig;
use thruway_server::{AccessLogFormat, AccessLogLines, AccessLogTarget};

use crate::config::AccessLogConfig;
use crate::config::policies::ResolvedPolicies;
use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

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
