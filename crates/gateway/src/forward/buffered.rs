//! Requests whose bodies are read before a server is selected.

use std::future::poll_fn;

use thruway_server::{Response, StatusCode};

use super::forwarding::Forwarding;
use super::future::ForwardFuture;
use crate::Failure;

/// Reads the request body, and then forwards the request. The body has at most `bytes_max` bytes.
pub(super) async fn forward_buffered(mut forwarding: Forwarding, bytes_max: usize) -> Response {
    match read_body(&mut forwarding, bytes_max).await {
        Ok(()) => {
            if let Some(timeline) = &mut forwarding.timeline {
                timeline.buffered(forwarding.worker.clock());
            }
            ForwardFuture::new(forwarding).await
        }
        Err(mut response) => {
            forwarding.complete(&mut response);
            response
        }
    }
}

/// Reads the whole request body, and keeps it for all attempts.
///
/// # Errors
/// Returns the response to the client if the body is too long, or if the client does not send the whole body.
async fn read_body(forwarding: &mut Forwarding, bytes_max: usize) -> Result<(), Response> {
    let Some(body) = &mut forwarding.body else { return Ok(()) };
    if body.is_longer_than(bytes_max) {
        return Err(forwarding.too_long());
    }
    let read = poll_fn(|cx| body.poll_read_whole(cx)).await;
    match read {
        Ok(true) => Ok(()),
        Ok(false) => Err(forwarding.too_long()),
        Err(error) => Err(forwarding.error_response(Failure::RequestContent(error))),
    }
}

impl Forwarding {
    /// Returns the response to a request whose body is too long.
    #[cold]
    fn too_long(&self) -> Response {
        let status = StatusCode::CONTENT_TOO_LARGE;
        let text = format!("{} {}\n", status.as_u16(), status.reason());
        let mut response = Response::text(text).with_status(status);
        if let Some(rewrite) = self.request.response_rewrite() {
            rewrite.apply(&mut response);
        }
        response
    }
}
