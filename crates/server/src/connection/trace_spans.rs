//! The spans of a request, by the semantic conventions of OpenTelemetry for HTTP and for the Model Context
//! Protocol.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_message::{Method, RequestHead, Version};
use thruway_net::{ClientAddr, Clock, IpText};
use thruway_telemetry::{
    AttemptDetail, Event, RequestTrace, Span, SpanAttributes, SpanBuffer, SpanKind, SpanStatus, SpanWriter,
    Step, StepDetail, TraceParent, Tracer, combine_trace_state,
};

use super::log::{CLIENT_CLOSED_REQUEST, SpanTimes};
use super::mcp_spans::write_mcp;
use crate::record::Record;

/// The tracing of the requests of one worker.
pub(crate) struct WorkerTracing {
    tracer: Arc<Tracer>,
    buffer: SpanBuffer,
    /// Memory of the traces of completed requests, for later requests.
    unused: RefCell<Vec<Rc<RequestTrace>>>,
}

impl WorkerTracing {
    pub(crate) fn new(tracer: &Arc<Tracer>) -> Self {
        Self { tracer: tracer.clone(), buffer: tracer.add_buffer(), unused: RefCell::default() }
    }

    /// Begins the trace of a request that has arrived at the time `start`. If the client has sent a valid
    /// `traceparent`, the request belongs to the trace of the client. The function is never inlined, because its
    /// code would make requests without a trace slower.
    #[inline(never)]
    pub(super) fn begin(&self, head: &RequestHead<'_>, start: Duration) -> Rc<RequestTrace> {
        let Some(parent) = parent_of(head) else { return self.begin_with(None, "", start) };
        let states = head.field_lines.all("tracestate").map(|value| value.as_bytes());
        self.begin_with(Some(parent), &combine_trace_state(states), start)
    }

    fn begin_with(&self, parent: Option<TraceParent>, state: &str, start: Duration) -> Rc<RequestTrace> {
        let unused = self.unused.borrow_mut().pop();
        if let Some(mut trace) = unused
            && let Some(place) = Rc::get_mut(&mut trace)
        {
            self.tracer.begin_again(place, parent, state, start);
            return trace;
        }
        Rc::new(self.tracer.begin(parent, state, start))
    }

    /// Keeps the memory of the trace of a completed request for a later request.
    #[inline]
    pub(super) fn reuse(&self, mut trace: Rc<RequestTrace>) {
        let Some(place) = Rc::get_mut(&mut trace) else { return };
        place.clear();
        let mut unused = self.unused.borrow_mut();
        if unused.len() < UNUSED_MAX {
            unused.push(trace);
        }
    }

    /// Passes the spans of a completed request to the exporter. `end` is the end of the request on the worker's
    /// clock.
    pub(super) fn export(&self, record: &Record<'_>, trace: &RequestTrace, end: Duration, clock: &Clock) {
        let times = &SpanTimes::new(end, clock.time_of_day_exact());
        let method = record.head.map_or("_OTHER", |head| method_attribute(head.method));
        let mut writer = self.buffer.writer();
        write_server_span(&mut writer, record, trace, times, method);
        if let Some(step) = trace.routing() {
            write_step(&mut writer, &step, trace, times, method);
        }
        for step in &*trace.steps() {
            write_step(&mut writer, step, trace, times, method);
        }
    }
}

fn write_server_span(
    writer: &mut SpanWriter<'_>,
    record: &Record<'_>,
    trace: &RequestTrace,
    times: &SpanTimes,
    method: &str,
) {
    let route = trace.route();
    let span = Span {
        own: trace.trace_parent(),
        parent: trace.parent(),
        is_parent_remote: trace.parent().is_some(),
        state: &trace.state(),
        name: method_in_name(method),
        target: route.as_deref(),
        kind: SpanKind::Server,
        start_nanos: times.nanos(times.end().saturating_sub(record.duration)),
        end_nanos: times.end_nanos,
        event: None,
        status: status_of(record.status.as_u16() >= 500 || trace.is_broken_off()),
    };
    writer.write(&span, |attributes| {
        attributes.add("http.request.method", method);
        attributes.add("url.scheme", record.scheme);
        if let Some(head) = &record.head {
            add_head(attributes, head);
        }
        attributes.add_some("http.route", route.as_deref());
        attributes.add("client.address", ClientText::of(record.client).as_str());
        add_outcome(attributes, record, trace);
    });
}

