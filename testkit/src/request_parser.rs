//! Finds the requests that the gateway would find in the bytes of a client. Uses the same parser as the
//! gateway.

use thruway_http1::{BodyLength, HeadIndex, Limits, ServerConnection, ServerEvent};
use thruway_message::{Method, RequestTarget};

/// The part of a request that the gateway forwards unchanged: `METHOD TARGET`, and the content.
pub type ParsedRequest = (String, Vec<u8>);

/// Result of [`parse_requests`].
#[derive(Default, Debug)]
pub struct ParsedRequests {
    /// Complete requests, except requests that the gateway does not forward (`CONNECT`).
    pub complete: Vec<ParsedRequest>,
    /// `true` if the parser rejects the input after the complete requests.
    pub is_invalid: bool,
}

/// Returns the requests that the gateway parses from `bytes`.
pub fn parse_requests(bytes: &[u8]) -> ParsedRequests {
    let mut connection = ServerConnection::new(Limits::default());
    let mut index = HeadIndex::with_capacity(32);
    let mut parsed = ParsedRequests::default();
    let mut current = None;
    let mut at = 0;
    loop {
        let Ok((event, used)) = connection.handle_input(&bytes[at..], &mut index) else {
            return ParsedRequests { is_invalid: true, ..parsed };
        };
        let input = &bytes[at..at + used];
        at += used;
        match event {
            Some(ServerEvent::Request) => {
                let head = index.request_head(input);
                let is_whole = index.request_facts().body_length == BodyLength::NONE;
                current = (head.method != Method::Connect)
                    .then(|| (format!("{} {}", head.method, target(&head.target, head.method)), Vec::new()));
                if is_whole {
                    parsed.complete.extend(current.take());
                    // The upstream server in these tests never accepts a tunnel or an upgrade.
                    connection.decline_tunnel();
                }
            }
            Some(ServerEvent::Content(content)) => {
                if let Some((_, all)) = &mut current {
                    all.extend(content);
                }
            }
            Some(ServerEvent::EndOfContent) => {
                parsed.complete.extend(current.take());
                connection.decline_tunnel();
            }
            None => return parsed,
        }
    }
}

fn target(target: &RequestTarget<'_>, method: Method<'_>) -> String {
    forwarded_target(method.as_str(), &target.to_string())
}

/// Returns the request target that the gateway sends to the upstream server: an absolute form becomes an
/// origin form, or `*` for `OPTIONS`.
pub fn forwarded_target(method: &str, target: &str) -> String {
    let Some((_, rest)) = target.split_once("://") else { return target.to_owned() };
    match rest.find(['/', '?']) {
        None if method == "OPTIONS" => "*".to_owned(),
        None => "/".to_owned(),
        Some(at) if rest[at..].starts_with('?') => format!("/{}", &rest[at..]),
        Some(at) => rest[at..].to_owned(),
    }
}
