//! The spans of a request, by the semantic conventions of OpenTelemetry for HTTP and for the Model Context
//! Protocol.

use thruway_message::token::is_in_any_case;
use thruway_message::{Method, RequestHead, RequestTarget, Version};
use thruway_telemetry::{
    AttemptDetail, RequestTrace, Span, SpanAttributes, SpanKind, SpanStatus, SpanWriter, Step, StepDetail,
    UpstreamPath,
};

use super::known_fields::{KnownFields, RequestKey};
use super::log::{CLIENT_CLOSED_REQUEST, SpanTimes};
use super::mcp_spans::write_mcp;
use crate::record::Record;

/// Writes all spans of a completed request.
pub(super) fn write_spans(
    writer: &mut SpanWriter<'_>,
    record: &Record<'_>,
    trace: &RequestTrace,
    times: &SpanTimes,
    known: &mut KnownFields,
) {
    let method = record.head.as_ref().map_or("_OTHER", |head| method_attribute(head.method));
    let state = &*trace.state();
    write_server_span(writer, record, trace, times, (method, state, known));
    if let Some(step) = trace.routing() {
        writer.write(&span_of(&step, trace, times, state), |_| {});
    }
    for step in &*trace.steps() {
        let span = span_of(step, trace, times, state);
        match &step.detail {
            StepDetail::Routing | StepDetail::Queue | StepDetail::Connect | StepDetail::Tls => {
                writer.write(&span, |_| {});
            }
            StepDetail::Attempt(attempt) => {
                let first_byte_nanos = attempt.first_byte.map(|at| times.nanos(at));
                let is_failed = attempt.error.is_some() || attempt.status.is_some_and(|status| status >= 400);
                let (kind, status) = (SpanKind::Client, status_of(is_failed));
                let span = Span { kind, first_byte_nanos, status, ..span };
                writer.write(&span, |attributes| {
                    attributes.add_encoded(known.of_attempt(&attempt.target, method));
                    add_attempt(attributes, attempt, is_failed);
                    trace.with_upstream_path(|path| add_url(attributes, attempt, path, record.head.as_ref()));
                });
            }
            StepDetail::Mcp(operation) => write_mcp(writer, &span, operation, times),
        }
    }
}

fn write_server_span(
    writer: &mut SpanWriter<'_>,
    record: &Record<'_>,
    trace: &RequestTrace,
    times: &SpanTimes,
    (method, state, known): (&'static str, &str, &mut KnownFields),
) {
    let span = Span {
        own: trace.trace_parent(),
        parent: trace.parent(),
        is_parent_remote: trace.parent().is_some(),
        state,
        name: "",
        target: None,
        kind: SpanKind::Server,
        start_nanos: times.nanos(trace.start()),
        end_nanos: times.end_nanos,
        first_byte_nanos: None,
        status: status_of(record.status.as_u16() >= 500 || trace.is_broken_off()),
    };
    let version = record.head.as_ref().map(|head| protocol_version(head.version));
    let key = RequestKey { route: None, method, scheme: record.scheme, version };
    writer.write(&span, |attributes| {
        attributes.add_encoded(known.of_request(trace.route().as_ref(), &key));
        if let Some(head) = &record.head {
            add_head(attributes, head, known);
        }
        attributes.add_encoded(known.of_client(record.client));
        add_outcome(attributes, record, trace);
    });
}

/// Returns the span of a step, without the data of an attempt.
#[inline]
fn span_of<'a>(step: &Step, trace: &RequestTrace, times: &SpanTimes, state: &'a str) -> Span<'a> {
    let own = trace.trace_parent();
    Span {
        own: own.with_span(step.id),
        parent: Some(step.parent.unwrap_or(own.span_id)),
        is_parent_remote: false,
        state,
        name: step.detail.constant_name().unwrap_or_default(),
        target: None,
        kind: SpanKind::Internal,
        start_nanos: times.nanos(step.start),
        end_nanos: step.end.map_or(times.end_nanos, |end| times.nanos(end)),
        first_byte_nanos: None,
        status: SpanStatus::Unset,
    }
}

