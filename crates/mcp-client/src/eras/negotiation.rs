//! Detection of the era. The client sends a modern request, and the response shows the era of the server.

use std::sync::Arc;

use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::schema::DiscoverResult;
use thruway_mcp::{Era, Revision};

use super::super::conversation::Conversation;
use super::super::deadline::RequestTimeouts;
use super::super::error::McpClientError;
use super::super::options::EraChoice;
use super::negotiated::{Legacy, Modern, NegotiatedProtocol};

impl NegotiatedProtocol {
    /// Negotiates the era and the revision with the server.
    pub(crate) async fn negotiate(conversation: &Arc<Conversation>) -> Result<Self, McpClientError> {
        match conversation.options.era {
            EraChoice::Modern => Modern::new(conversation, Revision::LATEST).map(Self::Modern),
            EraChoice::Revision(revision) if revision.era() == Era::Modern => {
                Modern::new(conversation, revision).map(Self::Modern)
            }
            EraChoice::Revision(revision) => legacy(conversation, revision, true).await,
            EraChoice::Legacy => legacy(conversation, Revision::LATEST_LEGACY, false).await,
            // A client that has lost its session already knows the era of the server.
            EraChoice::Auto if conversation.era.get() == Some(&Era::Legacy) => {
                legacy(conversation, Revision::LATEST_LEGACY, false).await
            }
            EraChoice::Auto => probe(conversation).await,
        }
    }
}

async fn legacy(
    conversation: &Arc<Conversation>,
    requested: Revision,
    is_pinned: bool,
) -> Result<NegotiatedProtocol, McpClientError> {
    let mut outcome = Legacy::initialize(conversation, requested, is_pinned).await;
    if let Err(McpClientError::Status(status)) = outcome
        && is_refusal_of_era(status.as_u16())
        && conversation.binding.open_stream(conversation).await?
    {
        // The server may support only HTTP with SSE.
        outcome = Legacy::initialize(conversation, requested, is_pinned).await;
    }
    outcome.map(NegotiatedProtocol::Legacy)
}

/// Detects the era of the server: sends the modern request `server/discover` and evaluates the answer.
async fn probe(conversation: &Arc<Conversation>) -> Result<NegotiatedProtocol, McpClientError> {
    let modern = Modern::new(conversation, Revision::LATEST)?;
    let options = &conversation.options;
    let is_stream = conversation.binding.has_common_stream();
    // On a stream, a legacy server may not answer. Therefore the timeout leaves enough time for the legacy
    // handshake.
    let timeout = if is_stream { options.probe_timeout.min(options.timeout / 2) } else { options.timeout };
    let request_timeouts = RequestTimeouts { timeout, timeout_max: timeout };
    let outcome = modern.discover(conversation, request_timeouts).await;
    let was_silent = matches!(outcome, Err(McpClientError::Closed | McpClientError::TimedOut));
    let decision = match outcome {
        // A legacy server may exit when it receives an unknown request.
        Err(McpClientError::Closed) if conversation.binding.can_reopen() => {
            conversation.binding.reopen(conversation).await?;
            Decision::Legacy(Revision::LATEST_LEGACY)
        }
        outcome => decide(outcome, is_stream)?,
    };
    let revision = match decision {
        Decision::Modern => return Ok(NegotiatedProtocol::Modern(modern)),
        Decision::Legacy(revision) => revision,
    };
    match legacy(conversation, revision, false).await {
        // A modern server that starts slowly reads `server/discover` first, although the client no longer
        // waits. The server then refuses the legacy handshake.
        Err(McpClientError::Server(error))
            if was_silent && error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION =>
        {
            let request_timeouts = RequestTimeouts { timeout: options.timeout, timeout_max: options.timeout };
            match decide(modern.discover(conversation, request_timeouts).await, is_stream)? {
                Decision::Modern => Ok(NegotiatedProtocol::Modern(modern)),
                Decision::Legacy(_) => Err(McpClientError::Server(error)),
            }
        }
        outcome => outcome,
    }
}

/// The era that the client uses after the probe.
#[derive(PartialEq, Eq, Debug)]
enum Decision {
    Modern,
    Legacy(Revision),
}

