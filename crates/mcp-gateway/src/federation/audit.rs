//! Audit events: one event for each call of a tool, each requested prompt and each read resource.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, SystemTime};

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::federated::{CallOutcome, MemberName, ScannedCall};
use thruway_mcp::json_rpc::ErrorCode;
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;
use thruway_mcp_server::backend::Caller;
use thruway_net::Clock;
use thruway_telemetry::{Exemplar, TraceParent};
use tokio::time::Instant;

use super::call_stats::{CallCounters, MemberCounters};

/// Receives the audit events of an [`McpGateway`](crate::McpGateway).
pub trait AuditSink: Send + Sync + 'static {
    /// Records an event. The gateway calls this method once for each request `tools/call`, `prompts/get` and
    /// `resources/read`, when the answer is known or when the request ends without an answer. This method
    /// must not wait.
    fn record(&self, event: &AuditEvent<'_>);
}

/// A request `tools/call`, `prompts/get` or `resources/read`. Contains neither arguments nor results.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct AuditEvent<'a> {
    /// Time of the event, at the end of the request.
    pub time: SystemTime,
    /// The unique name of the caller: the issuer and the subject of the token. `None` if the caller has no
    /// token.
    pub caller: Option<&'a str>,
    /// The number of the session, counted from 1 since the start of the gateway. `None` without a session, as
    /// in MCP revision 2026-07-28. The session id is a secret of the client, so the event does not contain
    /// it.
    pub session: Option<u64>,
    /// The name of the member. `None` if the gateway selected no member, for example because the name is
    /// unknown or hidden.
    pub member: Option<&'a str>,
    /// The method of the request.
    pub method: &'a str,
    /// The name of the tool or prompt or the URI of the resource, as the client sent it. A longer name is cut
    /// after 1024 bytes. `None` if the request has no name.
    pub name: Option<&'a str>,
    /// The protocol revision that the client uses.
    pub revision: Revision,
    /// The outcome of the request.
    pub outcome: AuditOutcome,
    /// Time from the arrival of the request to its end.
    pub duration: Duration,
    /// Size of the parameters of the request in bytes, as JSON.
    pub request_bytes: usize,
    /// Size of the response message in bytes, without earlier notifications. 0 without a response.
    pub response_bytes: usize,
}

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// The member answered with a result.
    Ok,
    /// The member asked questions. The client answers them with a new request (MCP revision 2026-07-28).
    InputRequired,
    /// The tool reported an error (`isError`).
    ToolError,
    /// The gateway or the member answered with this error.
    Error(ErrorCode),
    /// The client canceled the request or disconnected.
    Canceled,
}

/// A request in progress. At its end, the gateway counts the request and sends the audit event, if requested.
/// Dropping the value records the outcome [`Canceled`](AuditOutcome::Canceled).
pub(super) struct AuditedCall {
    began: Instant,
    /// `None` if the gateway has no audit sink.
    event: Option<BegunEvent>,
    progress: Arc<CallProgress>,
    /// The span of the request, if its trace is sampled.
    trace: Option<TraceParent>,
    is_recorded: bool,
    observe: Option<Observe>,
}

/// A function that gets the outcome of a request.
type Observe = Box<dyn FnOnce(AuditOutcome) + Send>;

/// The parts of an audit event that are known at the start of the request.
struct BegunEvent {
    sink: Arc<dyn AuditSink>,
    caller: Option<String>,
    session: Option<u64>,
    method: Box<str>,
    name: Option<Box<str>>,
    revision: Revision,
    request_bytes: usize,
}

/// The progress of a request, as far as the audit and the statistics need it.
#[derive(Default)]
pub(super) struct CallProgress {
    /// `true` if the gateway has begun to work on the request.
    is_begun: AtomicBool,
    /// The name and the counters of the selected member.
    member: OnceLock<(MemberName, Arc<MemberCounters>)>,
    /// The counters of the called tool.
    tool: OnceLock<Arc<CallCounters>>,
}

/// A request that may need an audit event.
pub(super) struct AuditedRequest<'r> {
    pub(super) caller: &'r Caller,
    pub(super) session: Option<u64>,
    pub(super) method: &'r str,
    pub(super) params: &'r Params<'r>,
    pub(super) request_bytes: usize,
    pub(super) revision: Revision,
}

