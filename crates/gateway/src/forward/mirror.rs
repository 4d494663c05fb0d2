//! Mirrors: some requests are sent to another upstream too, and what that answers is thrown away.
//!
//! Clients notice nothing of it: a copy is a task of its own, and is not made at all where that would take
//! long or much.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thruway_net::spawn;
use thruway_server::Request;

use super::config::ForwardConfig;
use super::forwarding::Forwarding;
use super::request::OutgoingRequest;
use super::request_id::RequestId;
use super::retry::forward;
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
    /// Number of mirrored requests in a million. Default: all.
    pub share_millionths: u32,
    /// Maximum number of copies in flight, in all workers. Beyond it, no copies are made. A copy needs as
    /// much memory as its request, up to one read. Default 100.
    pub requests_max: usize,
}

/// Counters of a mirror.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MirrorCounts {
    /// A copy was sent, or at least tried to.
    pub mirrored: u64,
    /// There were too many copies under way.
    pub busy: u64,
    /// Not all of the content was there when the request came: it is not kept for the sake of a copy.
    pub arriving: u64,
}

#[derive(Default, Debug)]
struct Counts {
    mirrored: AtomicU64,
    busy: AtomicU64,
    arriving: AtomicU64,
}

impl Default for MirrorConfig {
    fn default() -> Self {
        Self { share_millionths: MILLION, requests_max: 100 }
    }
}

impl Mirror {
    /// Sends copies to `upstream`, changed as `forward` says.
    pub fn new(upstream: Arc<Upstream>, forward: ForwardConfig, config: MirrorConfig) -> Self {
        Self {
            upstream,
            forward: Arc::new(forward),
            config,
            in_flight: AtomicUsize::new(0),
            counts: Arc::default(),
        }
    }

    /// Continues the counters of `before`.
    #[must_use]
    pub fn counting_on(self, before: &Self) -> Self {
        Self { counts: before.counts.clone(), ..self }
    }

    /// Returns the counters.
    pub fn counts(&self) -> MirrorCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MirrorCounts {
            mirrored: read(&self.counts.mirrored),
            busy: read(&self.counts.busy),
            arriving: read(&self.counts.arriving),
        }
    }

    /// Sends a copy of `request` if it is one of those, under the same name. To be called on a worker.
    pub(super) fn copy(self: &Arc<Self>, request: &Request<'_>, id: &RequestId) {
        if request.wants_tunnel() || fastrand::u32(..MILLION) >= self.config.share_millionths {
            return;
        }
        if !request.has_whole_content() {
            self.counts.arriving.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(copy) = UnderWay::new(self) else {
            self.counts.busy.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let key = RequestKey::new(self.upstream.config(), request);
        // One that cannot be sent is refused where it is forwarded.
        let Ok(outgoing) = OutgoingRequest::new(request, &self.forward, id) else { return };
        self.counts.mirrored.fetch_add(1, Ordering::Relaxed);
        let upstream = self.upstream.clone();
        let mut forwarding = Forwarding {
            worker: request.worker().clone(),
            upstream,
            key,
            request: outgoing,
            body: None,
            recorded: None,
            timeouts: self.forward.timeouts,
            until: None,
            timed: None,
        };
        spawn(async move {
            // Content that did not come with the head is not waited for: its connection ends here.
            drop(forward(&mut forwarding).await);
            drop(copy);
        });
    }
}

/// A copy that is under way, until this is dropped.
struct UnderWay(Arc<Mirror>);

impl UnderWay {
    /// `None` if there are as many as there may be.
    fn new(mirror: &Arc<Mirror>) -> Option<Self> {
        let copy = Self(mirror.clone());
        (mirror.in_flight.fetch_add(1, Ordering::Relaxed) < mirror.config.requests_max).then_some(copy)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

const MILLION: u32 = 1_000_000;
