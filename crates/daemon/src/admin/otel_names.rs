//! The OpenTelemetry names of metrics and labels.
//!
//! Metrics and labels of the semantic conventions have their names from there. The other names follow from
//! the names in `/metrics` by rules, so that a Prometheus with an OTLP receiver stores the same metric names.

use thruway_telemetry::{Attribute, Metric, MetricKind, Value};

/// Returns the metric with the name `name` in `/metrics`.
pub(super) fn metric_of(name: &str, kind: MetricKind, help: &str) -> Metric {
    let (name, unit) = match name {
        "http_server_request_duration_seconds" => ("http.server.request.duration".to_owned(), "s"),
        "http_client_request_duration_seconds" => ("http.client.request.duration".to_owned(), "s"),
        "http_server_active_requests" => ("http.server.active_requests".to_owned(), "{request}"),
        "process_uptime_seconds" => ("process.uptime".to_owned(), "s"),
        "process_cpu_seconds_total" => ("process.cpu.time".to_owned(), "s"),
        "process_resident_memory_bytes" => ("process.memory.usage".to_owned(), "By"),
        "process_virtual_memory_bytes" => ("process.memory.virtual".to_owned(), "By"),
        "process_threads" => ("process.thread.count".to_owned(), "{thread}"),
        "process_open_fds" => ("process.unix.file_descriptor.count".to_owned(), "{file_descriptor}"),
        name => own_name(name),
    };
    Metric { name, description: help.to_owned(), unit, kind }
}

/// Returns the name and the unit of a metric that only Thruway has.
fn own_name(name: &str) -> (String, &'static str) {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let unit = match () {
        () if name.ends_with("_seconds") => "s",
        () if name.ends_with("_bytes") => "By",
        () => "",
    };
    let has_noun = name.ends_with("_duration_seconds") || name.ends_with("_timestamp_seconds");
    let name = name.strip_suffix("_seconds").filter(|_| has_noun).unwrap_or(name);
    (name.replacen('_', ".", 1), unit)
}

/// Returns the attributes for the labels of a sample.
pub(super) fn attributes_of<'a>(labels: &[(&'a str, &'a str)]) -> Vec<Attribute<'a>> {
    // Servers of MCP endpoints and servers of upstreams have the same label.
    let is_mcp = labels.iter().any(|(label, _)| *label == "endpoint");
    labels.iter().map(|(label, value)| attribute_of(label, value, is_mcp)).collect()
}

fn attribute_of<'a>(label: &str, text: &'a str, is_mcp: bool) -> Attribute<'a> {
    let integer = |text: &'a str| text.parse().map_or(Value::Text(text), Value::Integer);
    let (name, value) = match label {
        "http_request_method" => ("http.request.method", Value::Text(text)),
        "http_response_status_code" => ("http.response.status_code", integer(text)),
        "http_route" => ("http.route", Value::Text(text)),
        "url_scheme" => ("url.scheme", Value::Text(text)),
        "network_protocol_version" => ("network.protocol.version", Value::Text(text)),
        "error_type" => ("error.type", Value::Text(text)),
        "server_address" => ("server.address", Value::Text(text)),
        "server_port" => ("server.port", integer(text)),
        "otel_metric_overflow" => ("otel.metric.overflow", Value::Boolean(text == "true")),
        "tool" => ("gen_ai.tool.name", Value::Text(text)),
        "endpoint" => ("thruway.mcp.endpoint", Value::Text(text)),
        "server" if is_mcp => ("thruway.mcp.server", Value::Text(text)),
        "direction" => ("thruway.direction", Value::Text(text)),
        "file" => ("thruway.file", Value::Text(text)),
        "kind" => ("thruway.kind", Value::Text(text)),
        "listener" => ("thruway.listener", Value::Text(text)),
        "name" => ("thruway.name", Value::Text(text)),
        "outcome" => ("thruway.outcome", Value::Text(text)),
        "policy" => ("thruway.policy", Value::Text(text)),
        "reason" => ("thruway.reason", Value::Text(text)),
        "route" => ("thruway.route", Value::Text(text)),
        "state" => ("thruway.state", Value::Text(text)),
        "upstream" => ("thruway.upstream", Value::Text(text)),
        "version" => ("thruway.version", Value::Text(text)),
        other => {
            debug_assert!(false, "the label {other} needs a name");
            ("thruway.other", Value::Text(text))
        }
    };
    Attribute { name, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_follow_the_conventions_or_have_a_prefix() {
        for (name, expected, unit) in [
            ("http_server_request_duration_seconds", "http.server.request.duration", "s"),
            ("http_server_active_requests", "http.server.active_requests", "{request}"),
            ("process_uptime_seconds", "process.uptime", "s"),
            ("process_cpu_seconds_total", "process.cpu.time", "s"),
            ("process_open_fds", "process.unix.file_descriptor.count", "{file_descriptor}"),
            ("thruway_tcp_bytes_total", "thruway.tcp_bytes", "By"),
            ("thruway_upstream_queue_duration_seconds", "thruway.upstream_queue_duration", "s"),
            ("thruway_mcp_tool_seconds_total", "thruway.mcp_tool_seconds", "s"),
            (
                "thruway_certificate_not_after_timestamp_seconds",
                "thruway.certificate_not_after_timestamp",
                "s",
            ),
            ("thruway_upstream_retries_total", "thruway.upstream_retries", ""),
        ] {
            let metric = metric_of(name, MetricKind::Gauge, "");
            assert_eq!((&*metric.name, metric.unit), (expected, unit));
        }
    }

    #[test]
    fn attributes_have_the_types_of_the_conventions() {
        let labels =
            [("http_response_status_code", "404"), ("server_port", "x"), ("otel_metric_overflow", "true")];
        let values = attributes_of(&labels).iter().map(|attribute| attribute.value).collect::<Vec<_>>();
        assert_eq!(values, [Value::Integer(404), Value::Text("x"), Value::Boolean(true)]);
        let names = attributes_of(&[("endpoint", "a"), ("server", "b")]);
        assert_eq!(
            names.iter().map(|name| name.name).collect::<Vec<_>>(),
            ["thruway.mcp.endpoint", "thruway.mcp.server"]
        );
    }
}