impl AuditedCall {
    /// Begins the audit of a tool call that a program relays to `member`. `params` are the parameters as JSON,
    /// and `tool` contains the counters of the tool. `sink` receives the event, if requested.
    pub(super) fn begin_relayed(
        sink: Option<&Arc<dyn AuditSink>>,
        caller: &Caller,
        call: &ScannedCall<'_>,
        member: (&MemberName, &Arc<MemberCounters>),
        tool: Arc<CallCounters>,
    ) -> Self {
        let event = sink.map(|sink| BegunEvent {
            sink: sink.clone(),
            caller: caller.principal(),
            session: None,
            method: methods::TOOLS_CALL.into(),
            name: Some(cut(call.name())),
            revision: Revision::LATEST,
            request_bytes: call.params().len(),
        });
        let progress = Arc::<CallProgress>::default();
        progress.begin();
        progress.select(member.0, member.1);
        progress.select_tool(tool);
        Self { began: Instant::now(), event, progress, trace: None, is_recorded: false, observe: None }
    }

    /// Sets the span of the request.
    pub(super) fn set_trace(&mut self, trace: TraceParent) {
        self.trace = Some(trace).filter(|trace| trace.is_sampled());
    }

    /// Begins the audit of a request. Returns `None` for requests without audit events. `sink` receives the
    /// event, if requested.
    pub(super) fn begin(sink: Option<&Arc<dyn AuditSink>>, request: &AuditedRequest<'_>) -> Option<Self> {
        let name = match request.method {
            methods::TOOLS_CALL | methods::PROMPTS_GET => request.params.name.as_deref(),
            methods::RESOURCES_READ => request.params.uri.as_deref(),
            _ => return None,
        };
        let event = sink.map(|sink| BegunEvent {
            sink: sink.clone(),
            caller: request.caller.principal(),
            session: request.session,
            method: request.method.into(),
            name: name.map(cut),
            revision: request.revision,
            request_bytes: request.request_bytes,
        });
        let (began, progress) = (Instant::now(), Arc::default());
        let mut audited = Self { began, event, progress, trace: None, is_recorded: false, observe: None };
        // Without tracing, the context is the context of the client.
        if let Some(context) = request.params.meta.forwarded_trace.as_ref().filter(|own| own.tracer.is_some())
            && let Some(trace) = TraceParent::parse(context.parent.as_bytes())
        {
            audited.set_trace(trace);
        }
        Some(audited)
    }

    pub(super) const fn progress(&self) -> &Arc<CallProgress> {
        &self.progress
    }

    /// Records the outcome of a request with the response message `answer`.
    pub(super) fn finish(mut self, answer: &[u8]) {
        self.record(outcome_of(answer), answer.len());
    }

    /// Records the outcome of a relayed call. `found` is the outcome in its response, and the size of the response
    /// message. `None` means that the response is incomplete or contains no response message.
    pub(super) fn finish_relayed(mut self, found: Option<(CallOutcome, usize)>) {
        if let Some((outcome, response_bytes)) = found {
            self.record(outcome.into(), response_bytes);
        }
    }

    /// Sets a function that gets the outcome.
    pub(super) fn on_outcome(&mut self, observe: impl FnOnce(AuditOutcome) + Send + 'static) {
        self.observe = Some(Box::new(observe));
    }

    /// Ends the audit without an event and without a count, because other code handles the same request.
    pub(super) fn withdraw(mut self) {
        self.is_recorded = true;
    }

    fn record(&mut self, outcome: AuditOutcome, response_bytes: usize) {
        self.is_recorded = true;
        if let Some(observe) = self.observe.take() {
            observe(outcome);
        }
        let duration = self.began.elapsed();
        let member = self.progress.member.get();
        if let Some((_, counters)) = member {
            let is_error = matches!(outcome, AuditOutcome::ToolError | AuditOutcome::Error(_));
            counters.record(self.progress.tool.get().map(Arc::as_ref), is_error, duration);
            if let Some(TraceParent { trace_id, span_id, .. }) = self.trace {
                let now = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
                let unix_nanos = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
                counters.add_exemplar(Exemplar { trace_id, span_id, value: duration, unix_nanos });
            }
        }
        let Some(event) = &self.event else { return };
        event.sink.record(&AuditEvent {
            time: Clock::system().time_of_day(),
            caller: event.caller.as_deref(),
            session: event.session,
            member: member.map(|(name, _)| name.as_str()),
            method: &event.method,
            name: event.name.as_deref(),
            revision: event.revision,
            outcome,
            duration,
            request_bytes: event.request_bytes,
            response_bytes,
        });
    }
}

impl Drop for AuditedCall {
    fn drop(&mut self) {
        if self.is_recorded {
            return;
        }
        let outcome = if self.progress.is_begun.load(Ordering::Relaxed) {
            AuditOutcome::Canceled
        } else {
            // The server rejected the request, because the limit on the total size of requests is reached.
            AuditOutcome::Error(ErrorCode::INTERNAL_ERROR)
        };
        self.record(outcome, 0);
    }
}

