//! Mirrors: send copies of some requests to another upstream, and discard the responses to the copies.
//!
//! Mirroring does not change the responses to clients. A separate task sends each copy. The gateway makes no
//! copy if the request body has not arrived completely, or if too many copies are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thruway_net::spawn;
use thruway_server::Request;

use super::config::ForwardConfig;
use super::forwarding::Forwarding;
use super::future::ForwardFuture;
use super::request::OutgoingRequest;
use super::request_id::RequestId;
use crate::upstream::{RequestKey, Upstream};

/// Sends copies of requests to an upstream.
#[derive(Debug)]
pub struct Mirror {
    upstream: Arc<Upstream>,
    forward: Arc<ForwardConfig>,
    config: MirrorConfig,
    in_flight: AtomicUsize,
    counts: Arc<Counts>,
}

/// Settings of a mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MirrorConfig {
    /// Share of requests that are mirrored, in millionths. Default 1,000,000, which means all requests.
    pub share_millionths: u32,
    /// Maximum number of copies in flight, for all workers together. If this number is reached, further
    /// requests are not copied. A copy needs as much memory as its request, which is at most the size of the
    /// read buffer. Default 100.
    pub requests_max: usize,
}

/// Counters of a mirror.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MirrorCounts {
    /// Number of requests that were copied, including copies that could not be sent.
    pub mirrored: u64,
    /// Number of requests that were not copied because too many copies were in flight.
    pub busy: u64,
    /// Number of requests that were not copied because their body had not arrived completely.
    pub arriving: u64,
    /// Number of requests that were not copied because their path cannot be rewritten for the mirror, or
    /// because they have passed through too many Thruway gateways.
    pub refused: u64,
}

#[derive(Default, Debug)]
struct Counts {
    mirrored: AtomicU64,
    busy: AtomicU64,
    arriving: AtomicU64,
    refused: AtomicU64,
}

impl Default for MirrorConfig {
    fn default() -> Self {
        Self { share_millionths: MILLION, requests_max: 100 }
    }
}

impl Mirror {
    /// Returns a mirror that sends copies to `upstream`, with the request changes in `forward`.
    pub fn new(upstream: Arc<Upstream>, forward: ForwardConfig, config: MirrorConfig) -> Self {
        Self {
            upstream,
            forward: Arc::new(forward),
            config,
            in_flight: AtomicUsize::new(0),
            counts: Arc::default(),
        }
    }

    /// Continues with the counters of `before`, the mirror of the previous config, so that a reload does not
    /// reset the counters.
    #[must_use]
    pub fn continuing_counts_of(self, before: &Self) -> Self {
        Self { counts: before.counts.clone(), ..self }
    }

    /// Returns the counters of this mirror.
    pub fn counts(&self) -> MirrorCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MirrorCounts {
            mirrored: read(&self.counts.mirrored),
            busy: read(&self.counts.busy),
            arriving: read(&self.counts.arriving),
            refused: read(&self.counts.refused),
        }
    }

    /// Decides at random whether to mirror `request`, and sends a copy to the upstream of the mirror. The
    /// copy has the same request id `id` as the original request. Call this method on a worker thread.
    pub(super) fn copy(self: &Arc<Self>, request: &Request<'_>, id: &RequestId) {
        if request.wants_tunnel() || fastrand::u32(..MILLION) >= self.config.share_millionths {
            return;
        }
        if !request.has_whole_content() {
            self.counts.arriving.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(copy) = CopyInFlight::new(self) else {
            self.counts.busy.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let key = RequestKey::new(self.upstream.config(), request);
        let outgoing = match OutgoingRequest::new(request, &self.forward, id) {
            Ok(outgoing) => outgoing,
            Err(unsendable) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(upstream = self.upstream.name(), %unsendable, "request not mirrored");
                return;
            }
        };
        self.counts.mirrored.fetch_add(1, Ordering::Relaxed);
        let upstream = self.upstream.clone();
        let forwarding = Forwarding {
            worker: request.worker().clone(),
            upstream,
            key,
            request: outgoing,
            body: None,
            timeline: None,
            timeouts: self.forward.timeouts,
            until: None,
            timed: None,
            pending: None,
        };
        spawn(async move {
            // The task does not read the remaining response body. Dropping the response closes the
            // connection.
            drop(ForwardFuture::new(forwarding).await);
            drop(copy);
        });
    }
}

/// A guard that counts one copy in flight until the guard is dropped.
struct CopyInFlight(Arc<Mirror>);

impl CopyInFlight {
    /// Returns `None` if the maximum number of copies is already in flight.
    fn new(mirror: &Arc<Mirror>) -> Option<Self> {
        let copy = Self(mirror.clone());
        (mirror.in_flight.fetch_add(1, Ordering::Relaxed) < mirror.config.requests_max).then_some(copy)
    }
}

impl Drop for CopyInFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

const MILLION: u32 = 1_000_000;
