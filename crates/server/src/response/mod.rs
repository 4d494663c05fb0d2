//! The response that a handler returns.

mod content;
mod events;
mod held;
mod interim;
mod into_response;
mod metadata;
mod tunnel;
mod writer;

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

pub(crate) use content::{FileRange, Source};
pub(crate) use interim::{InterimResponse, InterimSlot};
pub(crate) use metadata::Told;
pub(crate) use tunnel::{TunnelHandler, TunnelTrace};

/// A response. The fields that frame it are the server's: `Content-Length`, `Transfer-Encoding` and
/// `Connection`, and `Date` and `Server` unless they are set here.
#[derive(Debug)]
pub struct Response {
    status: StatusCode,
    field_lines: FieldLinesBuf,
    content: Content,
    /// Headers with a meaning for the server, as set so far.
    marks: Marks,
    /// Metadata for the record.
    told: Option<Told>,
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Marks {
    /// The connection must end after this response.
    pub(crate) is_last: bool,
    /// The response has a `Server` field of its own.
    pub(crate) has_server: bool,
    /// The response has a `Date` field of its own.
    pub(crate) has_date: bool,
}

impl Response {
    /// A response without fields and content.
    #[inline]
    pub const fn new(status: StatusCode) -> Self {
        Self {
            status,
            field_lines: FieldLinesBuf::new(),
            content: Content::empty(),
            marks: Marks { is_last: false, has_server: false, has_date: false },
            told: None,
        }
    }

    /// 200 with text. `format_args!` as text is put together without allocating.
    #[inline]
    pub fn text(text: impl Into<Content>) -> Self {
        Self::ok(TEXT, text)
    }

    /// 200 with a page of HTML.
    #[inline]
    pub fn html(page: impl Into<Content>) -> Self {
        Self::ok(HTML, page)
    }

    /// 200 with `value` as JSON; 500 if it cannot be written as such.
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

    /// 200 with `content` and the field lines `field_lines`, which cost nothing at run time: see
    /// [`FieldLinesBuf::from_static`].
    #[inline]
    pub fn ok(field_lines: FieldLinesBuf, content: impl Into<Content>) -> Self {
        Self { field_lines, content: content.into(), ..Self::new(StatusCode::OK) }
    }

    /// A redirect to `location`. 303 asks for a GET, 307 and 308 for the same method again; 301 and 308 are
    /// for ever (RFC 9110 §15.4).
    pub fn redirect(status: StatusCode, location: &str) -> Self {
        Self::new(status).with_field("Location", location)
    }

    /// A stream of server-sent events that `send` sends; a comment goes out after `keep_alive` without
    /// events, so that a client that has gone is noticed. When the server drains, the stream is over: clients
    /// connect again.
    pub fn events<F>(keep_alive: Duration, send: impl FnOnce(EventSender) -> F) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::ok(EVENT_STREAM, events::content(keep_alive, || AtDrain::Ends(Bytes::new()), send))
    }

