//! The limit on the total size of all requests in progress.

use std::sync::Arc;

use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::params::Params;
use thruway_net::{Admitted, LogLimit};

use super::McpServerOptions;
use crate::authorization::Caller;
use crate::shares::{Holder, LimitReached, Share, Shares};

/// The total size of all requests in progress. Other limits restrict the number of requests.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    shares: Arc<Shares>,
    max: usize,
}

impl RequestBytes {
    /// Returns the limit of a server, which is large enough for one request of the maximum size.
    pub(super) fn new(options: &McpServerOptions) -> Self {
        let max = options.in_flight_bytes_max.max(options.message_bytes_max);
        Self { shares: Shares::new(max), max }
    }

    /// Counts the bytes of the parameters of a request of `caller` until the returned value is dropped.
    /// Returns `None` for a small request, which does not count.
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

    /// Counts `bytes` bytes of the caller `holder` until the returned share is dropped. Returns `None` for a
    /// small number of bytes, which does not count.
    ///
    /// # Errors
    /// Returns an error if the limit, or the caller's share of this limit, is reached.
    pub(crate) fn hold_bytes(&self, holder: &Holder, bytes: usize) -> Result<Option<Share>, Error> {
        if bytes < COUNTED_FROM {
            return Ok(None);
        }
        self.shares.take(holder, bytes).map(Some).map_err(|refusal| self.refusal(refusal))
    }

    fn refusal(&self, refusal: LimitReached) -> Error {
        static LIMIT: LogLimit = LogLimit::new();
        let requests = match refusal {
            LimitReached::Full => "all requests in progress",
            LimitReached::HolderHasShare => "this caller's requests in progress",
        };
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            let max = self.max;
            tracing::warn!(
                max,
                suppressed,
                "rejected a request: {requests} have reached the limit on their total size; increase \
                 `in_flight_bytes_max` to allow more"
            );
        }
        Error::internal(format!("{requests} have reached the limit on their total size: try again later"))
    }
}

/// Requests with fewer bytes do not count. Limits on the number of requests already restrict the memory for
/// such small requests.
const COUNTED_FROM: usize = 4 << 10;
