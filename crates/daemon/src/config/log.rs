//! The section `log`: the program's own log.

use schemars::JsonSchema;
use serde::Deserialize;

/// The program's own log (the error log) on the standard error. The environment variable `THRUWAY_LOG` sets
/// its levels.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawLog {
    /// Format of the lines: `text`, or `json` with the members `timestamp`, `level`, `target`, `message` and
    /// `fields`. A reload applies a change. Errors about the config at the start are always text. Default:
    /// `text`.
    #[serde(default)]
    pub(in crate::config) format: RawLogFormat,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum RawLogFormat {
    Json,
    #[default]
    Text,
}
