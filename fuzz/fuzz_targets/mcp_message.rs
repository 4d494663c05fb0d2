//! MCP messages: an accepted message, or the error response for a rejected one, can be serialized and parsed
//! again with the same result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::federated::{OutcomeScan, ScannedCall};
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
    check_scanned_call(bytes);
    check_outcome(bytes);
});

/// The outcome of a response must not depend on the boundaries of its parts.
fn check_outcome(bytes: &[u8]) {
    for new in [OutcomeScan::of_json, OutcomeScan::of_events] {
        let (mut whole, mut parts) = (new(), new());
        whole.read(bytes);
        let (before, after) = bytes.split_at(bytes.len() / 2);
        parts.read(before);
        parts.read(after);
        assert_eq!(whole.outcome(), parts.outcome());
    }
}

/// The gateway replaces the name in a scanned call. Another parser must find exactly this change.
fn check_scanned_call(bytes: &[u8]) {
    let Some(call) = ScannedCall::scan(bytes) else { return };
    let mut expected: Value = serde_json::from_slice(bytes).expect("a scanned call is JSON");
    assert_eq!(
        (&expected["params"]["name"], &expected["method"]),
        (&call.name().into(), &"tools/call".into())
    );
    expected["params"]["name"] = "other".into();
    let replaced = call.with_name("other").expect("the name needs no escape sequence");
    assert_eq!(serde_json::from_slice::<Value>(&replaced).expect("the message is still JSON"), expected);
    if let Some(replaced) = call.with_name_and_state("other", "a\"b") {
        expected["params"]["requestState"] = "a\"b".into();
        assert_eq!(serde_json::from_slice::<Value>(&replaced).expect("the message is still JSON"), expected);
    }
}

fn check(bytes: &[u8]) {
    let mut output = Vec::new();
    match parse(bytes) {
        Ok(Message::Request(request)) => check_request(&request),
        Ok(Message::Notification(notification)) => check_notification(&notification),
        Ok(Message::Response(response)) => check_response(response),
        Err(invalid) => {
            write_error(&mut output, invalid.id.as_ref(), &invalid.error);
            let Ok(Message::Response(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
            assert_eq!((read.id, read.outcome.err()), (invalid.id, Some(invalid.error)));
        }
    }
}

fn check_request(request: &Request<'_>) {
    check_params(&request.method, request.params);
    let Some(params) = request.params else { return };
    let mut output = Vec::new();
    write_request(&mut output, &request.id, &request.method, &params);
    let Ok(Message::Request(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
    assert_eq!((&read.id, &read.method), (&request.id, &request.method));
    assert_eq!(read.params.map(RawValue::get), Some(params.get()));
}

fn check_notification(notification: &Notification<'_>) {
    check_params(&notification.method, notification.params);
    let Some(params) = notification.params else { return };
    let mut output = Vec::new();
    write_notification(&mut output, &notification.method, &params);
    let Ok(Message::Notification(read)) = parse(&output) else { panic!("{}", output.escape_ascii()) };
    assert_eq!(read.method, notification.method);
    assert_eq!(read.params.map(RawValue::get), Some(params.get()));
}

fn check_response(response: Response<'_>) {
    let mut output = Vec::new();
    match (&response.id, response.outcome) {
        (Some(id), Ok(result)) => {
            check_round_trip::<CallToolResult>(result);
            check_round_trip::<CreateMessageResult>(result);
            check_round_trip::<GetTaskResult>(result);
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
            let read_error = read.outcome.expect_err("the written response is an error");
            assert_eq!(
                (read.id, read_error.code, read_error.message),
                (response.id, error.code, error.message)
            );
        }
        (None, Ok(result)) => panic!("the parser accepted a result without an id: {result}"),
    }
}

/// Parses parameters as several types, and checks each parsed value.
fn check_params(method: &str, raw: Option<&RawValue>) {
    if let Ok(params) = Params::parse(raw) {
        let _ = dual_era::era_of(method, &params, None);
        let _ = modern::check_meta(&params.meta, None);
        let _ = modern::client_capabilities(&params.meta);
    } else if let Err(error) = params::parse::<CallToolRequestParams>(raw) {
        assert!(error.message.len() < 400, "{error}");
    }
    let Some(raw) = raw else { return };
    check_round_trip::<CallToolRequestParams>(raw);
    check_round_trip::<CompleteRequestParams>(raw);
    check_round_trip::<ElicitRequestParams>(raw);
    check_round_trip::<InitializeRequestParams>(raw);
    check_round_trip::<ProgressNotificationParams>(raw);
    check_round_trip::<SubscriptionsListenRequestParams>(raw);
}

/// If `raw` parses as a `T`, checks that the value serializes to one line, and that the line parses as a `T`.
fn check_round_trip<T: DeserializeOwned + Serialize>(raw: &RawValue) {
    let Ok(value) = serde_json::from_str::<T>(raw.get()) else { return };
    let written = serde_json::to_string(&value).expect("serializing a parsed value should succeed");
    assert!(!written.contains(['\n', '\r']), "{written}");
    assert!(serde_json::from_str::<T>(&written).is_ok(), "{written}");
}
