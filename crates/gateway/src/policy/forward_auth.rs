//! Policy that lets another server decide about each request (like `auth_request` in nginx and `forward_auth` in
//! Caddy).
//!
//! The gateway sends a GET request without a body to the authorization server. This request has the headers of
//! the client, and describes the client's request in `X-Forwarded-*`. The gateway forwards the client's request
//! only after a response with status 2xx. It passes all other responses to the client, also the responses for
//! failures: 502, 503 and 504.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_message::{FieldLine, FieldLines, Method, OriginForm, RequestHead, RequestTarget, list};
use thruway_server::{Answer, Handler, Refused, Request, Response};

use super::fields::{EditedFields, VerifiedFacts};
use super::guarded::RefusalCount;
use crate::forward::read_alike;

/// Settings of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardAuthConfig {
    /// Name of the upstream with the authorization servers.
    pub upstream: String,
    /// Path of the requests to the authorization server, with an optional query. It begins with `/`.
    pub path: String,
    /// Names of the headers in the response of the authorization server that the gateway copies to the
    /// client's request. The gateway removes these headers from the client's request.
    pub fields: Vec<String>,
    /// Maximum time of a request to the authorization server.
    pub timeout: Duration,
}

/// A handler that gets only the requests that an authorization server admits.
#[derive(Clone)]
pub struct ForwardAuth {
    policy: Arc<str>,
    config: Arc<ForwardAuthConfig>,
    /// Sends requests to the authorization server.
    server: Arc<dyn Handler>,
    handler: Arc<dyn Handler>,
    refusals: Arc<RefusalCount>,
}

/// The handler of a request after its admission.
struct Admitted {
    auth: ForwardAuth,
    /// Names and values of the headers to copy. A header without a value is removed from the request.
    fields: Vec<(String, Option<Vec<u8>>)>,
}

impl ForwardAuth {
    /// Returns a handler that asks `server` before it passes a request to `handler`. `policy` is the name of
    /// the policy.
    pub fn new(
        policy: &str,
        config: ForwardAuthConfig,
        server: Arc<dyn Handler>,
        handler: Arc<dyn Handler>,
    ) -> Self {
        Self { policy: policy.into(), config: Arc::new(config), server, handler, refusals: Arc::default() }
    }

    /// Sets the counter of refused requests.
    #[must_use]
    pub fn counted_by(self, refusals: Arc<RefusalCount>) -> Self {
        Self { refusals, ..self }
    }

    /// Sends the request to the authorization server.
    fn ask(&self, request: &mut Request<'_>) -> Answer {
        let fields = question_fields(request);
        let target = RequestTarget::Origin(OriginForm::new(&self.config.path));
        let head = RequestHead { method: Method::Get, target, ..fields.head(*request.head()) };
        request.ask(&head, &*self.server)
    }

    /// Returns the headers to copy from `response`.
    fn copied_fields(&self, response: &Response) -> Vec<(String, Option<Vec<u8>>)> {
        let mut fields = Vec::new();
        for name in &self.config.fields {
            let lines = response.field_lines().iter().filter(|line| line.name.is(name));
            let values = lines.map(|line| line.value.as_bytes().to_vec());
            let before = fields.len();
            fields.extend(values.map(|value| (name.clone(), Some(value))));
            if fields.len() == before {
                fields.push((name.clone(), None));
            }
        }
        fields
    }

    /// Returns the response to a client whose request is not admitted.
    fn refuse(&self, mut response: Response) -> Response {
        self.refusals.note();
        tracing::debug!(
            policy = &*self.policy,
            status = response.status().as_u16(),
            "request rejected by the authorization server"
        );
        response.set_refused(Refused { policy: self.policy.clone(), reason: "forward_auth" });
        response
    }
}

impl Handler for ForwardAuth {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let answer = self.ask(request);
        let (auth, request) = (self.clone(), request.take_owned());
        Answer::later(async move {
            let response = match answer {
                Answer::Now(response) => response,
                Answer::Later(later) => later.await,
            };
            if !(200..300).contains(&response.status().as_u16()) {
                return auth.refuse(response);
            }
            let fields = auth.copied_fields(&response);
            drop(response);
            match request.forward_to(&Admitted { auth, fields }) {
                Answer::Now(response) => response,
                Answer::Later(later) => later.await,
            }
        })
    }
}

impl Handler for Admitted {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let handler = &*self.auth.handler;
        if self.fields.is_empty() {
            return handler.handle(request);
        }
        let fields = self.fields.iter().map(|(name, value)| (&**name, value.as_deref().map(Cow::Borrowed)));
        let facts = VerifiedFacts { fields: fields.collect(), ..VerifiedFacts::default() };
        // A server may merge trailers into the header section (RFC 9110 §6.5.2), where a trailer could replace
        // a header of the authorization server.
        request.drop_trailers();
        let head = *request.head();
        match EditedFields::of(head.field_lines, &facts) {
            None => handler.handle(request),
            Some(edited) => request.forward_with_head(&edited.head(head), handler),
        }
    }
}

/// Returns the headers of the request to the authorization server: the headers of the client, without headers
/// that concern only its connection, body or conditions.
fn question_fields(request: &Request<'_>) -> EditedFields {
    let lines = request.field_lines();
    let options = connection_options(lines);
    let is_kept = |line: &FieldLine<'_>| {
        let name = line.name.as_bytes();
        !WITHHELD.iter().any(|withheld| read_alike(name, withheld.as_bytes()))
            && !options.iter().any(|option| option.eq_ignore_ascii_case(name))
    };
    let mut fields = EditedFields::with_capacity(lines.bytes().len() + 256);
    // An HTTP/2 request has its host in the target, which this request does not keep.
    fields.append(b"Host", request.host().as_bytes());
    for line in lines.iter().filter(is_kept) {
        fields.append(line.name.as_bytes(), line.value.as_bytes());
    }
    fields.append(b"X-Forwarded-Method", request.method().as_str().as_bytes());
    let uri = match request.target() {
        RequestTarget::Authority(_) => request.host().to_owned(),
        _ => match request.query_string() {
            Some(query) => format!("{}?{query}", request.path()),
            None => request.path().to_owned(),
        },
    };
    fields.append(b"X-Forwarded-Uri", uri.as_bytes());
    fields
}

/// Returns the names in `Connection`.
fn connection_options(lines: FieldLines<'_>) -> Vec<&[u8]> {
    let lines = lines.iter().filter(|line| line.name.is("connection"));
    lines.flat_map(|line| list::members(line.value.as_bytes())).collect()
}

/// Writes the settings as text.
impl fmt::Display for ForwardAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "admitted by {} at {}", self.upstream, self.path)?;
        match &self.fields[..] {
            [] => Ok(()),
            fields => write!(f, ", which sets {}", fields.join(", ")),
        }
    }
}

/// Headers that the request to the authorization server does not contain. `Connection` and the headers that it
/// names are missing too. Otherwise, a client could remove `X-Forwarded-Uri` by naming it in `Connection`.
const WITHHELD: [&str; 28] = [
    "connection",
    "content-digest",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "range",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-method",
    "x-forwarded-uri",
];
