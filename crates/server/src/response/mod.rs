//! Responses, which handlers return.

mod content;
mod events;
mod header_lines;
mod held;
mod interim;
mod into_response;
mod metadata;
mod tunnel;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cookie::Cookie;
use serde::Serialize;
use thruway_message::token::is_in_any_case;
use thruway_message::{
    FieldLine, FieldLines, FieldLinesBuf, FieldName, FieldValue, InvalidFieldLine, StatusCode,
};
use thruway_net::{Admitted, LogLimit, PooledBuffer};

pub use content::{AtDrain, BoxError, Content, ContentStream, Piece};
pub use events::{Event, EventSender};
pub use interim::{InterimSender, send_interim};
pub use into_response::{IntoResponse, Json};
pub use metadata::{Forwarded, Refused};
pub use tunnel::Tunnel;
pub use writer::ContentWriter;

use header_lines::HeaderLines;

pub(crate) use content::{FileRange, Source};
pub(crate) use interim::{InterimResponse, InterimSlot};
pub(crate) use metadata::ResponseMetadata;
pub(crate) use tunnel::{TunnelHandler, TunnelTrace};

/// A response. The server sets the headers that frame the response: `Content-Length`, `Transfer-Encoding` and
/// `Connection`. The server also adds `Date` and `Server`, unless the response contains these headers.
///
/// ```
/// use thruway_server::{Response, StatusCode};
///
/// let response = Response::text("created\n")
///     .with_status(StatusCode::CREATED)
///     .with_field("Location", "/users/5");
/// assert_eq!(response.status().as_u16(), 201);
/// assert_eq!(response.content().length(), Some(8));
/// ```
#[derive(Debug)]
// The order of the fields is fixed: headers and body must not be neighbors. The compiler would otherwise copy
// the unused end of the body together with the headers, with a load that waits for two earlier stores.
#[repr(C)]
pub struct Response {
    field_lines: HeaderLines,
    status: StatusCode,
    /// Properties of the headers that the server needs to send the response.
    marks: Marks,
    /// `true` if the response comes from another server.
    is_relayed: bool,
    /// Metadata for the record.
    metadata: Option<ResponseMetadata>,
    content: Content,
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Marks {
    /// `true` if the connection must end after this response.
    pub(crate) is_last: bool,
    /// `true` if the handler has set `Server`.
    pub(crate) has_server: bool,
    /// `true` if the handler has set `Date`.
    pub(crate) has_date: bool,
}

impl Response {
    /// Creates a response without headers and body.
    #[inline]
    pub const fn new(status: StatusCode) -> Self {
        Self {
            status,
            field_lines: HeaderLines::new(FieldLinesBuf::new()),
            content: Content::empty(),
            marks: Marks { is_last: false, has_server: false, has_date: false },
            is_relayed: false,
            metadata: None,
        }
    }

    /// Creates a 200 response with text. A text from `format_args!` needs no allocation.
    #[inline]
    pub fn text(text: impl Into<Content>) -> Self {
        Self::ok(TEXT, text)
    }

    /// Creates a 200 response with an HTML page.
    #[inline]
    pub fn html(page: impl Into<Content>) -> Self {
        Self::ok(HTML, page)
    }