    /// Returns a stream of events with a last event for clients that are connected when the server drains.
    /// With `None`, the stream continues.
    pub fn events_with_farewell<F>(
        keep_alive: Duration,
        mut farewell: impl FnMut() -> Option<Event> + Unpin + 'static,
        send: impl FnOnce(EventSender) -> F,
    ) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        let at_drain =
            move || farewell().map_or(AtDrain::Finishes, |event| AtDrain::Ends(event.into_octets()));
        Self::ok(EVENT_STREAM, events::content(keep_alive, at_drain, send))
    }

    /// Returns a stream of events that ends on its own. A drain waits for it.
    pub fn finite_events<F>(keep_alive: Duration, send: impl FnOnce(EventSender) -> F) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        Self::ok(EVENT_STREAM, events::content(keep_alive, || AtDrain::Finishes, send))
    }

    /// Hands the connection over to `run`: 101 with `protocol`, and what follows is no longer HTTP. To a
    /// request that did not ask for it, the answer is 426 (RFC 9110 §7.8 and §15.5.22).
    pub fn upgrade<F>(protocol: &str, run: impl FnOnce(Tunnel) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::new(StatusCode::SWITCHING_PROTOCOLS)
            .with_field("Upgrade", protocol)
            .with_content(Content(Source::Tunnel(TunnelHandler::new(run))))
    }

    /// Returns 426: the resource is available only over `protocol`, and the client must ask for it (RFC 9110
    /// §15.5.22).
    pub fn upgrade_required(protocol: &str) -> Self {
        Self::new(StatusCode::UPGRADE_REQUIRED).with_field("Upgrade", protocol).with_connection_upgrade()
    }

    /// Hands the connection over to `run`, as the success of a CONNECT (RFC 9110 §9.3.6).
    pub fn tunnel<F>(run: impl FnOnce(Tunnel) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::new(StatusCode::OK).with_content(Content(Source::Tunnel(TunnelHandler::new(run))))
    }

    /// Turns the response into one that hands the connection over to `run`, for relays of an upgrade or of a
    /// successful CONNECT. Status and headers stay.
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

    /// Sets the content.
    #[must_use]
    pub fn with_content(mut self, content: impl Into<Content>) -> Self {
        self.content = content.into();
        self
    }

    /// Appends a header. An invalid header, which is a mistake of the program or an attempt to split the
    /// response, turns the response into 500 without content.
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

    /// Adds a field line. `Content-Length`, `Transfer-Encoding` and `Keep-Alive` are passed over, and of
    /// `Connection` all but `close`, which ends the connection after this response.
    ///
    /// # Errors
    /// The line is invalid; nothing was added.
    pub fn append_field(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidFieldLine> {
        let line =
            FieldLine { name: FieldName::new(name.as_bytes())?, value: FieldValue::new(value.as_ref())? };
        self.append_line(line);
        Ok(())
    }

    /// Adds a field line that a parser has checked; some are passed over, as by
    /// [`append_field`](Self::append_field).
    pub fn append_line(&mut self, line: FieldLine<'_>) {
        if self.marks.take_in(line) {
            self.field_lines.append_line(line);
        }
    }

    /// Adds those of `lines`, which a parser has checked, that `is_kept` says; some are passed over, as by
    /// [`append_field`](Self::append_field).
    #[inline]
    pub fn append_kept<'l>(&mut self, lines: FieldLines<'l>, mut is_kept: impl FnMut(FieldLine<'l>) -> bool) {
        let Self { field_lines, marks, .. } = self;
        field_lines.append_kept(lines, |line| is_kept(line) && marks.take_in(line));
    }

    /// Reserves memory for headers of this number of bytes.
    pub fn reserve_fields(&mut self, octets: usize) {
        self.field_lines.reserve(octets);
    }

    /// Replaces all field lines of this name by one; some are passed over, as by
    /// [`append_field`](Self::append_field).
    ///
    /// # Errors
    /// The line is invalid; nothing was changed.
    pub fn set_field(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidFieldLine> {
        FieldValue::new(value.as_ref())?;
        self.remove_field(name);
        self.append_field(name, value)
    }

    /// Removes all field lines of this name.
    pub fn remove_field(&mut self, name: &str) {
        match OwnField::named(name.as_bytes()) {
            Some(OwnField::Server) => self.marks.has_server = false,
            Some(OwnField::Date) => self.marks.has_date = false,
            _ => {}
        }
        self.field_lines.remove(name);
    }

    /// The response after which the connection ends.
    #[must_use]
    pub const fn and_close(mut self) -> Self {
        self.marks.is_last = true;
        self
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The field lines.
    pub const fn field_lines(&self) -> &FieldLinesBuf {
        &self.field_lines
    }

    /// The value of the first field line named `name`, in any case.
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        self.field_lines.field(name)
    }

    /// The content.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Returns `true` if the connection becomes a tunnel.
    #[inline]
    pub(crate) const fn has_tunnel(&self) -> bool {
        matches!(self.content.0, Source::Tunnel(_))
    }

    /// The answer to a request that should have asked for the upgrade that this response makes (RFC 9110
    /// §15.5.22).
    #[cold]
    pub(crate) fn to_upgrade_required(&self) -> Self {
        let mut required = Self::new(StatusCode::UPGRADE_REQUIRED);
        for line in self.field_lines.iter().filter(|line| line.name.is("upgrade")) {
            required.field_lines.append_line(line);
        }
        required.with_connection_upgrade()
    }

    /// Adds the connection option `upgrade` that belongs to `Upgrade` (RFC 9110 §7.8), for relays of a
    /// response that names other protocols.
    #[must_use]
    pub fn with_connection_upgrade(mut self) -> Self {
        // Past the check for fields that are the server's own: here the server itself speaks.
        let _ = self.field_lines.append("Connection", "upgrade");
        self
    }

    /// Returns the headers with a meaning for the server.
    #[inline]
    pub(crate) const fn marks(&self) -> Marks {
        self.marks
    }

    /// Tells how the request was forwarded, for the record of it.
    pub fn set_forwarded(&mut self, forwarded: Box<Forwarded>) {
        self.told = Some(Told::Forwarded(forwarded));
    }

    /// Tells what has refused the request, for the record of it.
    pub fn set_refused(&mut self, refused: Refused) {
        self.told = Some(Told::Refused(Box::new(refused)));
    }

    /// Sets the name of the user that the request was authenticated as, for the record of it. For layers in
    /// front of a handler: set it last, since [`set_forwarded`](Self::set_forwarded) and
    /// [`set_refused`](Self::set_refused) replace it.
    pub fn set_user(&mut self, user: impl Into<Box<str>>) {
        let told = match self.told.take() {
            // The first policy of a route names the user; its response passes through that policy last.
            Some(Told::User(both)) => both.1,
            other => other,
        };
        self.told = Some(Told::User(Box::new((user.into(), told))));
    }

    #[inline]
    pub(crate) const fn take_told(&mut self) -> Option<Told> {
        self.told.take()
    }

    /// Takes the content out.
    #[inline]
    pub(crate) fn take_content(&mut self) -> Source {
        std::mem::take(&mut self.content.0)
    }
}

impl Marks {
    /// Takes note of a field line that is to be added. Whether it is to be written.
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

/// Fields that the server writes itself.
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
        tracing::error!(%error, name = %name.escape_debug(), suppressed, "a response field is invalid");
    }
}
