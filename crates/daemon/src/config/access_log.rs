//! The access log: format, selection of requests, and target. The section `log` of the program's own log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_gateway::PolicyConfig;
use thruway_server::{
    AccessLogFormat, AccessLogLines, AccessLogMembers, AccessLogSample, AccessLogTarget, AccessLogTemplate,
    InvalidTemplate, Syslog, SyslogAddress, SyslogFacility,
};

use crate::config::policies::ResolvedPolicies;
use crate::config::resolver::{Resolver, known_hint, resolve_some_period};
use crate::config::values::{Period, Spanned};
use crate::config::{AccessLogConfig, Span};

/// The access log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawAccessLog {
    /// Format of the lines: `common`, `combined`, `json`, `otel` (JSON with the names of the OpenTelemetry
    /// semantic conventions) or `ecs` (JSON with the names of the Elastic Common Schema). Excludes `template`
    /// and `members`. Default: `combined`.
    format: Option<Spanned<RawFormat>>,
    /// Template of the lines, with variables in braces: `{client.address} "{request_line}"`. Write `{{` and
    /// `}}` for braces. The guide lists the variables. A variable without a value gives `-`. Thruway escapes
    /// quotes, backslashes and all bytes except printable ASCII in values. Risk: a value may contain spaces,
    /// so write quotes around variables with text from clients. Default: none.
    template: Option<Spanned<String>>,
    /// Members of JSON lines, each with the name of a variable: `{ code = "http.response.status_code" }`. A
    /// line omits members without a value. Default: none.
    members: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    /// Selection of the requests in the log. Default: all requests.
    sample: Option<RawSample>,
    /// Path of the log file, or `-` for the standard output. A relative path starts at the directory of the
    /// config. Default: `-`.
    path: Option<Spanned<PathBuf>>,
    /// Path of a Unix stream socket of another program, which reads the lines. A relative path starts at the
    /// directory of the config. Excludes `path` and `syslog`. Default: none.
    socket: Option<Spanned<PathBuf>>,
    /// A syslog server that receives the lines. Excludes `path` and `socket`. Default: none.
    syslog: Option<Spanned<RawSyslog>>,
}

/// Selection of the requests in the access log. The log always contains requests with a status of at least
/// 500 and requests with an incomplete response.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawSample {
    /// Share of the other requests in the log, 0 to 1.
    ratio: Spanned<f64>,
    /// The log always contains requests that take at least this time, from the complete request header to the
    /// end of the response. Default: none.
    slow: Option<Spanned<Period>>,
    /// The log always contains requests with at least this status, 100 to 599. With `ratio = 0` and
    /// `status_min = 400`, the log contains only errors. Default: 500.
    status_min: Option<Spanned<u16>>,
}