/// Chooses the era from the answer to the probe. Any answer that is not modern indicates a legacy server (MCP
/// revision 2026-07-28, section versioning). Returns an error for a failure that does not depend on the era.
fn decide(
    outcome: Result<&DiscoverResult, McpClientError>,
    is_stream: bool,
) -> Result<Decision, McpClientError> {
    match outcome {
        Ok(result) => latest_of(result.supported_versions.iter().map(String::as_str)),
        Err(McpClientError::Server(error)) => match error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => latest_of(supported(&error)),
            ErrorCode::HEADER_MISMATCH | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                Err(McpClientError::Server(error))
            }
            _ => Ok(Decision::Legacy(Revision::LATEST_LEGACY)),
        },
        Err(McpClientError::Status(status)) if is_refusal_of_era(status.as_u16()) => {
            Ok(Decision::Legacy(Revision::LATEST_LEGACY))
        }
        Err(McpClientError::TimedOut) if is_stream => Ok(Decision::Legacy(Revision::LATEST_LEGACY)),
        Err(McpClientError::ResultInvalid(_)) => Ok(Decision::Legacy(Revision::LATEST_LEGACY)),
        Err(error) => Err(error),
    }
}

/// Returns `true` if this HTTP status may mean that the server does not support the era of the request.
/// Statuses for missing credentials or overload do not depend on the era.
pub const fn is_refusal_of_era(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 429)
}

fn latest_of<'v>(versions: impl Iterator<Item = &'v str>) -> Result<Decision, McpClientError> {
    let latest = versions.filter_map(|version| version.parse::<Revision>().ok()).max();
    match latest {
        Some(Revision::LATEST) => Ok(Decision::Modern),
        Some(revision) if revision.era() == Era::Legacy => Ok(Decision::Legacy(revision)),
        _ => Err(McpClientError::UnsupportedRevision),
    }
}

fn supported(error: &Error) -> impl Iterator<Item = &str> {
    let versions = error.data.as_ref().and_then(|data| data["supported"].as_array());
    versions.into_iter().flatten().filter_map(|version| version.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use thruway_message::StatusCode;

    fn decide_for_error(code: ErrorCode, data: serde_json::Value) -> Result<Decision, McpClientError> {
        decide(Err(McpClientError::Server(Error::new(code, "no").with_data(data))), false)
    }

    const LEGACY: Result<Decision, McpClientError> = Ok(Decision::Legacy(Revision::LATEST_LEGACY));

    #[test]
    fn client_chooses_latest_common_revision() {
        let decide_for_versions = |versions: &[&str]| {
            let supported_versions = versions.iter().map(|&version| version.into()).collect();
            decide(Ok(&DiscoverResult { supported_versions, ..DiscoverResult::default() }), false)
        };
        assert_eq!(decide_for_versions(&["2025-06-18", "2026-07-28", "2030-01-01"]), Ok(Decision::Modern));
        assert_eq!(
            decide_for_versions(&["2025-06-18", "2025-03-26"]),
            Ok(Decision::Legacy(Revision::R20250618))
        );
        assert_eq!(decide_for_versions(&["2030-01-01"]), Err(McpClientError::UnsupportedRevision));
        let unsupported = ErrorCode::UNSUPPORTED_PROTOCOL_VERSION;
        assert_eq!(decide_for_error(unsupported, json!({"supported": ["2025-11-25"]})), LEGACY);
        assert_eq!(
            decide_for_error(unsupported, json!({"supported": [7]})),
            Err(McpClientError::UnsupportedRevision)
        );
    }

    #[test]
    fn other_rejections_mean_a_legacy_server() {
        for code in [ErrorCode::METHOD_NOT_FOUND, ErrorCode::INVALID_REQUEST, ErrorCode(0)] {
            assert_eq!(decide_for_error(code, json!({})), LEGACY);
        }
        for status in [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED] {
            assert_eq!(decide(Err(McpClientError::Status(status)), false), LEGACY);
        }
        assert_eq!(decide(Err(McpClientError::TimedOut), true), LEGACY);
    }

    #[test]
    fn failures_unrelated_to_the_era_are_errors() {
        for error in [
            McpClientError::Status(StatusCode::UNAUTHORIZED),
            McpClientError::Status(StatusCode::FORBIDDEN),
            McpClientError::Status(StatusCode::INTERNAL_SERVER_ERROR),
            McpClientError::TimedOut,
            McpClientError::Closed,
            McpClientError::Server(Error::new(ErrorCode::HEADER_MISMATCH, "no")),
        ] {
            assert_eq!(decide(Err(error.clone()), false), Err(error));
        }
    }
}
