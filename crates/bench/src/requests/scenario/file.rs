//! The keys of a scenario file.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A scenario file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    /// URL of the server, without a path.
    pub(super) url: Option<Spanned<String>>,
    /// Headers of each request.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<String>>,
    /// Lifetime of the cookies of a user.
    #[serde(default)]
    pub(super) cookies: CookieUse,
    /// Maximum number of redirects that a step follows. Default: 0.
    pub(super) redirects: Option<Spanned<u32>>,
    /// Maximum size of a response body from which a step extracts values. Default: 1 MiB.
    pub(super) response_bytes_max: Option<Spanned<usize>>,
    /// Variables with a fixed value.
    #[serde(default)]
    pub(super) variables: BTreeMap<String, Spanned<String>>,
    /// Tables of test data.
    #[serde(default)]
    pub(super) data: BTreeMap<String, Spanned<DataKeys>>,
    /// The steps, if the file has only one scenario.
    #[serde(default)]
    pub(super) steps: Vec<Spanned<StepKeys>>,
    /// Alternative scenarios.
    #[serde(default)]
    pub(super) scenarios: Vec<Spanned<FlowKeys>>,
}

/// Lifetime of the cookies of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CookieUse {
    /// Until the end of the iteration: each iteration is a new visitor.
    #[default]
    Iteration,
    /// Until the end of the load: the user returns with each iteration.
    User,
    /// Users ignore cookies.
    Off,
}

/// A table of test data.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataKeys {
    /// Path of the file, relative to the scenario file.
    pub(super) file: String,
    /// Order in which iterations use the rows.
    #[serde(default)]
    pub(super) order: RowOrder,
}

/// Order in which iterations use the rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RowOrder {
    /// One row after the other. After the last row, the first row follows.
    #[default]
    Sequential,
    /// A random row for each iteration.
    Random,
}

/// One of several alternative scenarios.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowKeys {
    pub(super) name: Spanned<String>,
    /// A scenario of weight 2 runs twice as often as a scenario of weight 1, which is the default.
    pub(super) weight: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) steps: Vec<Spanned<StepKeys>>,
}

/// A step: a request, and the use of its response.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepKeys {
    pub(super) name: Spanned<String>,
    /// Default: `GET`, or `POST` with a body.
    pub(super) method: Option<Spanned<String>>,
    /// Path, or URL on the same server.
    pub(super) url: Spanned<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Spanned<String>>,
    pub(super) body: Option<Spanned<String>>,
    /// Expected status. Default: any 2xx or 3xx status.
    pub(super) status: Option<Spanned<StatusKeys>>,
    /// Time between the response and the next step. Default: 0.
    pub(super) think_time: Option<Spanned<ThinkTimeKeys>>,
    /// Maximum number of redirects that the step follows. Default: `redirects` of the file.
    pub(super) redirects: Option<Spanned<u32>>,
    /// Number of times that the step, or a sequence of steps that ends with it, runs. Default: 1.
    pub(super) repeat: Option<Spanned<RepeatKeys>>,
    /// Values to extract from the response, by the name of the variable.
    #[serde(default)]
    pub(super) extract: BTreeMap<String, Spanned<ExtractKeys>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a status such as `200`, or a list such as `[200, 302]`")]
pub(super) enum StatusKeys {
    One(u16),
    Several(Vec<u16>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a time such as `\"500ms\"`, or a range such as `[\"1s\", \"3s\"]`")]
pub(super) enum ThinkTimeKeys {
    Fixed(String),
    Range([String; 2]),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number such as `3`, a range such as `[2, 5]`, or a table such as `{ times = 3, from = \"list\" }`"
)]
pub(super) enum RepeatKeys {
    Step(TimesKeys),
    Steps(RepeatedStepsKeys),
}

/// A sequence of steps that runs several times.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RepeatedStepsKeys {
    pub(super) times: TimesKeys,
    /// Name of the first step of the sequence.
    pub(super) from: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected a number such as `3`, or a range such as `[2, 5]`")]
pub(super) enum TimesKeys {
    Fixed(u32),
    Range([u32; 2]),
}

/// The place of a value in a response: exactly one of `json`, `header` and `regex`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtractKeys {
    pub(super) json: Option<String>,
    pub(super) header: Option<String>,
    pub(super) regex: Option<String>,
    /// Value if the response does not contain the value. Without a default, the step fails.
    pub(super) default: Option<String>,
}
