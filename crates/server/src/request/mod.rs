//! Requests, in the form in which handlers receive them.

mod content;
mod extract;
mod parameters;

use std::borrow::Cow;
use std::rc::Rc;
use std::{fmt, mem};

use bytes::Bytes;
use http::Extensions;
use thruway_http1::RequestFacts;
use thruway_message::{
    AbsoluteForm, FieldLines, FieldValue, Method, OwnedRequestHead, RequestHead, RequestTarget, Version, list,
};
use thruway_net::{ClientAddr, Worker};
use thruway_telemetry::RequestTrace;

use crate::connection_info::ConnectionInfo;
use crate::trusted::{Origin, ProxyFields, TrustedProxies};

pub use content::{CONTENT_BYTES_MAX, ContentError, RequestContent, RequestPiece};
pub use extract::Rejection;
pub use parameters::Parameters;

pub(crate) use content::ContentSender;
use parameters::OwnedParameters;

/// A request that has just been parsed. Its head is in the buffer of the connection, and so is its body if
/// the whole body has arrived. So an immediate response needs no copy and no allocation.
///
/// For a later response, call [`take_owned`](Self::take_owned) and use the [`OwnedRequest`].
///
/// ```
/// use thruway_server::{Request, Response, Router};
///
/// fn describe(request: &Request) -> Response {
///     let (method, path) = (request.method().as_str(), request.path());
///     match request.field("X-Trace") {
///         Some(trace) => Response::text(format!("{method} {path}, trace {}\n", trace.as_bytes().escape_ascii())),
///         None => Response::text(format!("{method} {path} from {}\n", request.client())),
///     }
/// }
///
/// let router = Router::new().any("/{*path}", describe);
/// # let _ = router;
/// ```
#[derive(Debug)]
pub struct Request<'a> {
    head: &'a RequestHead<'a>,
    parameters: Parameters<'a>,
    content: Incoming<'a>,
    connection: &'a ConnectionInfo,
    worker: &'a Rc<Worker>,
    wants_tunnel: bool,
    /// Length of the path prefix that outer routers have matched, in bytes.
    mount_prefix: usize,
    /// The trusted proxies, if the request came from one of them.
    proxies: Option<&'a TrustedProxies>,
    /// The trace of the request. `None` if tracing is off.
    trace: Option<&'a Rc<RequestTrace>>,
    extensions: Extensions,
}

/// A request that owns its data, for handlers that respond later or read the body as it arrives.
///
/// ```
/// use thruway_server::{OwnedRequest, Rejection, Response, Router};
///
/// async fn count(mut request: OwnedRequest) -> Result<Response, Rejection> {
///     let content = request.content().collect(1 << 20).await?; // at most 1 MiB; more gets 413
///     Ok(Response::text(format!("{} bytes\n", content.len())))
/// }
///
/// let router = Router::new().post("/count", count);
/// # let _ = router;
/// ```
#[derive(Debug)]
pub struct OwnedRequest {
    head: OwnedRequestHead,
    parameters: OwnedParameters,
    content: RequestContent,
    connection: ConnectionInfo,
    worker: Rc<Worker>,
    wants_tunnel: bool,
    mount_prefix: usize,
    proxies: Option<TrustedProxies>,
    trace: Option<Rc<RequestTrace>>,
    extensions: Extensions,
}

#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    Whole(&'a [u8]),
    Arriving(RequestContent),
}

impl<'a> Request<'a> {
    #[inline]
    pub(crate) fn new(
        head: &'a RequestHead<'a>,
        facts: &RequestFacts,
        content: &'a [u8],
        connection: &'a ConnectionInfo,
        worker: &'a Rc<Worker>,
    ) -> Self {
        Self {
            head,
            parameters: Parameters::none(),
            content: Incoming::Whole(content),
            connection,
            worker,
            wants_tunnel: facts.wants_tunnel,
            mount_prefix: 0,
            proxies: None,
            trace: None,
            extensions: Extensions::new(),
        }
    }

    /// Returns `true` if this connection does not serve the scheme or host of the request. The server
    /// responds to such a request with 421 (RFC 9110 §15.5.20).
    #[inline]
    pub(crate) fn is_misdirected(&self) -> bool {
        let is_absolute = matches!(self.head.target, RequestTarget::Absolute(_));
        (is_absolute && !self.is_scheme_served()) || self.connection.is_other_host(self.head)
    }