fn add_outcome(attributes: &mut SpanAttributes<'_>, record: &Record<'_>, trace: &RequestTrace) {
    let status = record.status.as_u16();
    if record.status != CLIENT_CLOSED_REQUEST {
        attributes.add("http.response.status_code", status);
        attributes.add("http.response.body.size", record.content_bytes);
    }
    if record.status == CLIENT_CLOSED_REQUEST {
        attributes.add("error.type", "client_disconnected");
    } else if status >= 500 || trace.is_broken_off() {
        // The reason for which the gateway got no response or an incomplete body, or the status.
        let failure = trace.failure().or_else(|| record.forwarded.and_then(|forwarded| forwarded.failure));
        attributes.add("error.type", failure.unwrap_or(itoa::Buffer::new().format(status)));
    }
    add_upstream(attributes, record, trace);
    if let Some(refused) = record.refused {
        attributes.add("thruway.policy", &*refused.policy);
        attributes.add("thruway.refusal", refused.reason);
    }
}

/// Adds the name of the upstream, which the trace, an attempt or the handler has recorded.
#[inline]
fn add_upstream(attributes: &mut SpanAttributes<'_>, record: &Record<'_>, trace: &RequestTrace) {
    if let Some(upstream) = &*trace.upstream() {
        return attributes.add("thruway.upstream", &**upstream);
    }
    let steps = trace.steps();
    let target = steps.iter().find_map(|step| match &step.detail {
        StepDetail::Attempt(attempt) => Some(&attempt.target),
        _ => None,
    });
    if let Some(target) = target {
        attributes.add_encoded(target.upstream_attribute());
    } else {
        attributes.add_some("thruway.upstream", record.forwarded.map(|forwarded| &*forwarded.upstream));
    }
}

fn add_attempt(attributes: &mut SpanAttributes<'_>, attempt: &AttemptDetail, is_failed: bool) {
    attributes.add_some("http.response.status_code", attempt.status);
    if attempt.retries > 0 {
        attributes.add("http.request.resend_count", attempt.retries);
    }
    match (attempt.error, attempt.status) {
        (Some(error), _) => attributes.add("error.type", error),
        (None, Some(status)) if is_failed => {
            attributes.add("error.type", itoa::Buffer::new().format(status));
        }
        _ => {}
    }
}

#[inline]
fn add_url(
    attributes: &mut SpanAttributes<'_>,
    attempt: &AttemptDetail,
    path: UpstreamPath<'_>,
    head: Option<&RequestHead<'_>>,
) {
    let path = match path {
        UpstreamPath::OfRequest => head.map(path_bytes).unwrap_or_default(),
        UpstreamPath::Rewritten(path) => path.as_bytes(),
    };
    attributes.add_bytes("url.full", [attempt.target.url().as_bytes(), path]);
}

#[inline]
fn add_head(attributes: &mut SpanAttributes<'_>, head: &RequestHead<'_>, known: &mut KnownFields) {
    if let Method::Other(method) = head.method {
        attributes.add("http.request.method_original", method);
    }
    if head.method != Method::Connect {
        attributes.add_bytes("url.path", [path_bytes(head)]);
    }
    let (host, agent) = host_and_agent(head);
    let authority = head.target.authority();
    if let Some(host) = authority.as_ref().map(|authority| authority.as_str().as_bytes()).or(host) {
        attributes.add_encoded(known.of_host(host));
    }
    if let Some(agent) = agent {
        attributes.add_bytes("user_agent.original", [agent]);
    }
}

/// Returns the bytes of the path.
#[inline]
fn path_bytes<'a>(head: &RequestHead<'a>) -> &'a [u8] {
    match head.target {
        RequestTarget::Origin(origin) => origin.path_bytes(),
        target => target.path().as_bytes(),
    }
}

/// Returns the first `Host` and the first `User-Agent`. One search for both is faster than two.
#[inline]
fn host_and_agent<'a>(head: &RequestHead<'a>) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    let (mut host, mut agent) = (None, None);
    for line in head.field_lines.iter() {
        let name = line.name.as_bytes();
        match name.len() {
            4 if host.is_none() && is_in_any_case(name, b"host") => host = Some(line.value.as_bytes()),
            10 if agent.is_none() && is_in_any_case(name, b"user-agent") => {
                agent = Some(line.value.as_bytes());
            }
            _ => {}
        }
    }
    (host, agent)
}

const fn status_of(is_failed: bool) -> SpanStatus {
    if is_failed { SpanStatus::Error } else { SpanStatus::Unset }
}

/// Returns the value of `http.request.method`. All unknown methods share one value.
fn method_attribute(method: Method<'_>) -> &'static str {
    method.registered().map_or("_OTHER", |method| method.as_str())
}

const fn protocol_version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "1.0",
        Version::Http2 => "2",
        _ => "1.1",
    }
}
