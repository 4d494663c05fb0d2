//! The audit log of the admin listener: one line in the log of the process for each change.

use std::mem;
use std::sync::Arc;

use thruway_gateway::VerifiedClient;
use thruway_net::{Admitted, LogLimit};
use thruway_server::{Request, StatusCode};

/// Returns the name of the authenticated user.
pub(super) fn user<'r>(request: &'r Request<'_>) -> Option<&'r str> {
    let client: Option<&Arc<VerifiedClient>> = request.extensions().get();
    client?.user.as_deref()
}

/// A request that may change something.
pub(super) struct Change {
    client: String,
    path: Box<str>,
}

/// A change in progress. If the client leaves before the response, the line of the change has the result
/// `unknown`.
pub(super) struct BegunChange {
    change: Change,
    /// The authenticated user, if any.
    user: Option<String>,
    is_logged: bool,
}

impl Change {
    /// Returns `None` if the method of the request only reads.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let is_reading = matches!(request.method().as_str(), "GET" | "HEAD");
        (!is_reading).then(|| Self { client: request.client().to_string(), path: request.path().into() })
    }

    /// Starts the change. The result writes one line to the log when it ends or is dropped.
    pub(super) const fn begin(self, user: Option<String>) -> BegunChange {
        BegunChange { change: self, user, is_logged: false }
    }

    /// Writes the line of a request without a verified user. Limits the number of lines, because clients
    /// without credentials could fill the log.
    pub(super) fn log_refusal(&self, reason: &str) {
        static LIMIT: LogLimit = LogLimit::new();
        let Some(Admitted { suppressed }) = LIMIT.admit() else { return };
        let (object, action) = self.object_and_action();
        let client = &*self.client;
        tracing::warn!(client, action, object, result = "refused", reason, suppressed, "admin change");
    }

    /// Splits the path: for `/upstreams/a/servers/b/drain`, returns `upstreams/a/servers/b` and `drain`. The
    /// path remains percent-encoded, so that it cannot contain line breaks.
    fn object_and_action(&self) -> (&str, &str) {
        let path = self.path.trim_start_matches('/');
        path.rsplit_once('/').unwrap_or(("config", path))
    }
}

impl BegunChange {
    /// Writes the line of the change, with the status of the response.
    pub(super) fn end(mut self, status: StatusCode) {
        self.log(Some(status.as_u16()));
    }

    fn log(&mut self, status: Option<u16>) {
        if mem::replace(&mut self.is_logged, true) {
            return;
        }
        let (object, action) = self.change.object_and_action();
        let (user, client) = (self.user.as_deref(), &*self.change.client);
        let result = match status {
            None => "unknown",
            Some(200..300) => "done",
            Some(403) => "refused",
            Some(_) => "failed",
        };
        if result == "done" {
            tracing::info!(user, client, action, object, result, status, "admin change");
        } else {
            tracing::warn!(user, client, action, object, result, status, "admin change");
        }
    }
}

impl Drop for BegunChange {
    fn drop(&mut self) {
        self.log(None);
    }
}
