//! The config as the file says it. Nothing is looked up and nothing opened here.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Failure;
use super::failure::Source;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    /// Worker threads. Default one for each core.
    pub(super) workers: Option<Spanned<usize>>,
    /// Connections open at one time; those beyond are answered 503. Default as many as descriptors allow.
    pub(super) connections_max: Option<Spanned<usize>>,
    #[serde(default)]
    pub(super) listeners: Vec<RawListener>,
    #[serde(default)]
    pub(super) routes: Vec<Spanned<RawRoute>>,
    pub(super) access_log: Option<RawAccessLog>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) timeouts: RawTimeouts,
}

/// Where to listen.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawListener {
    /// `IP:PORT` or `unix:PATH`.
    pub(super) address: Spanned<String>,
}

/// Which requests, and what happens to them: exactly one action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRoute {
    /// This path and all below it.
    pub(super) path: Option<Spanned<String>>,
    /// This path only.
    pub(super) path_exact: Option<Spanned<String>>,
    /// Action: the same answer for everybody.
    pub(super) answer: Option<RawAnswer>,
    /// Action: the endpoints of the demo.
    pub(super) demo: Option<bool>,
    /// Action: a directory of files.
    pub(super) files: Option<RawFiles>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAnswer {
    /// Default 200.
    pub(super) status: Option<Spanned<u16>>,
    /// Default `text/plain; charset=utf-8`.
    pub(super) content_type: Option<Spanned<String>>,
    /// Default none.
    #[serde(default)]
    pub(super) content: String,
    /// More field lines: `{ name = "…", value = "…" }`.
    #[serde(default)]
    pub(super) fields: Vec<Spanned<RawField>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawField {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFiles {
    /// The directory; relative to that of the config.
    pub(super) root: PathBuf,
    /// What is served for a directory. Default `index.html`.
    pub(super) index: Option<String>,
    /// Whether `.br`, `.zst` and `.gz` beside a file are sent to those who take them. Default true.
    pub(super) precompressed: Option<bool>,
    /// Whether files are served whose names begin with a dot. Default false.
    #[serde(default)]
    pub(super) hidden_files: bool,
    /// The value of `Cache-Control`. Default none.
    pub(super) cache_control: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAccessLog {
    /// Default `combined`.
    #[serde(default)]
    pub(super) format: RawFormat,
    /// A file, or `-` for the standard output, which is the default. Relative to the directory of the config.
    pub(super) path: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawFormat {
    Common,
    #[default]
    Combined,
    Json,
}

/// See `thruway_server::Limits` and `thruway_server::Config` for what each is and its default.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) request_target_bytes: Option<Spanned<u32>>,
    pub(super) header_section_bytes: Option<Spanned<u32>>,
    pub(super) field_lines: Option<Spanned<u32>>,
    pub(super) content_bytes: Option<u64>,
    pub(super) chunk_extension_bytes: Option<Spanned<u32>>,
    pub(super) trailer_section_bytes: Option<Spanned<u32>>,
    pub(super) requests_per_connection: Option<u64>,
    pub(super) pipelined_requests: Option<usize>,
    pub(super) output_bytes: Option<Spanned<usize>>,
    pub(super) content_window_bytes: Option<Spanned<usize>>,
    pub(super) discard_bytes: Option<u64>,
}

/// See `thruway_server::Timeouts` for what each is and its default. Durations are written `10s`, `1m 30s`, `500ms`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTimeouts {
    pub(super) header_section: Option<Period>,
    pub(super) content: Option<Period>,
    pub(super) content_rate_min: Option<u64>,
    pub(super) idle: Option<Period>,
    pub(super) write_stall: Option<Period>,
    pub(super) linger: Option<Period>,
    pub(super) drain: Option<Period>,
}

/// A duration, written with its unit.
#[derive(Clone, Copy)]
pub(super) struct Period(pub(super) Duration);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let error = |_| {
            serde::de::Error::custom(format!("`{text}` is not a duration: write `10s`, `1m 30s` or `500ms`"))
        };
        humantime::parse_duration(&text).map(Self).map_err(error)
    }
}

/// Reads the text of a config.
pub(super) fn parse(source: &Source) -> Result<Raw, Failure> {
    toml::from_str(&source.text).map_err(|error| {
        let failure = source.failure(error.span().unwrap_or(0..0), error.message());
        match suggestion(error.message()) {
            Some(name) => failure.with_hint(format!("did you mean `{name}`?")),
            None => failure,
        }
    })
}

/// The expected key that an unknown one is most like: ``unknown field `adress`, expected `address` or …``.
fn suggestion(message: &str) -> Option<&str> {
    let mut quoted = message.strip_prefix("unknown ")?.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    quoted
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}
