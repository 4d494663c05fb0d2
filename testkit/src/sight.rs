//! The gateway's view of the bytes of a client, from the parser that the gateway uses.

use thruway_http1::{BodyLength, HeadIndex, Limits, ServerConnection, ServerEvent};
use thruway_message::{Method, RequestTarget};

/// A request, as far as it is the same before and behind a gateway: `METHOD TARGET`, and the content.
pub type Seen = (String, Vec<u8>);

/// The gateway's view.
#[derive(Default, Debug)]
pub struct Sight {
    /// Requests that are complete, but those that are not forwarded.
    pub complete: Vec<Seen>,
    /// `true` if the input after it breaks a rule.
    pub is_faulty: bool,
}

/// The requests that `bytes` are to the gateway.
pub fn sight_of(bytes: &[u8]) -> Sight {
    let mut connection = ServerConnection::new(Limits::default());
    let mut index = HeadIndex::with_capacity(32);
    let mut sight = Sight::default();
    let mut current = None;
    let mut at = 0;
    loop {
        let Ok((event, used)) = connection.handle_input(&bytes[at..], &mut index) else {
            return Sight { is_faulty: true, ..sight };
        };
        let input = &bytes[at..at + used];
        at += used;
        match event {
            Some(ServerEvent::Request) => {
                let head = index.request_head(input);
                let is_whole = index.request_facts().body_length == BodyLength::NONE;
                let seen = (head.method != Method::Connect)
                    .then(|| (format!("{} {}", head.method, target(&head.target, head.method)), Vec::new()));
                current = seen;
                if is_whole {
                    sight.complete.extend(current.take());
                    // Neither a tunnel nor anything else that was asked for is had from this upstream.
                    connection.decline_tunnel();
                }
            }
            Some(ServerEvent::Content(content)) => {
                if let Some((_, all)) = &mut current {
                    all.extend(content);
                }
            }
            Some(ServerEvent::EndOfContent) => {
                sight.complete.extend(current.take());
                connection.decline_tunnel();
            }
            None => return sight,
        }
    }
}

fn target(target: &RequestTarget<'_>, method: Method<'_>) -> String {
    target_behind(method.as_str(), &target.to_string())
}

/// A request target as it is asked for behind the gateway.
pub fn target_behind(method: &str, target: &str) -> String {
    let Some((_, rest)) = target.split_once("://") else { return target.to_owned() };
    match rest.find(['/', '?']) {
        None if method == "OPTIONS" => "*".to_owned(),
        None => "/".to_owned(),
        Some(at) if rest[at..].starts_with('?') => format!("/{}", &rest[at..]),
        Some(at) => rest[at..].to_owned(),
    }
}
