//! The section `telemetry`: export of traces and metrics.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use thruway_client::Url;
use thruway_net::tls::{TlsConnector, TlsConnectorConfig, TlsServerName};
use thruway_server::FieldLinesBuf;
use thruway_telemetry::Sampling;

use crate::config::resolver::{Resolver, SOME_PERIOD, refuse_certificate, resolve_roots};
use crate::config::values::{Period, Spanned};

/// Export of traces and metrics to an OpenTelemetry collector. Thruway creates spans for each request, and
/// adds the trace ids of requests to the histograms of `/metrics` (exemplars).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawTelemetry {
    /// URL of the collector. `http://` and `https://` use OTLP over HTTP; Thruway appends `/v1/traces` and
    /// `/v1/metrics` to the path. `grpc://` and `grpcs://` use OTLP over gRPC, without and with TLS. Their
    /// default port is 4317. Risk: without TLS, other machines on the network path can read paths, client
    /// addresses and `headers`.
    pub(in crate::config) otlp: Spanned<String>,
    /// Export of traces. `false` disables tracing, so that Thruway exports only metrics. Default: true.
    pub(in crate::config) traces: Option<Spanned<bool>>,
    /// Export of the metrics that `/metrics` contains, with the names of the OpenTelemetry semantic
    /// conventions.
    /// `true` also counts requests by route without `[admin]`. Default: false.
    pub(in crate::config) metrics: Option<bool>,
    /// Time between two exports of metrics, at least 1s. A lower value costs more CPU time. Default: 10s.
    pub(in crate::config) metrics_interval: Option<Spanned<Period>>,
    /// Share of new traces that are exported, from 0 to 1. If the client has sent a valid `traceparent`, its
    /// flag `sampled` decides instead. Thruway always exports failed requests (status 500 and above) and slow
    /// requests. Lower the value if the cost of tracing is too high. Default: 1.
    pub(in crate::config) sample_ratio: Option<Spanned<f64>>,
    /// Duration from which a request is slow, so that its trace is always exported. Default: 1s.
    pub(in crate::config) slow: Option<Spanned<Period>>,
    /// Name of this service in traces and metrics (`service.name`). Default: `thruway`.
    pub(in crate::config) service_name: Option<Spanned<String>>,
    /// Headers of the requests to the collector, such as an API key. Thruway hides the values in error
    /// messages. Default: none.
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pub(in crate::config) headers: BTreeMap<String, Spanned<String>>,
    /// PEM files with the root certificates that are trusted for the collector. Default: the roots of the
    /// system.
    pub(in crate::config) roots: Option<Spanned<Vec<PathBuf>>>,
}

/// The settings of the export of traces and metrics.
#[derive(Clone)]
pub(crate) struct TelemetryConfig {
    /// `None` if tracing is off.
    pub(crate) sampling: Option<Sampling>,
    /// Time between two exports of metrics. `None` if metrics are not exported.
    pub(crate) metrics_interval: Option<Duration>,
    pub(crate) service_name: String,
    pub(crate) collector: CollectorConfig,
}

/// The collector that receives the spans and metrics.
#[derive(Clone)]
pub(crate) struct CollectorConfig {
    pub(crate) protocol: OtlpProtocol,
    /// The URL for traces.
    pub(crate) url: Url,
    /// The URL for metrics.
    pub(crate) metrics_url: Url,
    pub(crate) headers: FieldLinesBuf,
    /// The TLS settings. `None` for a URL without TLS.
    pub(crate) connector: Option<Arc<TlsConnector>>,
}

/// The transport of OTLP messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OtlpProtocol {
    Http,
    Grpc,
}

