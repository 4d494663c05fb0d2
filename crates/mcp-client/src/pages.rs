//! Pages that the user is to visit before a server does what is asked of it: servers of 2025-11-25 refuse the request, and say
//! which. Other revisions have no such error: 2026-07-28 asks in the same way as for anything else.

use serde::Deserialize;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::schema::{
    ElicitAction, ElicitRequest, ElicitRequestParams, ElicitRequestURLParams, InputRequest, InputResponse,
};

use super::conversation::Conversation;

/// The data of the error.
#[derive(Deserialize)]
struct Required {
    elicitations: Vec<ElicitRequestURLParams>,
}

/// The pages that `error` is about, if it is of this kind (2025-11-25, `URLElicitationRequiredError`).
pub fn required_pages(error: &Error) -> Option<Vec<ElicitRequestURLParams>> {
    if error.code != ErrorCode::URL_ELICITATION_REQUIRED {
        return None;
    }
    let Required { elicitations } = Required::deserialize(error.data.as_ref()?).ok()?;
    (1..=PAGES_MAX).contains(&elicitations.len()).then_some(elicitations)
}

impl Conversation {
    /// Sends the user to the pages that `error` is about, one after another; whether there are any and all were visited.
    pub(super) async fn has_visited(&self, error: &Error) -> bool {
        let Some(pages) = required_pages(error) else { return false };
        for page in pages {
            let question = InputRequest::Elicit(ElicitRequest { params: ElicitRequestParams::Url(page) });
            match self.incoming.handlers.answer(question).await {
                Ok(InputResponse::Elicit(result)) if result.action == ElicitAction::Accept => {}
                _ => return false,
            }
        }
        true
    }
}

/// How many pages a server may want to be visited for one request.
const PAGES_MAX: usize = 16;
