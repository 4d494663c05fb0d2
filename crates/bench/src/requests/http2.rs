//! Requests as HTTP/2 has them.

use bytes::Bytes;
use http::header::TE;
use http::uri::Scheme;
use thruway_client::http2::Spoken;

/// A request as the library for HTTP/2 takes it.
#[derive(Clone, Debug)]
pub struct Http2Request {
    /// Its head.
    pub head: http::Request<()>,
    /// Its content.
    pub content: Bytes,
}

impl Http2Request {
    /// What the octets of a request for HTTP/1.1 say; `None` if that cannot be said. `TE` is sent only if it was asked for: to look
    /// through a header section costs both sides more than to see that there is none.
    pub(super) fn of_octets(octets: &[u8], is_secured: bool, has_te: bool) -> Option<Self> {
        let scheme = if is_secured { Scheme::HTTPS } else { Scheme::HTTP };
        let Spoken { mut head, used, .. } = Spoken::of(octets, scheme, false)?;
        if !has_te {
            head.headers_mut().remove(TE);
        }
        if head.headers().is_empty() {
            // An empty map that was in use is copied like a full one.
            *head.headers_mut() = http::HeaderMap::new();
        }
        Some(Self { head, content: Bytes::copy_from_slice(&octets[used..]) })
    }
}
