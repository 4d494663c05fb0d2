//! What is said to a client before its answer.

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Notification, write_notification};
use thruway_mcp::members;
use thruway_mcp::params;
use thruway_mcp::schema::{LoggingLevel, ProgressNotificationParams, RequestId, methods};

use crate::client::{Outbox, Unsent};

/// Forwards a report of progress, under the token that the client has chosen. Returns it if the client has to
/// read first.
pub(super) fn report(
    outbox: &Outbox,
    token: &RequestId,
    params: ProgressNotificationParams,
) -> Option<Unsent> {
    let params = ProgressNotificationParams { progress_token: token.clone(), ..params };
    let mut message = Vec::new();
    write_notification(&mut message, methods::NOTIFICATIONS_PROGRESS, &params);
    outbox.send(message)
}

/// Forwards a log message if the client wants messages of its level. Returns it if the client has to read
/// first.
pub(super) fn log(
    outbox: &Outbox,
    wanted: Option<LoggingLevel>,
    notification: &Notification<'_>,
) -> Option<Unsent> {
    outbox.send(log_message(wanted, notification)?)
}

/// Writes a log message for a client; `None` if the client does not want messages of its level.
pub(super) fn log_message(wanted: Option<LoggingLevel>, notification: &Notification<'_>) -> Option<Vec<u8>> {
    #[derive(serde::Deserialize)]
    struct Leveled {
        level: LoggingLevel,
    }
    let Leveled { level } = params::parse(notification.params).ok()?;
    if wanted.is_none_or(|wanted| level < wanted) {
        return None;
    }
    let params = notification.params?;
    let mut message = Vec::with_capacity(params.get().len() + 64);
    write_notification(&mut message, methods::NOTIFICATIONS_MESSAGE, &one_line(params));
    Some(message)
}

/// The same on one line.
pub(super) fn one_line(json: &RawValue) -> Box<RawValue> {
    members::one_line(json.to_owned())
}
