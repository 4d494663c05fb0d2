//! What is said to a client before its answer.

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Notification, write_notification};
use thruway_mcp::members;
use thruway_mcp::params;
use thruway_mcp::schema::{LoggingLevel, ProgressNotificationParams, RequestId, methods};
use tokio::sync::mpsc;

use crate::dispatch::Said;

/// How many messages of one request wait for its client; more are dropped.
pub(super) const MESSAGES_MAX: usize = 64;

/// Forwards a report of progress, under the token that the client has chosen.
pub(super) fn report(outbox: &mpsc::Sender<Said>, token: &RequestId, params: ProgressNotificationParams) {
    let params = ProgressNotificationParams { progress_token: token.clone(), ..params };
    let mut message = Vec::new();
    write_notification(&mut message, methods::NOTIFICATIONS_PROGRESS, &params);
    // Who does not read is not told of everything.
    let _ = outbox.try_send(Said::Message(message));
}

/// Forwards a log message, if the client wants such of its level.
pub(super) fn log(
    outbox: &mpsc::Sender<Said>,
    wanted: Option<LoggingLevel>,
    notification: &Notification<'_>,
) {
    #[derive(serde::Deserialize)]
    struct Leveled {
        level: LoggingLevel,
    }
    let Ok(Leveled { level }) = params::parse(notification.params) else { return };
    if wanted.is_none_or(|wanted| level < wanted) {
        return;
    }
    let Some(params) = notification.params else { return };
    let mut message = Vec::with_capacity(params.get().len() + 64);
    write_notification(&mut message, methods::NOTIFICATIONS_MESSAGE, &one_line(params));
    let _ = outbox.try_send(Said::Message(message));
}

/// The same on one line.
pub(super) fn one_line(json: &RawValue) -> Box<RawValue> {
    members::one_line(json.to_owned())
}
