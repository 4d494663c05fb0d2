//! Serves `/history` and `/events`: the samples of the last 24 hours, and the updates for open pages.

use std::sync::Arc;
use std::time::Duration;

use thruway_net::Clock;
use thruway_server::{
    BoxError, Event, EventSender, FieldLinesBuf, OwnedRequest, Request, Response, StatusCode,
};

use super::access::Permission;
use super::dashboard::{Dashboard, Subscriber};
use super::history::History;

/// Responds with the samples of the last `seconds` seconds, in steps of `step` seconds.
pub(super) fn history(dashboard: &Dashboard, request: &Request<'_>) -> Response {
    match history_query(request.query_string().unwrap_or_default()) {
        Some((seconds, step)) => {
            let content = dashboard.unread().hold(|| {
                // The conversion to JSON cannot fail, because all members are numbers or lists.
                serde_json::to_vec(&dashboard.columns(seconds, step, &Clock::system())).unwrap_or_default()
            });
            match content {
                Some(content) => Response::ok(JSON, content).with_field("Cache-Control", "no-store"),
                None => Response::text("too many clients read the history slowly\n")
                    .with_status(StatusCode::SERVICE_UNAVAILABLE)
                    .with_field("Retry-After", "5"),
            }
        }
        None => Response::text(HISTORY_HELP).with_status(StatusCode::BAD_REQUEST),
    }
}

/// Parses the query of `/history`: `seconds` and `step`. Returns `None` if the query has other keys or other
/// values.
fn history_query(query: &str) -> Option<(u64, u64)> {
    let (mut seconds, mut step) = (HISTORY_SECONDS, 1);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=')?;
        let value = value.parse().ok().filter(|value| (1..=History::SECONDS).contains(value))?;
        match key {
            "seconds" => seconds = value,
            "step" => step = value,
            _ => return None,
        }
    }
    Some((seconds, step))
}

/// Responds with a stream of updates.
pub(super) async fn events(dashboard: Arc<Dashboard>, request: OwnedRequest) -> Response {
    let Some(permission) = request.extensions().get::<Permission>().cloned() else {
        return Response::new(StatusCode::FORBIDDEN);
    };
    match dashboard.subscribe() {
        Some(subscriber) => Response::events(KEEP_ALIVE, |sender| send(subscriber, permission, sender)),
        None => Response::text("too many dashboards are open\n")
            .with_status(StatusCode::SERVICE_UNAVAILABLE)
            .with_field("Retry-After", "5"),
    }
}

/// Sends the role of the user, the current state, and then the updates. If the client does not read, this future
/// waits, and skips the updates in the meantime.
///
/// The stream ends when a reload changes the users. The client then connects again with its credentials, and the
/// listener checks them.
async fn send(
    mut subscriber: Subscriber,
    permission: Permission,
    mut sender: EventSender,
) -> Result<(), BoxError> {
    let clock = Clock::system();
    let access = format!("{{\"role\":\"{}\"}}", permission.role.as_str());
    sender.send(Event::data(&access).with_type("access")).await;
    let status = subscriber.dashboard.status();
    sender.send(Event::data(&status).with_type("status").with_retry(RETRY)).await;
    loop {
        if let Some(samples) = subscriber.new_samples(HISTORY_SECONDS, &clock) {
            let samples = serde_json::to_string(&samples)?;
            sender.send(Event::data(&samples).with_type("history")).await;
        }
        if subscriber.tick().await.is_err() || !permission.is_current(subscriber.dashboard.running_state()) {
            return Ok(());
        }
        if let Some(status) = subscriber.new_status() {
            sender.send(Event::data(&status).with_type("status")).await;
        }
    }
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

/// Part of the history that a new page gets: 15 minutes.
const HISTORY_SECONDS: u64 = 15 * 60;

/// Interval of keep-alive comments. They detect pages that were closed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Time after which a page connects again.
const RETRY: Duration = Duration::from_secs(2);

const HISTORY_HELP: &str = "the query of `/history` may have `seconds` and `step`, both from 1 to 86400, such as `?seconds=3600&step=60`\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_of_history_is_checked() {
        assert_eq!(history_query(""), Some((900, 1)));
        assert_eq!(history_query("seconds=3600&step=60"), Some((3_600, 60)));
        for wrong in ["seconds", "seconds=", "seconds=0", "step=-1", "step=86401", "other=1", "seconds=1e3"] {
            assert_eq!(history_query(wrong), None, "{wrong}");
        }
    }
}