impl CallProgress {
    /// Notes that the gateway works on the request.
    pub(super) fn begin(&self) {
        self.is_begun.store(true, Ordering::Relaxed);
    }

    /// Notes the member of the request, and the counters of this member.
    pub(super) fn select(&self, member: &MemberName, counters: &Arc<MemberCounters>) {
        self.member.get_or_init(|| (member.clone(), counters.clone()));
    }

    /// Notes the counters of the called tool.
    pub(super) fn select_tool(&self, counters: Arc<CallCounters>) {
        self.tool.get_or_init(|| counters);
    }
}

impl From<CallOutcome> for AuditOutcome {
    fn from(outcome: CallOutcome) -> Self {
        match outcome {
            CallOutcome::Ok => Self::Ok,
            CallOutcome::InputRequired => Self::InputRequired,
            CallOutcome::ToolError => Self::ToolError,
            CallOutcome::Error(code) => Self::Error(code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode)),
        }
    }
}

/// Cuts a name after [`NAME_BYTES_MAX`] bytes.
fn cut(name: &str) -> Box<str> {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].into()
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<AnswerResult<'a>>,
    error: Option<AnswerError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerResult<'a> {
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnswerError {
    code: i64,
}

/// Returns the outcome of a request with the response message `answer`.
fn outcome_of(answer: &[u8]) -> AuditOutcome {
    if is_plain_result(answer) {
        return AuditOutcome::Ok;
    }
    let is = |value: Option<&RawValue>, expected: &str| value.is_some_and(|value| value.get() == expected);
    match serde_json::from_slice(answer) {
        Ok(Answer { error: Some(error), .. }) => AuditOutcome::Error(ErrorCode(error.code)),
        Ok(Answer { result: Some(result), .. }) if is(result.is_error, "true") => AuditOutcome::ToolError,
        Ok(Answer { result: Some(result), .. }) if is(result.result_type, "\"input_required\"") => {
            AuditOutcome::InputRequired
        }
        Ok(Answer { error: None, .. }) => AuditOutcome::Ok,
        // The member has sent an invalid response, for example a member that occurs twice.
        Err(_) => AuditOutcome::Error(ErrorCode::INTERNAL_ERROR),
    }
}

/// Returns `true` if a search in the text shows that the response contains no error and no questions. Most
/// responses then need no parsing. Member names with JSON escape sequences need parsing.
fn is_plain_result(answer: &[u8]) -> bool {
    let is_false = |at: usize| answer[at + ERROR_END.needle().len()..].starts_with(b":false");
    ERROR_END.find_iter(answer).all(is_false)
        && INPUT_REQUIRED.find(answer).is_none()
        && ESCAPE.find(answer).is_none()
}

/// The end of the member names `error` and `isError`.
static ERROR_END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"rror\""));

/// The type of a result that asks the client questions.
static INPUT_REQUIRED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"input_required"));

/// The beginning of a JSON escape sequence that can hide a letter of a member name.
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));

impl fmt::Debug for dyn AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditSink")
    }
}

/// Maximum length of a name in an event, in bytes.
const NAME_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const INVALID: AuditOutcome = AuditOutcome::Error(ErrorCode::INTERNAL_ERROR);

    #[test]
    fn outcome_is_read_from_the_response() {
        for (answer, outcome) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"isError":true}]}}"#, AuditOutcome::Ok),
            (r#"{"id":1,"result":{"content":[],"isError":false}}"#, AuditOutcome::Ok),
            (r#"{"id":1,"result":{"content":[],"is\u0045rror":true}}"#, AuditOutcome::ToolError),
            (r#"{"id":1,"result":{"isError":false,"x":{"error":1}}}"#, AuditOutcome::Ok),
            (r#"{"id":1,"result":{"isError":false,"is\u0045rror":true}}"#, INVALID),
            (r#"{"id":1,"result":{"isError":false,"isError":true}}"#, INVALID),
            (r#"{"id":1,"result":{"resultType":"input\u005frequired"}}"#, AuditOutcome::Ok),
            (r#"{"id":1,"result":{"content":[], "isError" : true}}"#, AuditOutcome::ToolError),
            (r#"{"id":1,"result":{"resultType":"input_required"}}"#, AuditOutcome::InputRequired),
            (r#"{"id":1,"result":{"resultType":"complete"}}"#, AuditOutcome::Ok),
            (
                r#"{"id":1,"error":{"code":-32602,"message":"isError"}}"#,
                AuditOutcome::Error(ErrorCode::INVALID_PARAMS),
            ),
        ] {
            assert_eq!(outcome_of(answer.as_bytes()), outcome, "{answer}");
        }
    }
}