    /// Returns `true` if this connection serves the scheme of the request target, or if the target has no
    /// scheme.
    #[cold]
    fn is_scheme_served(&self) -> bool {
        let RequestTarget::Absolute(AbsoluteForm { scheme, .. }) = self.head.target else { return true };
        self.connection.serves_scheme(scheme, self.proxies.is_some())
    }

    /// Sets the trusted proxies, if the request came from one of them.
    #[inline]
    pub(crate) const fn set_proxies(&mut self, proxies: Option<&'a TrustedProxies>) {
        self.proxies = proxies;
    }

    /// Sets the trace of the request. `None` if tracing is off.
    #[inline]
    pub(crate) const fn set_trace(&mut self, trace: Option<&'a Rc<RequestTrace>>) {
        self.trace = trace;
    }

    /// Sets a body that has not completely arrived.
    pub(crate) fn set_arriving(&mut self, content: RequestContent) {
        self.content = Incoming::Arriving(content);
    }

    /// Sets the parameters of the route.
    pub(crate) fn set_parameters(&mut self, parameters: Parameters<'a>) {
        self.parameters = parameters;
    }

    /// Removes the next `prefix` bytes of the path from the [mounted path](Self::mounted_path). Use it in a
    /// router, before you pass the request to a handler that is mounted below this prefix.
    pub const fn mount_below(&mut self, prefix: usize) {
        self.mount_prefix += prefix;
    }

    /// Returns the whole head.
    pub const fn head(&self) -> &'a RequestHead<'a> {
        self.head
    }

