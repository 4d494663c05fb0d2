//! Authentication and roles of the admin listener.
//!
//! ```text
//! Guarded (host, origin) ─▶ Authenticated ─▶ policy ─▶ Authorized (role, audit log) ─▶ Router
//!     │ 403                                    │ 401      │ 403
//! ```

use std::sync::Arc;

use thruway_gateway::Guarded;
use thruway_server::{Answer, Handler, Request, Response, Router, StatusCode};

use super::audit::{self, Change};
use crate::admin_access::{AdminAccess, REALM};
use crate::config::AdminRole;
use crate::running_state::RunningState;

/// Passes requests to the router if the client has authenticated itself and has permission.
pub(super) struct Authenticated {
    router: Arc<Router>,
    running_state: RunningState,
}

impl Authenticated {
    pub(super) fn new(router: Router, running_state: RunningState) -> Self {
        Self { router: Arc::new(router), running_state }
    }
}

impl Handler for Authenticated {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let access = self.running_state.load().admin_access.clone();
        let Some(access) = access.filter(|_| !is_open(request)) else {
            return forward(request, &self.router, None);
        };
        let Some(policy) = access.policy_for(request).cloned() else {
            return Answer::Now(Response::new(StatusCode::FORBIDDEN));
        };
        let change = Change::of(request);
        let authorized = Authorized { router: self.router.clone(), access };
        let guarded = Guarded::new(policy, REALM, Arc::new(authorized)).identified(true);
        let answer = request.forward_to(&guarded);
        let Some(change) = change else { return answer };
        answer.map(move |response| {
            if response.status() == StatusCode::UNAUTHORIZED {
                change.log_refusal("unauthenticated");
            }
            response
        })
    }
}

/// Passes requests of authenticated users to the router, if the role of the user allows the request.
struct Authorized {
    router: Arc<Router>,
    access: Arc<AdminAccess>,
}

impl Handler for Authorized {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let user = audit::user(request).map(str::to_owned);
        let role = user.as_deref().and_then(|user| self.access.role_of(user));
        match (role, Change::of(request)) {
            (Some(AdminRole::Operator), _) | (Some(AdminRole::Read), None) => {
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

const NO_PERMISSION: &str =
    "your role `read` allows only GET and HEAD: this request needs the role `operator`\n";
