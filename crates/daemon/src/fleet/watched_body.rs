//! The body of a forwarded response. It ends with an error when the owner is lost, because the connection to a machine
//! that has failed can stay open.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use thruway_net::Pipe;
use thruway_server::{AtDrain, BoxError, Content, ContentStream, Piece, Response};

use super::peers::Peer;

struct WatchedBody {
    body: Pin<Box<dyn ContentStream>>,
    /// Completes when the owner is lost.
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// `true` if the body is the stream of a session, which ends with the session. The client can open it again at
    /// another replica.
    is_endless: bool,
}

/// Ends the body of `response` when `peer` is lost. `is_endless` applies to the streams of sessions.
pub(super) fn watch(mut response: Response, peer: &Arc<Peer>, is_endless: bool) -> Response {
    let peer = peer.clone();
    match response.take_body().into_stream() {
        Ok(body) => {
            let lost = Box::pin(async move { peer.lost().await });
            response.set_content(Content::from_content_stream(WatchedBody { body, lost, is_endless }));
        }
        Err(whole) => response.set_content(whole),
    }
    response
}

impl WatchedBody {
    fn check(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        match self.lost.as_mut().poll(cx) {
            Poll::Ready(()) => Err("the replica with the session does not answer".into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl ContentStream for WatchedBody {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        match self.body.as_mut().poll_next(cx) {
            Poll::Pending => match self.check(cx) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Some(Err(error))),
            },
            ready @ Poll::Ready(_) => ready,
        }
    }

    fn poll_pipe(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Option<Poll<Result<Pipe, BoxError>>> {
        match self.body.as_mut().poll_pipe(cx)? {
            Poll::Pending => match self.check(cx) {
                Ok(()) => Some(Poll::Pending),
                Err(error) => Some(Poll::Ready(Err(error))),
            },
            ready @ Poll::Ready(_) => Some(ready),
        }
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.body.as_mut().poll_meanwhile(cx)?;
        self.check(cx)
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn at_drain(mut self: Pin<&mut Self>) -> AtDrain {
        if self.is_endless { AtDrain::Ends(Bytes::new()) } else { self.body.as_mut().at_drain() }
    }
}
