//! MCP messages: an accepted message can be written and parsed again with the same result, and so can an
//! error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{
    Message, Notification, Request, Response, parse, split_batch, write_error, write_notification,
    write_request, write_result,
};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{
    CallToolRequestParams, CallToolResult, CompleteRequestParams, CreateMessageResult, ElicitRequestParams,
    GetTaskResult, InitializeRequestParams, ProgressNotificationParams, SubscriptionsListenRequestParams,
};
use thruway_mcp::{dual_era, modern};

fuzz_target!(|bytes: &[u8]| {
    let batch = split_batch(bytes).and_then(Result::ok).unwrap_or_default();
    for message in batch {
        check(message.get().as_bytes());
    }
    check(bytes);
});

fn check(bytes: &[u8]) {
    let mut output = Vec::new();
    match parse(bytes) {
        Ok(Message::Request(request)) => request_is_kept(&request),
        Ok(Message::Notification(notification)) => notification_is_kept(&notification),
        Ok(Message::Response(response)) => response_is_kept(response),
        Err(invalid) => {
            write_error(&mut output, invalid.id.as_ref(), &invalid.error);
            let Ok(Message::Response(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
            assert_eq!((read.id, read.outcome.err()), (invalid.id, Some(invalid.error)));
        }
    }
}

fn request_is_kept(request: &Request<'_>) {
    look_into(&request.method, request.params);
    let Some(params) = request.params else { return };
    let mut output = Vec::new();
    write_request(&mut output, &request.id, &request.method, &params);
    let Ok(Message::Request(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
    assert_eq!((&read.id, &read.method), (&request.id, &request.method));
    assert_eq!(read.params.map(RawValue::get), Some(params.get()));
}

fn notification_is_kept(notification: &Notification<'_>) {
    look_into(&notification.method, notification.params);
    let Some(params) = notification.params else { return };
    let mut output = Vec::new();
    write_notification(&mut output, &notification.method, &params);
    let Ok(Message::Notification(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
    assert_eq!(read.method, notification.method);
    assert_eq!(read.params.map(RawValue::get), Some(params.get()));
}

fn response_is_kept(response: Response<'_>) {
    let mut output = Vec::new();
    match (&response.id, response.outcome) {
        (Some(id), Ok(result)) => {
            can_be_written_again::<CallToolResult>(result);
            can_be_written_again::<CreateMessageResult>(result);
            can_be_written_again::<GetTaskResult>(result);
            write_result(&mut output, id, |output| {
                output.extend_from_slice(result.get().as_bytes());
                Ok(())
            });
            let Ok(Message::Response(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
            assert_eq!(read.id, response.id);
            assert_eq!(read.outcome.map(RawValue::get), Ok(result.get()));
        }
        (id, Err(error)) => {
            write_error(&mut output, id.as_ref(), &error);
            let Ok(Message::Response(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
            let read_error = read.outcome.expect_err("an error");
            assert_eq!(
                (read.id, read_error.code, read_error.message),
                (response.id, error.code, error.message)
            );
        }
        (None, Ok(result)) => panic!("a result without a request: {result}"),
    }
}

/// Parses parameters as every type that the protocol knows.
fn look_into(method: &str, raw: Option<&RawValue>) {
    if let Ok(params) = Params::parse(raw) {
        let _ = dual_era::era_of(method, &params, None);
        let _ = modern::check_meta(&params.meta, None);
        let _ = modern::client_capabilities(&params.meta);
    } else if let Err(error) = params::parse::<CallToolRequestParams>(raw) {
        assert!(error.message.len() < 400, "{error}");
    }
    let Some(raw) = raw else { return };
    can_be_written_again::<CallToolRequestParams>(raw);
    can_be_written_again::<CompleteRequestParams>(raw);
    can_be_written_again::<ElicitRequestParams>(raw);
    can_be_written_again::<InitializeRequestParams>(raw);
    can_be_written_again::<ProgressNotificationParams>(raw);
    can_be_written_again::<SubscriptionsListenRequestParams>(raw);
}

/// A value that parses as a `T` can be written on one line, and that line can be parsed as a `T`.
fn can_be_written_again<T: DeserializeOwned + Serialize>(raw: &RawValue) {
    let Ok(value) = serde_json::from_str::<T>(raw.get()) else { return };
    let written = serde_json::to_string(&value).expect("a parsed value can be written");
    assert!(!written.contains(['\n', '\r']), "{written}");
    assert!(serde_json::from_str::<T>(&written).is_ok(), "{written}");
}