/// A syslog server. Messages have the format of RFC 5424. The severity depends on the status: `err` from 500, `warning`
/// from 400, and otherwise `info`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawSyslog {
    /// Address of the server: `unix:PATH` of a datagram socket, `udp://HOST:PORT`, or `tcp://HOST:PORT`. Over
    /// TCP, the length precedes each message (RFC 6587 §3.4.1). Risk: UDP and TCP send the log without
    /// encryption. Default: `unix:/dev/log`.
    address: Option<Spanned<String>>,
    /// Facility of the messages. Default: `local7`.
    #[serde(default)]
    facility: RawFacility,
    /// `APP-NAME` of the messages: 1 to 48 printable ASCII characters without spaces. Default: `thruway`.
    app_name: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum RawFormat {
    Common,
    Combined,
    Json,
    Otel,
    Ecs,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum RawFacility {
    User,
    Daemon,
    Auth,
    Authpriv,
    Local0,
    Local1,
    Local2,
    Local3,
    Local4,
    Local5,
    Local6,
    #[default]
    Local7,
}

pub(in crate::config) fn resolve_access_log(
    resolver: &mut Resolver<'_>,
    raw: RawAccessLog,
    policies: &ResolvedPolicies,
) -> AccessLogConfig {
    let targets = [
        raw.path.as_ref().map(|path| path.span()),
        raw.socket.as_ref().map(|path| path.span()),
        raw.syslog.as_ref().map(|syslog| syslog.span()),
    ];
    refuse_second(resolver, targets, "the log has one target: remove `path`, `socket` or `syslog`");
    let formats = [
        raw.format.as_ref().map(|format| format.span()),
        raw.template.as_ref().map(|template| template.span()),
        raw.members.as_ref().map(|members| members.span()),
    ];
    refuse_second(resolver, formats, "the log has one format: remove `format`, `template` or `members`");
    let format = match (raw.template, raw.members) {
        (Some(template), _) => resolve_template(resolver, &template),
        (None, Some(members)) => resolve_members(resolver, &members),
        (None, None) => raw.format.map_or(AccessLogFormat::Combined, |format| format.into_inner().into()),
    };
    let (target, span) = match (raw.path, raw.socket, raw.syslog) {
        (_, _, Some(syslog)) => (resolve_syslog(resolver, &syslog), syslog.span()),
        (_, Some(path), None) => {
            (AccessLogTarget::Socket(resolver.relative_to_config(path.get_ref())), path.span())
        }
        (Some(path), None, None) => (log_target(resolver, path.get_ref()), path.span()),
        (None, None, None) => (AccessLogTarget::Stdout, 0..0),
    };
    let sample = raw.sample.map(|sample| resolve_sample(resolver, sample));
    // Masks the API key parameters of all policies, because a client may send its key to any route.
    let keys = policies.values().flatten().filter_map(PolicyConfig::key_parameter);
    let masked_parameters = keys.map(str::to_owned).collect();
    AccessLogConfig { lines: AccessLogLines { format, masked_parameters, sample }, target, span }
}

/// Refuses the second of the given settings, because they exclude each other.
fn refuse_second(resolver: &mut Resolver<'_>, settings: [Option<Span>; 3], message: &str) {
    if let Some(second) = settings.into_iter().flatten().nth(1) {
        resolver.refuse_at(&second, message);
    }
}

fn resolve_template(resolver: &mut Resolver<'_>, template: &Spanned<String>) -> AccessLogFormat {
    match AccessLogTemplate::parse(template.get_ref()) {
        Ok(template) => return AccessLogFormat::Template(template),
        Err(InvalidTemplate::UnknownVariable(name)) => refuse_variable(resolver, template, &name),
        Err(error) => resolver.refuse_with(template, format!("invalid template: {error}"), TEMPLATE_HINT),
    }
    AccessLogFormat::Combined
}

fn resolve_members(
    resolver: &mut Resolver<'_>,
    members: &Spanned<BTreeMap<String, Spanned<String>>>,
) -> AccessLogFormat {
    if members.get_ref().is_empty() {
        resolver.refuse_with(members, "the lines have no members", MEMBERS_HINT);
    }
    let pairs = members.get_ref().iter().map(|(name, variable)| (name.as_str(), variable.get_ref().as_str()));
    match AccessLogMembers::new(pairs) {
        Ok(members) => return AccessLogFormat::Members(members),
        Err(place) => {
            if let Some(variable) = members.get_ref().values().nth(place) {
                refuse_variable(resolver, variable, variable.get_ref());
            }
        }
    }
    AccessLogFormat::Combined
}

fn refuse_variable(resolver: &mut Resolver<'_>, at: &Spanned<String>, name: &str) {
    let known: Vec<_> = AccessLogMembers::variables().map(str::to_owned).collect();
    let hint = match name.strip_prefix(HEADER_PREFIX) {
        Some(header) => format!(
            "write the header name in lower case: `{HEADER_PREFIX}{}`",
            header.trim().to_ascii_lowercase().replace([' ', '_'], "-")
        ),
        None => known_hint(name, known.iter(), ""),
    };
    resolver.refuse_with(at, format!("unknown variable `{name}`"), &hint);
}

fn resolve_sample(resolver: &mut Resolver<'_>, raw: RawSample) -> AccessLogSample {
    let ratio = *raw.ratio.get_ref();
    if !(0.0..=1.0).contains(&ratio) {
        resolver.refuse_with(&raw.ratio, "the value must be from 0 to 1", RATIO_HINT);
    }
    let status_min = resolver.or(raw.status_min, 500, 100..=599);
    AccessLogSample { ratio, slow: resolve_some_period(resolver, raw.slow), status_min }
}

fn resolve_syslog(resolver: &mut Resolver<'_>, raw: &Spanned<RawSyslog>) -> AccessLogTarget {
    let raw = raw.get_ref();
    let address = match &raw.address {
        Some(address) => resolve_address(resolver, address),
        None => SyslogAddress::Unix(PathBuf::from("/dev/log")),
    };
    let app_name = match &raw.app_name {
        Some(name) => {
            let is_printable = name.get_ref().bytes().all(|byte| byte.is_ascii_graphic());
            if !is_printable || !(1..=48).contains(&name.get_ref().len()) {
                let message = "`app_name` must have 1 to 48 printable ASCII characters without spaces";
                resolver.refuse(name, message);
            }
            name.get_ref().clone()
        }
        None => "thruway".to_owned(),
    };
    AccessLogTarget::Syslog(Syslog { address, facility: raw.facility.into(), app_name })
}

fn resolve_address(resolver: &mut Resolver<'_>, address: &Spanned<String>) -> SyslogAddress {
    let text = address.get_ref();
    let has_port = |name: &str| {
        let parts = name.rsplit_once(':');
        parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0))
    };
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return SyslogAddress::Unix(resolver.relative_to_config(Path::new(path)));
    }
    if let Some(name) = text.strip_prefix("udp://").filter(|name| has_port(name)) {
        return SyslogAddress::Udp(name.to_owned());
    }
    if let Some(name) = text.strip_prefix("tcp://").filter(|name| has_port(name)) {
        return SyslogAddress::Tcp(name.to_owned());
    }
    resolver.refuse_with(address, format!("`{text}` is not the address of a syslog server"), ADDRESS_HINT);
    SyslogAddress::Unix(PathBuf::new())
}