pub(in crate::config) fn resolve_telemetry(
    resolver: &mut Resolver<'_>,
    raw: RawTelemetry,
) -> Option<TelemetryConfig> {
    let sampling = Sampling {
        ratio: resolver.or(raw.sample_ratio, 1.0, 0.0..=1.0),
        slow: resolver.or(raw.slow, Period(DEFAULT_SLOW), SOME_PERIOD).0,
    };
    let has_traces = raw.traces.as_ref().is_none_or(|traces| *traces.get_ref());
    let has_metrics = raw.metrics.unwrap_or(false);
    if let Some(traces) = raw.traces.filter(|_| !has_traces && !has_metrics) {
        resolver.refuse_with(&traces, "this section exports nothing", NOTHING_HINT);
    }
    if let Some(interval) = raw.metrics_interval.as_ref().filter(|_| !has_metrics) {
        resolver.refuse_with(interval, "`metrics_interval` has no effect", METRICS_HINT);
    }
    let metrics_interval = resolver.or(raw.metrics_interval, Period(DEFAULT_METRICS_INTERVAL), INTERVALS).0;
    let service_name = raw.service_name.map_or_else(
        || "thruway".to_owned(),
        |name| {
            resolver.check_name(name.get_ref(), &name.span(), "the service");
            if name.get_ref().contains(char::is_control) {
                resolver.refuse(&name, "the name contains a control character");
            }
            name.into_inner()
        },
    );
    let headers = resolve_headers(resolver, &raw.headers);
    let (protocol, url) = match collector_url(raw.otlp.get_ref()) {
        Ok(parsed) => parsed,
        Err(hint) => {
            resolver.refuse_with(&raw.otlp, "this is not the URL of a collector", hint);
            return None;
        }
    };
    let metrics_url = metrics_url(protocol, &url);
    let connector = if url.is_https() {
        let span = raw.roots.as_ref().map_or_else(|| raw.otlp.span(), |roots| roots.span());
        let roots = resolve_roots(resolver, raw.roots);
        let connector = TlsConnector::load(TlsConnectorConfig { roots, ..TlsConnectorConfig::default() });
        let refuse = |error| refuse_certificate(resolver, &span, &error);
        Some(Arc::new(connector.map_err(refuse).ok()?))
    } else {
        if let Some(roots) = &raw.roots {
            resolver.refuse_with(roots, "`roots` has no effect without TLS", TLS_HINT);
        }
        None
    };
    let collector = CollectorConfig { protocol, url, metrics_url, headers, connector };
    Some(TelemetryConfig {
        sampling: has_traces.then_some(sampling),
        metrics_interval: has_metrics.then_some(metrics_interval),
        service_name,
        collector,
    })
}

/// Returns the protocol and the URL for requests to the collector at `text`.
///
/// # Errors
/// Returns a hint if `text` is invalid.
fn collector_url(text: &str) -> Result<(OtlpProtocol, Url), &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or(URL_HINT)?;
    let (protocol, scheme) = match scheme {
        "http" | "https" => (OtlpProtocol::Http, scheme),
        "grpc" => (OtlpProtocol::Grpc, "http"),
        "grpcs" => (OtlpProtocol::Grpc, "https"),
        _ => return Err(URL_HINT),
    };
    check_parts(rest)?;
    let url = Url::for_request(&format!("{scheme}://{rest}")).map_err(|_| URL_HINT)?;
    if url.is_https() && TlsServerName::new(url.host()).is_err() {
        return Err(URL_HINT);
    }
    if url.port() == 0 {
        return Err(PORT_HINT);
    }
    with_endpoint(protocol, url).map(|url| (protocol, url))
}

/// Refuses the parts of a URL that Thruway would ignore. `rest` is the URL behind the scheme.
fn check_parts(rest: &str) -> Result<(), &'static str> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(USER_HINT);
    }
    match rest.find(['?', '#']).map(|at| &rest[at..]) {
        Some(query) if query.starts_with('?') => Err(QUERY_HINT),
        Some(_) => Err(FRAGMENT_HINT),
        None => Ok(()),
    }
}

/// Adds the path of OTLP over HTTP, or the default port of OTLP over gRPC.
fn with_endpoint(protocol: OtlpProtocol, url: Url) -> Result<Url, &'static str> {
    let invalid = |_| URL_HINT;
    match protocol {
        OtlpProtocol::Grpc if url.target() != "/" => Err(GRPC_PATH_HINT),
        OtlpProtocol::Grpc if has_port(&url) => Ok(url),
        OtlpProtocol::Grpc => {
            Url::for_request(&format!("{}:{GRPC_PORT}", url.origin())).map_err(|_| URL_HINT)
        }
        OtlpProtocol::Http if url.path().ends_with(TRACES_PATH) => Ok(url),
        OtlpProtocol::Http => {
            url.with_target(&format!("{}{TRACES_PATH}", url.path().trim_end_matches('/'))).map_err(invalid)
        }
    }
}