    /// Returns the method.
    pub const fn method(&self) -> Method<'a> {
        self.head.method
    }

    /// Returns the request target as the client has sent it.
    pub const fn target(&self) -> RequestTarget<'a> {
        self.head.target
    }

    /// Returns the path of the request target as the client has sent it, percent-encoded.
    pub fn path(&self) -> &'a str {
        self.head.target.path()
    }

    /// Returns the path below the prefix at which the handler is [mounted](crate::Router::mount). If the
    /// handler is not mounted, returns the whole path.
    pub fn mounted_path(&self) -> &'a str {
        below(self.path(), self.mount_prefix)
    }

    /// Returns the length of the path prefix that outer routers have matched, in bytes.
    pub const fn mount_prefix(&self) -> usize {
        self.mount_prefix
    }

    /// Returns the query of the request target as the client has sent it, without the question mark.
    pub fn query_string(&self) -> Option<&'a str> {
        self.head.target.query()
    }

    /// Returns the HTTP version of the request.
    pub const fn version(&self) -> Version {
        self.head.version
    }

    /// Returns the header section.
    pub const fn field_lines(&self) -> FieldLines<'a> {
        self.head.field_lines
    }

    /// Returns the value of the first header `name`. Ignores the case of the name.
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.head.field(name)
    }

    /// Returns the parameters of the route.
    pub const fn parameters(&self) -> &Parameters<'a> {
        &self.parameters
    }

    /// Returns the decoded parameter `name` of the route. The result is empty if the route has no such
    /// parameter, or if the value is not UTF-8. Use [`parameters`](Self::parameters) to distinguish these
    /// cases.
    pub fn parameter(&self, name: &str) -> Cow<'a, str> {
        self.parameters.get(name).unwrap_or_default()
    }

    /// Returns the body if it has completely arrived, or else an empty slice. In a handler that is a plain
    /// function of a `&Request`, the body is always complete.
    pub const fn content(&self) -> &[u8] {
        match self.content {
            Incoming::Whole(content) => content,
            Incoming::Arriving(_) => &[],
        }
    }

    /// Returns the length of the body in bytes, if known.
    pub fn content_length(&self) -> Option<u64> {
        match &self.content {
            Incoming::Whole(content) => Some(content.len() as u64),
            Incoming::Arriving(content) => content.length(),
        }
    }

    /// Returns `true` if the body has completely arrived.
    pub const fn has_whole_content(&self) -> bool {
        matches!(self.content, Incoming::Whole(_))
    }

    /// Returns the properties of the connection.
    pub const fn connection(&self) -> &'a ConnectionInfo {
        self.connection
    }

    /// Returns the worker of the connection, with its clock, deadlines and thread-local state.
    pub const fn worker(&self) -> &'a Rc<Worker> {
        self.worker
    }

    /// Returns the address of the client. Usually, this is the other end of the connection. If the other end
    /// is a [trusted proxy](crate::Config::trusted_proxies), it is the client that the proxy names. The port
    /// is 0 if it is unknown.
    #[inline]
    pub fn client(&self) -> ClientAddr {
        self.origin().map_or(self.connection.client, |origin| origin.client)
    }

    /// Returns the scheme that the client uses. This is the scheme that a trusted proxy reports, or else the
    /// scheme of the connection.
    pub fn scheme(&self) -> &'static str {
        self.origin().and_then(|origin| origin.scheme).unwrap_or_else(|| self.connection.scheme())
    }

    /// Returns the host of the request with its port. This is the host that a trusted proxy reports, or else
    /// the host from the request target or from `Host`.
    pub fn host(&self) -> &'a str {
        let host = self.origin().and_then(|origin| origin.host);
        host.or_else(|| self.head.authority().map(|authority| authority.as_str())).unwrap_or_default()
    }

    /// Returns the kind of forwarding headers that the trusted proxies write. `None` if the request did not
    /// come from a trusted proxy.
    pub fn proxy_fields(&self) -> Option<ProxyFields> {
        self.proxies.map(TrustedProxies::fields)
    }

    /// Returns the entries that trusted proxies have written in the header of
    /// [`proxy_fields`](Self::proxy_fields). The first returned entry names the client. Entries to the left
    /// of it in the header are not returned, because the client may have forged them.
    pub fn proxy_chain(&self) -> Vec<&'a [u8]> {
        let chain = |proxies: &TrustedProxies| proxies.chain(self.connection.client, self.head.field_lines);
        self.proxies.map(chain).unwrap_or_default()
    }

    /// Returns the trace of the request, to which handlers add their steps. `None` if tracing is off.
    #[inline]
    pub const fn trace(&self) -> Option<&'a Rc<RequestTrace>> {
        self.trace
    }

    #[inline]
    fn origin(&self) -> Option<Origin<'a>> {
        self.proxies.map(|proxies| proxies.origin(self.connection.client, self.head.field_lines))
    }

    /// Returns the values that outer handlers have attached to the request, such as the user that an
    /// authentication layer has verified. There is at most one value of each type.
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Returns the attached values, so that an inner handler can get another value. Clients cannot attach
    /// values.
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Returns `true` if the client requests an upgrade or a tunnel. A handler can accept it with
    /// [`Response::upgrade`](crate::Response::upgrade) or [`Response::tunnel`](crate::Response::tunnel).
    pub const fn wants_tunnel(&self) -> bool {
        self.wants_tunnel
    }

    /// Returns `true` if the client requests an upgrade to `protocol`. A handler can accept it with
    /// [`Response::upgrade`](crate::Response::upgrade). It must not switch to a protocol that the client has
    /// not requested (RFC 9110 §7.8).
    pub fn wants_upgrade_to(&self, protocol: &str) -> bool {
        self.wants_tunnel && offers(self.field_lines(), protocol)
    }

    /// Returns the bytes of the path, if no outer router has matched a part of it. Otherwise, and for a
    /// request target that is not in origin form, returns `None`.
    pub(crate) fn mounted_path_bytes(&self) -> Option<&'a [u8]> {
        match self.head.target {
            RequestTarget::Origin(origin) if self.mount_prefix == 0 => Some(origin.path_bytes()),
            _ => None,
        }
    }

    /// Limits the body to `bytes`. Reading more bytes fails with [`ContentError::TooLarge`]. The limit
    /// applies only to bodies that are still arriving, so check a known [length](Self::content_length) first.
    pub fn limit_content(&mut self, bytes: u64) {
        if let Incoming::Arriving(content) = &mut self.content {
            content.limit(bytes);
        }
    }

    /// Drops the trailer section of an arriving body. Call this function in a layer that sets or removes a
    /// header. Otherwise, a client could send the same header in the trailer section.
    pub fn drop_trailers(&mut self) {
        if let Incoming::Arriving(content) = &mut self.content {
            content.drop_trailers();
        }
    }

    /// Takes the body, including the part that has not arrived yet. The request then has an empty body.
    pub fn take_content(&mut self) -> RequestContent {
        match mem::replace(&mut self.content, Incoming::Whole(&[])) {
            Incoming::Whole(content) => RequestContent::whole(Bytes::copy_from_slice(content)),
            Incoming::Arriving(content) => content,
        }
    }

    /// Calls `answer` with a request that has the head `head` and the body of this request. Afterwards, this
    /// request contains the body again, unless `answer` has taken an arriving body.
    pub(crate) fn with_head<'s, R>(
        &mut self,
        head: &'s RequestHead<'s>,
        answer: impl FnOnce(&mut Request<'s>) -> R,
    ) -> R
    where
        'a: 's,
    {
        let content = mem::replace(&mut self.content, Incoming::Whole(&[]));
        let whole = match content {
            Incoming::Whole(content) => Some(content),
            Incoming::Arriving(_) => None,
        };
        let mut request = self.with_parts(head, content);
        let answer = answer(&mut request);
        self.extensions = request.extensions;
        match (whole, request.content) {
            (Some(content), _) => self.content = Incoming::Whole(content),
            (None, Incoming::Arriving(content)) => self.content = Incoming::Arriving(content),
            // The body was taken.
            (None, Incoming::Whole(_)) => {}
        }
        answer
    }

    /// Returns a request with this head and this body, and with all other properties of this request. Takes
    /// the extensions.
    pub(crate) fn with_parts<'s>(&mut self, head: &'s RequestHead<'s>, content: Incoming<'s>) -> Request<'s>
    where
        'a: 's,
    {
        Request {
            head,
            parameters: self.parameters.clone(),
            content,
            connection: self.connection,
            worker: self.worker,
            wants_tunnel: self.wants_tunnel,
            mount_prefix: self.mount_prefix,
            proxies: self.proxies,
            trace: self.trace,
            extensions: mem::take(&mut self.extensions),
        }
    }

    /// Returns a request that owns its data. Copies the borrowed data and takes the body, so this request
    /// then has an empty body.
    pub fn take_owned(&mut self) -> OwnedRequest {
        OwnedRequest {
            head: OwnedRequestHead::from(*self.head),
            parameters: OwnedParameters::from(&self.parameters),
            content: self.take_content(),
            connection: self.connection.clone(),
            worker: self.worker.clone(),
            wants_tunnel: self.wants_tunnel,
            mount_prefix: self.mount_prefix,
            proxies: self.proxies.cloned(),
            trace: self.trace.cloned(),
            extensions: mem::take(&mut self.extensions),
        }
    }
}

