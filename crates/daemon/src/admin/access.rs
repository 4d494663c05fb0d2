//! Authentication and roles of the admin listener.
//!
//! ```text
//! Guarded (host, origin) ─▶ Authenticated ─▶ policy ─▶ Authorized (role, audit log) ─▶ Router
//!     │ 403                   │ 429            │ 401      │ 403
//! ```

use std::sync::Arc;
use std::time::Duration;

use thruway_gateway::Guarded;
use thruway_net::{Admitted, ClientAddr, Clock, LogLimit};
use thruway_server::{Answer, Handler, Request, Response, Router, StatusCode};

use super::audit::{self, Change};
use super::login_limit::LoginLimit;
use crate::admin_access::{AdminAccess, REALM};
use crate::config::AdminRole;
use crate::running_state::RunningState;

/// Passes requests to the router if the client has authenticated itself and has permission.
pub(super) struct Authenticated {
    router: Arc<Router>,
    running_state: RunningState,
    login_limit: Arc<LoginLimit>,
}

impl Authenticated {
    pub(super) fn new(router: Router, running_state: RunningState) -> Self {
        Self { router: Arc::new(router), running_state, login_limit: Arc::default() }
    }
}

impl Handler for Authenticated {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let access = self.running_state.load().admin_access.clone();
        let Some(access) = access.filter(|_| !is_open(request)) else {
            request.extensions_mut().insert(Permission { role: AdminRole::Operator, access: None });
            return forward(request, &self.router, None);
        };
        let Some(policy) = access.policy_for(request).cloned() else {
            return Answer::Now(Response::new(StatusCode::FORBIDDEN));
        };
        let login = Login::of(request, &self.login_limit);
        if let Some(refusal) = login.as_ref().and_then(Login::refusal) {
            if let Some(change) = Change::of(request) {
                change.log_refusal("too_many_failed_logins");
            }
            return Answer::Now(refusal);
        }
        let change = Change::of(request);
        let authorized = Authorized { router: self.router.clone(), access, login: login.clone() };
        let guarded = Guarded::new(policy, REALM, Arc::new(authorized)).identified(true);
        let answer = request.forward_to(&guarded);
        if login.is_none() && change.is_none() {
            return answer;
        }
        answer.map(move |response| {
            if response.status() != StatusCode::UNAUTHORIZED {
                return response;
            }
            if let Some(change) = change {
                change.log_refusal("unauthenticated");
            }
            login.and_then(|login| login.fail()).unwrap_or(response)
        })
    }
}

/// A request with credentials.
#[derive(Clone)]
struct Login {
    client: ClientAddr,
    limit: Arc<LoginLimit>,
}

impl Login {
    /// Returns `None` for a request without credentials. Such a request does not count as
    /// a failed login, because browsers send their first request without credentials.
    fn of(request: &Request<'_>, limit: &Arc<LoginLimit>) -> Option<Self> {
        let has_credentials = request.field("authorization").is_some();
        has_credentials.then(|| Self { client: request.client(), limit: limit.clone() })
    }

    /// Returns the response if the client must wait after too many failures.
    fn refusal(&self) -> Option<Response> {
        self.limit.wait(self.client, Clock::system().now()).map(too_many_failures)
    }

    /// Counts a failed login. If the client must already wait, because of other requests at the same time,
    /// returns the response instead.
    fn fail(&self) -> Option<Response> {
        static LIMIT: LogLimit = LogLimit::new();
        let refusal = self.refusal();
        if refusal.is_none()
            && self.limit.note_failure(self.client, Clock::system().now())
            && let Some(Admitted { suppressed }) = LIMIT.admit()
        {
            let client = self.client.to_string();
            tracing::warn!(client, suppressed, "too many failed logins to the admin listener");
        }
        refusal
    }
}

/// Passes requests of authenticated users to the router, if the role of the user allows the request.
struct Authorized {
    router: Arc<Router>,
    access: Arc<AdminAccess>,
    login: Option<Login>,
}

impl Handler for Authorized {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        // Other requests of the client may have failed while this password was checked. A client that must wait
        // must not learn that this password is valid.
        if let Some(refusal) = self.login.as_ref().and_then(Login::refusal) {
            return Answer::Now(refusal);
        }
        let user = audit::user(request).map(str::to_owned);
        let role = user.as_deref().and_then(|user| self.access.role_of(user));
        match (role, Change::of(request)) {
            (Some(role @ AdminRole::Operator), _) | (Some(role @ AdminRole::Read), None) => {
                let access = Some(self.access.clone());
                request.extensions_mut().insert(Permission { role, access });
                forward(request, &self.router, user)
            }
            (_, change) => {
                if let Some(change) = change {
                    change.begin(user).end(StatusCode::FORBIDDEN);
                }
                Answer::Now(Response::text(NO_PERMISSION).with_status(StatusCode::FORBIDDEN))
            }
        }
    }
}

/// The permission of a client. The extensions of each request contain this value.
#[derive(Clone)]
pub(super) struct Permission {
    pub(super) role: AdminRole,
    /// The users at the time of the request.
    access: Option<Arc<AdminAccess>>,
}

impl Permission {
    /// Returns `false` after a reload has changed the users. The user of this permission may then be removed, or
    /// may have another role or other credentials.
    pub(super) fn is_current(&self, running_state: &RunningState) -> bool {
        let current = running_state.load();
        self.access.as_ref().map(Arc::as_ptr) == current.admin_access.as_ref().map(Arc::as_ptr)
    }
}

/// Passes a request to the router. If the request changes something, writes a line to the log.
fn forward(request: &mut Request<'_>, router: &Router, user: Option<String>) -> Answer {
    let Some(change) = Change::of(request) else { return request.forward_to(router) };
    let change = change.begin(user);
    request.forward_to(router).map(move |response| {
        change.end(response.status());
        response
    })
}

/// Returns `true` if the request needs no authentication. Load balancers and orchestrators send such requests,
/// and usually have no credentials.
fn is_open(request: &Request<'_>) -> bool {
    Change::of(request).is_none() && matches!(request.path(), "/health" | "/ready")
}

/// Returns the response for a client that must wait for the time `wait`.
fn too_many_failures(wait: Duration) -> Response {
    let seconds = wait.as_millis().div_ceil(1000);
    Response::text("too many failed logins from this address\n")
        .with_status(StatusCode::TOO_MANY_REQUESTS)
        .with_field("Retry-After", seconds.to_string())
}

const NO_PERMISSION: &str =
    "your role `read` allows only GET and HEAD: this request needs the role `operator`\n";