fn write_step(
    writer: &mut SpanWriter<'_>,
    step: &Step,
    trace: &RequestTrace,
    times: &SpanTimes,
    method: &str,
) {
    let own = trace.trace_parent();
    let mut span = Span {
        own: own.with_span(step.id),
        parent: Some(step.parent.unwrap_or(own.span_id)),
        is_parent_remote: false,
        state: &trace.state(),
        name: step.detail.constant_name().unwrap_or_default(),
        target: None,
        kind: SpanKind::Internal,
        start_nanos: times.nanos(step.start),
        end_nanos: step.end.map_or(times.end_nanos, |end| times.nanos(end)),
        event: None,
        status: SpanStatus::Unset,
    };
    match &step.detail {
        StepDetail::Routing | StepDetail::Queue | StepDetail::Connect | StepDetail::Tls => {
            writer.write(&span, |_| {});
        }
        StepDetail::Attempt(attempt) => {
            let is_failed = attempt.error.is_some() || attempt.status.is_some_and(|status| status >= 400);
            span.name = method_in_name(method);
            span.kind = SpanKind::Client;
            span.event = attempt.first_byte.map(|at| Event { name: "first byte", nanos: times.nanos(at) });
            span.status = status_of(is_failed);
            writer.write(&span, |attributes| add_attempt(attributes, attempt, is_failed, trace, method));
        }
        StepDetail::Mcp(operation) => write_mcp(writer, &span, operation, times),
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
    let upstream = record.forwarded.map(|forwarded| &*forwarded.upstream);
    attributes.add_some("thruway.upstream", trace.upstream().as_deref().or(upstream));
    if let Some(refused) = record.refused {
        attributes.add("thruway.policy", &*refused.policy);
        attributes.add("thruway.refusal", refused.reason);
    }
}

fn add_attempt(
    attributes: &mut SpanAttributes<'_>,
    attempt: &AttemptDetail,
    is_failed: bool,
    trace: &RequestTrace,
    method: &str,
) {
    let (host, port) = host_and_port(&attempt.server);
    attributes.add("http.request.method", method);
    attributes.add("server.address", host);
    attributes.add_some("server.port", port);
    if let Some(path) = trace.upstream_path().as_deref() {
        attributes.add_text("url.full", [attempt.scheme, "://", &*attempt.server, path]);
    }
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
    attributes.add("thruway.upstream", &*attempt.upstream);
}

/// Maximum number of unused traces of a worker.
const UNUSED_MAX: usize = 64;

/// Returns the valid `traceparent` of the client. `None` if there are several, because W3C Trace Context
/// §3.2 permits one header.
fn parent_of(head: &RequestHead<'_>) -> Option<TraceParent> {
    let mut parents = head.field_lines.all(TraceParent::FIELD_NAME);
    let parent = TraceParent::parse(parents.next()?.as_bytes())?;
    parents.next().is_none().then_some(parent)
}

fn add_head(attributes: &mut SpanAttributes<'_>, head: &RequestHead<'_>) {
    if let Method::Other(method) = head.method {
        attributes.add("http.request.method_original", method);
    }
    if head.method != Method::Connect {
        attributes.add("url.path", head.target.path());
    }
    attributes.add("network.protocol.version", protocol_version(head.version));
    if let Some((host, port)) = authority_text(head).map(host_and_port) {
        attributes.add("server.address", host);
        attributes.add_some("server.port", port);
    }
    if let Some(agent) = head.field("user-agent") {
        attributes.add("user_agent.original", &*String::from_utf8_lossy(agent.as_bytes()));
    }
}

/// Returns the host and port of the request. Does not check their syntax, which would take more time than all
/// other attributes.
fn authority_text<'a>(head: &RequestHead<'a>) -> Option<&'a str> {
    let authority = head.target.authority().map(|authority| authority.as_str());
    authority.or_else(|| head.field("host")?.as_str())
}

const fn status_of(is_failed: bool) -> SpanStatus {
    if is_failed { SpanStatus::Error } else { SpanStatus::Unset }
}

/// Returns the method for the name of a span. The conventions require `HTTP` for unknown methods.
fn method_in_name(method: &str) -> &str {
    if method == "_OTHER" { "HTTP" } else { method }
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

/// The address of a client as text.
enum ClientText {
    Tcp(IpText),
    Unix,
}

impl ClientText {
    fn of(client: ClientAddr) -> Self {
        match client {
            ClientAddr::Tcp(address) => Self::Tcp(IpText::from(address.ip())),
            ClientAddr::Unix => Self::Unix,
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Tcp(text) => str::from_utf8(text.as_bytes()).unwrap_or_default(),
            Self::Unix => "unix",
        }
    }
}

/// Returns the host and the port of an authority or of a server address in the config.
fn host_and_port(server: &str) -> (&str, Option<u16>) {
    let bytes = server.as_bytes();
    let (mut port, mut factor) = (0u32, 1);
    // A port has at most five digits.
    for (place, byte) in bytes.iter().enumerate().rev().take(6) {
        match byte {
            b'0'..=b'9' if factor <= 10_000 => {
                port += u32::from(byte - b'0') * factor;
                factor *= 10;
            }
            b':' if factor > 1 => {
                let host = &server[..place];
                let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                return (literal.unwrap_or(host), u16::try_from(port).ok());
            }
            _ => break,
        }
    }
    (server, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_separated() {
        for (server, expected) in [
            ("a.example:81", ("a.example", Some(81))),
            ("127.0.0.1:65535", ("127.0.0.1", Some(65_535))),
            ("[::1]:80", ("::1", Some(80))),
            ("a.example", ("a.example", None)),
            ("a:", ("a:", None)),
            ("a:123456", ("a:123456", None)),
            ("80", ("80", None)),
            ("", ("", None)),
        ] {
            assert_eq!(host_and_port(server), expected, "{server}");
        }
    }
}