impl Request<'_> {
    /// Returns a copy of the request that owns its data. Returns `None` if the body has not completely arrived. Use it
    /// in handlers that may have to handle the request again.
    pub fn copy_whole(&self) -> Option<OwnedRequest> {
        let Incoming::Whole(content) = self.content else { return None };
        Some(OwnedRequest {
            head: OwnedRequestHead::from(*self.head),
            parameters: OwnedParameters::from(&self.parameters),
            content: RequestContent::whole(Bytes::copy_from_slice(content)),
            connection: self.connection.clone(),
            worker: self.worker.clone(),
            wants_tunnel: self.wants_tunnel,
            mount_prefix: self.mount_prefix,
            proxies: self.proxies.cloned(),
            trace: self.trace.cloned(),
            extensions: self.extensions.clone(),
        })
    }
}

impl OwnedRequest {
    /// Returns a [`Request`] that borrows from this request. `head` is the head of this request, and
    /// `content` is the complete body.
    pub(crate) fn as_request<'s>(&'s self, head: &'s RequestHead<'s>, content: &'s [u8]) -> Request<'s> {
        Request {
            head,
            parameters: self.parameters.as_parameters(),
            content: Incoming::Whole(content),
            connection: &self.connection,
            worker: &self.worker,
            wants_tunnel: self.wants_tunnel,
            mount_prefix: self.mount_prefix,
            proxies: self.proxies.as_ref(),
            trace: self.trace.as_ref(),
            extensions: self.extensions.clone(),
        }
    }