/// Returns the URL for metrics. `url` is the URL for traces. gRPC has no paths in URLs.
fn metrics_url(protocol: OtlpProtocol, url: &Url) -> Url {
    let base = url.path().strip_suffix(TRACES_PATH).filter(|_| protocol == OtlpProtocol::Http);
    let metrics = base.and_then(|base| url.with_target(&format!("{base}{METRICS_PATH}")).ok());
    metrics.unwrap_or_else(|| url.clone())
}

/// Returns `true` if the authority of `url` contains a port.
fn has_port(url: &Url) -> bool {
    url.authority().len() > url.host().len()
}

fn resolve_headers(resolver: &mut Resolver<'_>, raw: &BTreeMap<String, Spanned<String>>) -> FieldLinesBuf {
    let mut headers = FieldLinesBuf::new();
    for (name, value) in raw {
        let lower = name.to_ascii_lowercase();
        let is_own = OWN_FIELDS.contains(&&*lower) || lower.starts_with("grpc-");
        if is_own || headers.append(name, value.get_ref()).is_err() {
            resolver.refuse_with(value, "this is not a header that Thruway can send", HEADER_HINT);
        }
    }
    headers
}

/// Headers that Thruway writes itself, and headers that would change the meaning of the message.
const OWN_FIELDS: [&str; 13] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

const DEFAULT_SLOW: Duration = Duration::from_secs(1);

const DEFAULT_METRICS_INTERVAL: Duration = Duration::from_secs(10);

/// Values of `metrics_interval`.
const INTERVALS: RangeInclusive<Period> = Period(Duration::from_secs(1))..=Period(Duration::from_hours(1));

/// The path that OTLP defines for traces.
const TRACES_PATH: &str = "/v1/traces";

/// The path that OTLP defines for metrics.
const METRICS_PATH: &str = "/v1/metrics";

/// The port that OTLP defines for gRPC.
const GRPC_PORT: u16 = 4317;

const URL_HINT: &str = "write `http://HOST:4318` or `grpc://HOST:4317`, or `https://` or `grpcs://` for TLS";

const USER_HINT: &str = "remove the user name and the password, and write `Authorization` in `headers`";

const QUERY_HINT: &str = "remove the query: write API keys in `headers`";

const FRAGMENT_HINT: &str = "remove the fragment (the part from `#`)";

const GRPC_PATH_HINT: &str = "remove the path: write `grpc://HOST:4317`";

const PORT_HINT: &str = "the port is 0: write the port of the collector";

const NOTHING_HINT: &str = "remove `traces = false`, or write `metrics = true`";

const METRICS_HINT: &str = "write `metrics = true`, or remove `metrics_interval`";

const TLS_HINT: &str = "remove `roots`, or write `https://` or `grpcs://` in `otlp`";

const HEADER_HINT: &str = "check the name and the value; you cannot set `Content-Type`, `Host`, `User-Agent`, `grpc-…`, `Content-Length` and similar headers, because Thruway sets them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collector_url_selects_protocol_port_and_path() {
        let shown = |text| {
            let parsed = collector_url(text).ok();
            parsed.map(|(protocol, url)| format!("{protocol:?} {} {}", url.as_str(), url.port()))
        };
        for (text, expected) in [
            ("http://a:4318", "Http http://a:4318/v1/traces 4318"),
            ("http://a:4318/", "Http http://a:4318/v1/traces 4318"),
            ("https://a/b", "Http https://a/b/v1/traces 443"),
            ("https://a/b/v1/traces", "Http https://a/b/v1/traces 443"),
            ("http://[::1]", "Http http://[::1]/v1/traces 80"),
            ("grpc://a", "Grpc http://a:4317/ 4317"),
            ("grpc://[::1]", "Grpc http://[::1]:4317/ 4317"),
            ("grpcs://a:443", "Grpc https://a:443/ 443"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "a:4318",
            "ftp://a",
            "http://",
            "http://user@a",
            "grpc:a",
            "grpc://a/b",
            "grpc://a?b",
            "http://a b",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn metrics_have_their_own_path() {
        for (text, expected) in [
            ("http://a:4318", "http://a:4318/v1/metrics"),
            ("https://a/b/", "https://a/b/v1/metrics"),
            ("https://a/b/v1/traces", "https://a/b/v1/metrics"),
            ("grpc://a:1", "http://a:1/"),
        ] {
            let (protocol, url) = collector_url(text).unwrap();
            assert_eq!(metrics_url(protocol, &url).as_str(), expected, "{text}");
        }
    }
}
