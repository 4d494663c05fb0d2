//! The limit on the bytes of requests in progress.

use std::sync::Arc;

use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::params::Params;
use thruway_net::{Admitted, LogLimit};

use super::McpServerOptions;
use crate::authorization::Caller;
use crate::shares::{Holder, LimitReached, Share, Shares};

/// Counts the bytes of requests in progress. Other limits restrict the number of requests.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    shares: Arc<Shares>,
    max: usize,
}

impl RequestBytes {
    /// Returns the limit of a server. The limit is large enough for one request of the maximum size.
    pub(super) fn new(options: &McpServerOptions) -> Self {
        let max = options.in_flight_bytes_max.max(options.message_bytes_max);
        Self { shares: Shares::new(max), max }
    }

    /// Counts the parameters of a request until the returned share is dropped. The bytes count for
    /// `caller`. Returns `None` for a small request, which does not count against the limit.
    ///
    /// # Errors
    /// Returns an error if the limit, or the caller's share of this limit, is reached.
    pub(crate) fn hold(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<Option<Share>, Error> {
        let bytes = request.params.or(params.arguments).map_or(0, |json| json.get().len());
        if bytes < COUNTED_FROM { Ok(None) } else { self.hold_bytes(&caller.holder(), bytes) }
    }

    /// Counts `bytes` bytes of `holder` until the returned share is dropped. Returns `None` for a small
    /// number of bytes, which does not count against the limit.
    ///
    /// # Errors
    /// Returns an error if the limit, or the holder's share of this limit, is reached.
    pub(crate) fn hold_bytes(&self, holder: &Holder, bytes: usize) -> Result<Option<Share>, Error> {
        if bytes < COUNTED_FROM {
            return Ok(None);
        }
        self.shares.take(holder, bytes).map(Some).map_err(|refusal| self.refusal(refusal))
    }

    fn refusal(&self, refusal: LimitReached) -> Error {
        static LIMIT: LogLimit = LogLimit::new();
        let requests = match refusal {
            LimitReached::Full => "all requests",
            LimitReached::HolderHasShare => "the requests of this caller",
        };
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            let max = self.max;
            tracing::warn!(
                max,
                suppressed,
                "rejected a request: {requests} in progress have too many bytes; increase \
                 `in_flight_bytes_max` to allow more"
            );
        }
        Error::internal(format!("{requests} in progress have too many bytes: try again later"))
    }
}

/// Minimum size of a request that counts, in bytes. Smaller requests need little memory, and limits on the
/// number of requests already restrict this memory.
const COUNTED_FROM: usize = 4 << 10;