/// Returns the target of a log: a file, or the standard output for the path `-`.
pub(in crate::config) fn log_target(resolver: &Resolver<'_>, path: &Path) -> AccessLogTarget {
    if path == Path::new("-") {
        AccessLogTarget::Stdout
    } else {
        AccessLogTarget::File(resolver.relative_to_config(path))
    }
}

impl From<RawFormat> for AccessLogFormat {
    fn from(raw: RawFormat) -> Self {
        match raw {
            RawFormat::Common => Self::Common,
            RawFormat::Combined => Self::Combined,
            RawFormat::Json => Self::Json,
            RawFormat::Otel => Self::Otel,
            RawFormat::Ecs => Self::Ecs,
        }
    }
}

impl From<RawFacility> for SyslogFacility {
    fn from(raw: RawFacility) -> Self {
        match raw {
            RawFacility::User => Self::User,
            RawFacility::Daemon => Self::Daemon,
            RawFacility::Auth => Self::Auth,
            RawFacility::Authpriv => Self::Authpriv,
            RawFacility::Local0 => Self::Local0,
            RawFacility::Local1 => Self::Local1,
            RawFacility::Local2 => Self::Local2,
            RawFacility::Local3 => Self::Local3,
            RawFacility::Local4 => Self::Local4,
            RawFacility::Local5 => Self::Local5,
            RawFacility::Local6 => Self::Local6,
            RawFacility::Local7 => Self::Local7,
        }
    }
}

/// Start of the variables for request headers.
const HEADER_PREFIX: &str = "http.request.header.";
const TEMPLATE_HINT: &str =
    "write variables in braces, such as `{client.address}`, and `{{` or `}}` for a brace";
const MEMBERS_HINT: &str =
    "name a variable for each member: `members = { code = \"http.response.status_code\" }`";
const RATIO_HINT: &str = "a tenth of the requests is `0.1`";
const ADDRESS_HINT: &str = "write `unix:/dev/log`, `udp://HOST:PORT` or `tcp://HOST:PORT`";

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