    /// Returns the whole head.
    pub fn head(&self) -> RequestHead<'_> {
        self.head.as_head()
    }

    /// Returns the method.
    pub fn method(&self) -> Method<'_> {
        self.head().method
    }

    /// Returns the request target as the client has sent it.
    pub fn target(&self) -> RequestTarget<'_> {
        self.head().target
    }

    /// Returns the HTTP version of the request.
    pub fn version(&self) -> Version {
        self.head().version
    }

    /// Returns the header section.
    pub fn field_lines(&self) -> FieldLines<'_> {
        self.head().field_lines
    }

    /// Returns the path of the request target as the client has sent it, percent-encoded.
    pub fn path(&self) -> &str {
        self.head().target.path()
    }

    /// Returns the path below the prefix at which the handler is [mounted](crate::Router::mount). If the
    /// handler is not mounted, returns the whole path.
    pub fn mounted_path(&self) -> &str {
        below(self.path(), self.mount_prefix)
    }

    /// Returns the query of the request target as the client has sent it, without the question mark.
    pub fn query_string(&self) -> Option<&str> {
        self.head().target.query()
    }

    /// Returns the value of the first header `name`. Ignores the case of the name.
    pub fn field(&self, name: &str) -> Option<FieldValue<'_>> {
        self.head().field(name)
    }

    /// Returns the parameters of the route.
    pub fn parameters(&self) -> Parameters<'_> {
        self.parameters.as_parameters()
    }

    /// Returns the decoded parameter `name` of the route. The result is empty if the route has no such
    /// parameter, or if the value is not UTF-8. Use [`parameters`](Self::parameters) to distinguish these
    /// cases.
    pub fn parameter(&self, name: &str) -> Cow<'_, str> {
        self.parameters().get(name).unwrap_or_default()
    }

    /// Returns the body, to read it.
    pub const fn content(&mut self) -> &mut RequestContent {
        &mut self.content
    }

    /// Takes the body. The request then has an empty body.
    pub fn take_content(&mut self) -> RequestContent {
        mem::replace(&mut self.content, RequestContent::whole(Bytes::new()))
    }

    /// Returns the properties of the connection.
    pub const fn connection(&self) -> &ConnectionInfo {
        &self.connection
    }

    /// Returns the worker of the connection, with its clock, deadlines and thread-local state.
    pub const fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Returns the address of the client. Usually, this is the other end of the connection. If the other end
    /// is a [trusted proxy](crate::Config::trusted_proxies), it is the client that the proxy names.
    pub fn client(&self) -> ClientAddr {
        let client = self.connection.client;
        self.proxies.as_ref().map_or(client, |proxies| proxies.origin(client, self.head().field_lines).client)
    }

    /// Returns the trace of the request, to which handlers add their steps. `None` if tracing is off.
    pub const fn trace(&self) -> Option<&Rc<RequestTrace>> {
        self.trace.as_ref()
    }

    /// Returns the values that outer handlers have attached.
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Returns the attached values, so that an inner handler can get another value.
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Returns `true` if the client requests an upgrade or a tunnel. A handler can accept it with
    /// [`Response::upgrade`](crate::Response::upgrade) or [`Response::tunnel`](crate::Response::tunnel).
    pub const fn wants_tunnel(&self) -> bool {
        self.wants_tunnel
    }

    /// Returns `true` if the client requests an upgrade to `protocol`. A handler can accept it with
    /// [`Response::upgrade`](crate::Response::upgrade). It must not switch to a protocol that the client has
    /// not requested (RFC 9110 §7.8).
    pub fn wants_upgrade_to(&self, protocol: &str) -> bool {
        self.wants_tunnel && offers(self.head().field_lines, protocol)
    }
}

/// Returns `true` if the `Upgrade` header lists `protocol`. If `protocol` contains a version, the version
/// must match too.
fn offers(field_lines: FieldLines<'_>, protocol: &str) -> bool {
    field_lines.all("upgrade").any(|value| list::contains_token(value.as_bytes(), protocol))
}

/// Returns the part of `path` after the first `prefix` bytes. An empty part becomes `/`.
fn below(path: &str, prefix: usize) -> &str {
    match path.get(prefix..) {
        Some("") | None => "/",
        Some(rest) => rest,
    }
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.head.method, self.head.target)
    }
}
