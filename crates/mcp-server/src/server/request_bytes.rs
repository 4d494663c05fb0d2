//! The limit on the bytes of requests that are being handled.

use std::sync::Arc;

use thruway_mcp::json_rpc::{Error, Request};
use thruway_mcp::params::Params;
use thruway_net::{Admitted, LogLimit};

use super::McpServerOptions;
use crate::authorization::Caller;
use crate::shares::{Holder, NoShare, Share, Shares};

/// Counts the bytes of requests that are being handled. The number of requests is limited elsewhere.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    shares: Arc<Shares>,
    max: usize,
}

impl RequestBytes {
    /// Returns the limit of a server. One request of the maximum size always fits.
    pub(super) fn new(options: &McpServerOptions) -> Self {
        let max = options.in_flight_bytes_max.max(options.message_bytes_max);
        Self { shares: Shares::new(max), max }
    }

    /// Counts the parameters of a request of `caller`, until what it returns is dropped.
    ///
    /// # Errors
    /// The limit is reached, or the caller's share of it.
    pub(crate) fn hold(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<Option<Share>, Error> {
        let bytes = request.params.or(params.arguments).map_or(0, |json| json.get().len());
        if bytes < COUNTED_FROM { Ok(None) } else { self.hold_bytes(&caller.holder(), bytes) }
    }

    /// Counts `bytes` bytes of `holder`, until what it returns is dropped.
    ///
    /// # Errors
    /// The limit is reached, or the holder's share of it.
    pub(crate) fn hold_bytes(&self, holder: &Holder, bytes: usize) -> Result<Option<Share>, Error> {
        if bytes < COUNTED_FROM {
            return Ok(None);
        }
        self.shares.take(holder, bytes).map(Some).map_err(|refusal| self.refusal(refusal))
    }

    fn refusal(&self, refusal: NoShare) -> Error {
        static LIMIT: LogLimit = LogLimit::new();
        let whose = match refusal {
            NoShare::Full => "all requests",
            NoShare::HolderHasShare => "the requests of this caller",
        };
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            let max = self.max;
            tracing::warn!(max, suppressed, "refused a request: {whose} in progress have too many bytes");
        }
        Error::internal(format!("{whose} in progress have too many bytes: try again when some are answered"))
    }
}

/// Number of bytes from which on a request is counted. Handling a smaller request takes as much memory as its
/// parameters do, so the limits on the number of requests are enough.
const COUNTED_FROM: usize = 4 << 10;