    /// Creates a 200 response with `value` as JSON, or 500 if serialization fails.
    pub fn json(value: &impl Serialize) -> Self {
        let mut buffer = PooledBuffer::take();
        match serde_json::to_writer(&mut *buffer, value) {
            Ok(()) => Self::ok(JSON, buffer),
            Err(error) => {
                log_invalid_json(&error);
                Self::new(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Creates a 200 response with the body `content` and the headers `field_lines`. Constant headers from
    /// [`FieldLinesBuf::from_static`] need no work at run time.
    #[inline]
    pub fn ok(field_lines: FieldLinesBuf, content: impl Into<Content>) -> Self {
        // Names all fields, because `..Self::new(…)` would copy them from a second response (decision 0008).
        Self {
            status: StatusCode::OK,
            field_lines: HeaderLines::new(field_lines),
            content: content.into(),
            marks: Marks { is_last: false, has_server: false, has_date: false },
            is_relayed: false,
            metadata: None,
        }
    }

    /// Creates a redirect to `location`. With status 303, the client sends a GET request to `location`. With
    /// status 307 or 308, it repeats its request with the same method. The statuses 301 and 308 mean a
    /// permanent redirect (RFC 9110 §15.4).
    pub fn redirect(status: StatusCode, location: &str) -> Self {
        Self::new(status).with_field("Location", location)
    }

    /// Creates a stream of server-sent events, which the future of `send` sends. If no event is sent for the
    /// time `keep_alive`, the server sends a comment, so that it notices clients that have left. At a
    /// graceful shutdown of the server, the stream ends at once, and clients reconnect.
    pub fn events<F>(keep_alive: Duration, send: impl FnOnce(EventSender) -> F) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::ok(EVENT_STREAM, events::content(keep_alive, || AtDrain::Ends(Bytes::new()), send))
    }

    /// Creates a stream of events like [`events`](Self::events). At a graceful shutdown of the server, the
    /// stream sends the event from `last_event` and ends. If `last_event` returns `None`, the stream
    /// continues.
    pub fn events_with_last_event<F>(
        keep_alive: Duration,
        mut last_event: impl FnMut() -> Option<Event> + Unpin + 'static,
        send: impl FnOnce(EventSender) -> F,
    ) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        let at_drain =
            move || last_event().map_or(AtDrain::Finishes, |event| AtDrain::Ends(event.into_bytes()));
        Self::ok(EVENT_STREAM, events::content(keep_alive, at_drain, send))
    }

    /// Creates a finite stream of events. A graceful shutdown of the server waits for the end of the stream.
    pub fn finite_events<F>(keep_alive: Duration, send: impl FnOnce(EventSender) -> F) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::ok(EVENT_STREAM, events::content(keep_alive, || AtDrain::Finishes, send))
    }

    /// Creates a 101 response that switches to `protocol`. After the response, the server calls `run` with
    /// the connection. If the request does not ask for an upgrade, the server sends 426 instead (RFC 9110
    /// §7.8 and §15.5.22).
    pub fn upgrade<F>(protocol: &str, run: impl FnOnce(Tunnel) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::new(StatusCode::SWITCHING_PROTOCOLS)
            .with_field("Upgrade", protocol)
            .with_content(Content(Source::Tunnel(TunnelHandler::new(run))))
    }

    /// Creates a 426 response. It tells the client that the resource is available only after an upgrade to
    /// `protocol` (RFC 9110 §15.5.22).
    pub fn upgrade_required(protocol: &str) -> Self {
        Self::new(StatusCode::UPGRADE_REQUIRED).with_field("Upgrade", protocol).with_connection_upgrade()
    }

    /// Creates the response to a successful CONNECT (RFC 9110 §9.3.6). After the response, the server calls
    /// `run` with the connection.
    pub fn tunnel<F>(run: impl FnOnce(Tunnel) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::new(StatusCode::OK).with_content(Content(Source::Tunnel(TunnelHandler::new(run))))
    }

    /// Adds a tunnel to the response, without a change of its status and headers. After the response, the
    /// server calls `run` with the connection. Use it in handlers that forward an upgrade or a successful
    /// CONNECT.
    #[must_use]
    pub fn into_tunnel<F>(self, run: impl FnOnce(Tunnel) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        self.with_content(Content(Source::Tunnel(TunnelHandler::new(run))))
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_content(mut self, content: impl Into<Content>) -> Self {
        self.set_content(content);
        self
    }

    /// Takes the body. The response then has an empty body.
    #[inline]
    pub fn take_body(&mut self) -> Content {
        std::mem::take(&mut self.content)
    }

    /// Sets the body.
    #[inline]
    pub fn set_content(&mut self, content: impl Into<Content>) {
        self.content = content.into();
    }

    /// Appends a header. If the header is invalid, turns the response into a 500 response without a body. An
    /// invalid header is a bug of the program, or an attempt to split the response.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match self.append_field(name, value) {
            Ok(()) => self,
            Err(error) => {
                log_invalid_field(error, name);
                Self::new(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Appends a `Set-Cookie` header (RFC 6265 §4.1).
    #[must_use]
    pub fn with_cookie(self, cookie: &Cookie<'_>) -> Self {
        self.with_field("Set-Cookie", cookie.to_string())
    }

    /// Appends a header. Ignores `Content-Length`, `Transfer-Encoding` and `Keep-Alive`. `Connection: close`
    /// ends the connection after this response. Other values of `Connection` are ignored.
    ///
    /// # Errors
    /// The header is invalid. In this case, nothing is added.
    pub fn append_field(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidFieldLine> {
        let line =
            FieldLine { name: FieldName::new(name.as_bytes())?, value: FieldValue::new(value.as_ref())? };
        self.append_line(line);
        Ok(())
    }

    /// Appends a header that is valid, because a parser has checked it. Ignores the same headers as
    /// [`append_field`](Self::append_field).
    pub fn append_line(&mut self, line: FieldLine<'_>) {
        if self.marks.take_in(line) {
            self.field_lines.append_line(line);
        }
    }

    /// Appends the headers of `lines` for which `is_kept` returns `true`. A parser must have checked them.
    /// Ignores the same headers as [`append_field`](Self::append_field).
    #[inline]
    pub fn append_kept<'l>(&mut self, lines: FieldLines<'l>, mut is_kept: impl FnMut(FieldLine<'l>) -> bool) {
        let Self { field_lines, marks, .. } = self;
        field_lines.take_buffer();
        field_lines.append_kept(lines, |line| is_kept(line) && marks.take_in(line));
    }

    /// Reserves memory for headers with a total size of `bytes`.
    pub fn reserve_fields(&mut self, bytes: usize) {
        self.field_lines.reserve(bytes);
    }

    /// Replaces all headers with this name by one header. Ignores the same headers as
    /// [`append_field`](Self::append_field).
    ///
    /// # Errors
    /// The header is invalid. In this case, nothing is changed.
    pub fn set_field(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidFieldLine> {
        FieldValue::new(value.as_ref())?;
        self.remove_field(name);
        self.append_field(name, value)
    }

    /// Removes all headers with this name.
    pub fn remove_field(&mut self, name: &str) {
        match OwnField::named(name.as_bytes()) {
            Some(OwnField::Server) => self.marks.has_server = false,
            Some(OwnField::Date) => self.marks.has_date = false,
            _ => {}
        }
        self.field_lines.remove(name);
    }

    /// Ends the connection after this response.
    #[must_use]
    pub const fn and_close(mut self) -> Self {
        self.marks.is_last = true;
        self
    }

    /// Marks the response as a response of another server. Layers that replace the error responses of this
    /// server can then leave it unchanged.
    #[inline]
    pub const fn mark_relayed(&mut self) {
        self.is_relayed = true;
    }

    /// Returns `true` if the response comes from another server.
    pub const fn is_relayed(&self) -> bool {
        self.is_relayed
    }

    /// Returns the status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers.
    pub const fn field_lines(&self) -> &FieldLinesBuf {
        self.field_lines.get()
    }

    /// Returns the headers if they are a constant, and `Server` and `Date` are not among them.
    #[inline]
    pub(crate) const fn constant_lines(&self) -> Option<&'static str> {
        if self.marks.has_server || self.marks.has_date { None } else { self.field_lines().as_static() }
    }

    /// Returns the value of the first header `name`. Ignores the case of the name.
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        self.field_lines.field(name)
    }

    /// Returns the body.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Returns `true` if the connection becomes a tunnel.
    #[inline]
    pub(crate) const fn has_tunnel(&self) -> bool {
        matches!(self.content.0, Source::Tunnel(_))
    }

    /// Returns the 426 response to a client that has not requested the upgrade of this response (RFC 9110
    /// §15.5.22).
    #[cold]
    pub(crate) fn to_upgrade_required(&self) -> Self {
        let mut required = Self::new(StatusCode::UPGRADE_REQUIRED);
        for line in self.field_lines.iter().filter(|line| line.name.is("upgrade")) {
            required.field_lines.append_line(line);
        }
        required.with_connection_upgrade()
    }

    /// Adds `Connection: upgrade`, which a response with `Upgrade` must contain (RFC 9110 §7.8). Use it in
    /// handlers that forward such a response.
    #[must_use]
    pub fn with_connection_upgrade(mut self) -> Self {
        // This call bypasses the check for headers that only the server may set.
        let _ = self.field_lines.append("Connection", "upgrade");
        self
    }

    /// Returns the properties of the headers that the server needs to send the response.
    #[inline]
    pub(crate) const fn marks(&self) -> Marks {
        self.marks
    }

    /// Adds data about the forwarded request, for access logs and metrics.
    pub fn set_forwarded(&mut self, forwarded: Box<Forwarded>) {
        self.metadata = Some(ResponseMetadata::Forwarded(forwarded));
    }

    /// Adds the policy that rejected the request, for access logs and metrics.
    pub fn set_refused(&mut self, refused: Refused) {
        self.metadata = Some(ResponseMetadata::Refused(Box::new(refused)));
    }

    /// Sets the name of the authenticated user, for the access log. Call it in a layer, on the response of
    /// the inner handler. Later calls of [`set_forwarded`](Self::set_forwarded) and
    /// [`set_refused`](Self::set_refused) remove the name.
    pub fn set_user(&mut self, user: impl Into<Box<str>>) {
        let metadata = match self.metadata.take() {
            // The outermost layer calls `set_user` last, so it replaces the name that inner layers have set.
            Some(ResponseMetadata::User(both)) => both.1,
            other => other,
        };
        self.metadata = Some(ResponseMetadata::User(Box::new((user.into(), metadata))));
    }

    /// Sets the name of the route, for the access log. Call it in the outermost layer, on the response of the
    /// inner handler. Later calls of [`set_forwarded`](Self::set_forwarded) and
    /// [`set_refused`](Self::set_refused) remove the name.
    pub fn set_route(&mut self, route: Arc<str>) {
        let metadata = match self.metadata.take() {
            Some(ResponseMetadata::Route(both)) => both.1,
            other => other,
        };
        self.metadata = Some(ResponseMetadata::Route(Box::new((route, metadata))));
    }

    /// Leaves the request out of the access log. Call it in the outermost layer, on the response of the inner
    /// handler. Later calls of other methods that add metadata undo this call.
    pub fn set_unlogged(&mut self) {
        self.metadata = Some(ResponseMetadata::Unlogged(self.metadata.take().map(Box::new)));
    }

    #[inline]
    pub(crate) const fn take_metadata(&mut self) -> Option<ResponseMetadata> {
        self.metadata.take()
    }

    /// Takes the body.
    #[inline]
    pub(crate) fn take_content(&mut self) -> Source {
        std::mem::take(&mut self.content.0)
    }
}

impl Marks {
    /// Updates the marks for a header that is about to be added. Returns `false` if the header must not be
    /// added.
    #[inline]
    fn take_in(&mut self, line: FieldLine<'_>) -> bool {
        match OwnField::named(line.name.as_bytes()) {
            Some(OwnField::Framing) => return false,
            Some(OwnField::Connection) => {
                self.is_last |= thruway_message::list::contains_token(line.value.as_bytes(), "close");
                return false;
            }
            Some(OwnField::Server) => self.has_server = true,
            Some(OwnField::Date) => self.has_date = true,
            None => {}
        }
        true
    }
}

/// Headers that the server evaluates or writes.
enum OwnField {
    Connection,
    Framing,
    Server,
    Date,
}

impl OwnField {
    #[inline]
    fn named(name: &[u8]) -> Option<Self> {
        match name.len() {
            4 if is_in_any_case(name, b"date") => Some(Self::Date),
            6 if is_in_any_case(name, b"server") => Some(Self::Server),
            10 if is_in_any_case(name, b"connection") => Some(Self::Connection),
            10 if is_in_any_case(name, b"keep-alive") => Some(Self::Framing),
            14 if is_in_any_case(name, b"content-length") => Some(Self::Framing),
            17 if is_in_any_case(name, b"transfer-encoding") => Some(Self::Framing),
            _ => None,
        }
    }
}

const EVENT_STREAM: FieldLinesBuf = FieldLinesBuf::from_static(
    "Content-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n",
);

const TEXT: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: text/plain; charset=utf-8\r\n");
const HTML: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: text/html; charset=utf-8\r\n");
const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

#[cold]
fn log_invalid_json(error: &serde_json::Error) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "cannot serialize a response as JSON");
    }
}

#[cold]
pub(crate) fn log_invalid_field(error: InvalidFieldLine, name: &str) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, name = %name.escape_debug(), suppressed, "a response header is invalid");
    }
}
