extern crate std;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use std::string::ToString;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::*;
use crate::params::Params;
use crate::schema::{RequestId, RequestParams};

fn request(text: &str) -> Request<'_> {
    match parse(text.as_bytes()) {
        Ok(Message::Request(request)) => request,
        other => panic!("{text}: {other:?}"),
    }
}

fn response(text: &str) -> Response<'_> {
    match parse(text.as_bytes()) {
        Ok(Message::Response(response)) => response,
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the error code and the id of the error response to `bytes`.
fn refused(bytes: &[u8]) -> (ErrorCode, Option<RequestId>) {
    match parse(bytes) {
        Err(invalid) => (invalid.error.code, invalid.id.map(|id| id.to_owned())),
        Ok(message) => panic!("{}: {message:?}", bytes.escape_ascii()),
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut output = Vec::new();
    write(&mut output);
    String::from_utf8(output).unwrap()
}

#[test]
fn message_kind_follows_from_its_members() {
    let request = request(r#" {"params": {"a": [1]}, "method": "x/y", "id": 7, "jsonrpc": "2.0"} "#);
    assert_eq!((request.id, &*request.method), (Id::Integer(7), "x/y"));
    assert_eq!(request.params.unwrap().get(), r#"{"a": [1]}"#, "the original text should be kept");
    let Ok(Message::Notification(notification)) = parse(br#"{"jsonrpc":"2.0","method":"n"}"#) else {
        panic!("not a notification")
    };
    assert!(notification.method == "n" && notification.params.is_none());
    let result = response(r#"{"jsonrpc":"2.0","id":"a","result":null}"#);
    assert_eq!(result.id, Some(Id::String("a".into())));
    assert_eq!(result.outcome.unwrap().get(), "null");
    let error = response(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no","data":[],"more":1}}"#);
    assert_eq!(error.outcome.unwrap_err(), Error::new(ErrorCode(-5), "no").with_data(json!([])));
}

#[test]
fn error_response_may_have_no_id() {
    for text in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#,
    ] {
        assert_eq!(response(text).id, None);
    }
}

#[test]
fn unknown_message_members_are_ignored() {
    let request = request(r#"{"jsonrpc":"2.0","x":{"id":1},"id":2,"method":"m","x":[null,1e9],"":0}"#);
    assert_eq!(request.id, Id::Integer(2));
}

#[test]
fn method_and_id_without_escapes_are_borrowed() {
    let plain = request(r#"{"jsonrpc":"2.0","id":"a","method":"m"}"#);
    assert!(matches!(plain.method, Cow::Borrowed("m")));
    assert!(matches!(plain.id, Id::String(Cow::Borrowed("a"))));
    let escaped = request(
        r#"{"\u006asonrpc":"2.\u0030","\u0069d":"\u0061\"\ud83d\ude00","m\u0065thod":"tools\/call"}"#,
    );
    assert_eq!(escaped.method, "tools/call");
    assert_eq!(escaped.id, Id::String("a\"😀".into()));
}

#[test]
fn invalid_json_or_utf8_is_a_parse_error_without_id() {
    let cases: &[&[u8]] = &[
        b"",
        b" ",
        b"{",
        b"nul",
        br#"{"jsonrpc":"2.0","id":1,"method":"m""#,
        br#"{"jsonrpc":"2.0","id":1,"method":"m"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"m",}"#,
        br#"{"jsonrpc":"2.0","id":01,"method":"m"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"m"} {}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\xc3\x28\"}}",
        br#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        // An invalid envelope may also contain invalid JSON later.
        br#"{"id":1,"id":1"#,
        br#"[{"jsonrpc":"2.0""#,
        br#"{"method":5,"id"}"#,
    ];
    for bytes in cases {
        assert_eq!(refused(bytes), (ErrorCode::PARSE_ERROR, None), "{}", bytes.escape_ascii());
    }
}

// The contents of ignored members were not checked: bytes that are not UTF-8 were accepted there.
#[test]
fn invalid_utf8_in_ignored_member_is_rejected() {
    let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"other\":\"\xff\"}";
    assert_eq!(refused(bytes).0, ErrorCode::PARSE_ERROR);
}

#[test]
fn json_without_message_structure_is_an_invalid_request() {
    for text in
        ["1", "null", "\"{}\"", "[]", "[1]", r#"[5,"2.0"]"#, "{}", r#"{"a":1}"#, r#"{"jsonrpc":"2.0"}"#]
    {
        assert_eq!(refused(text.as_bytes()), (ErrorCode::INVALID_REQUEST, None), "{text}");
    }
}

// A member with a wrong type, or a duplicate, made the id unreadable although it was valid.
#[test]
fn error_for_invalid_message_contains_id_if_readable() {
    for text in [
        r#"{"id":3,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":3,"method":"m"}"#,
        r#"{"jsonrpc":"2.00","id":3,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":3,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":3,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"m","m\u0065thod":"n"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"m","params":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"m","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"m","params":null}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"m","params":"{}"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"m","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":1}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":1.5,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":[1,"an array of what the members are"]}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":3}"#,
    ] {
        let expected = (ErrorCode::INVALID_REQUEST, Some(RequestId::Integer(3)));
        assert_eq!(refused(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn message_id_is_a_string_or_64_bit_integer() {
    for (id, expected) in [
        ("0", RequestId::Integer(0)),
        ("-7", RequestId::Integer(-7)),
        ("9223372036854775807", RequestId::Integer(i64::MAX)),
        ("-9223372036854775808", RequestId::Integer(i64::MIN)),
        (r#""""#, RequestId::String(String::new())),
        (r#""7""#, RequestId::String("7".into())),
        (r#""\u0000\n""#, RequestId::String("\0\n".into())),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        assert_eq!(request(&text).id.to_owned(), expected, "{id}");
        assert_eq!(Id::from(&expected), request(&text).id);
    }
    for id in [
        "null",
        "true",
        "-0",
        "1.5",
        "1.0",
        "1e3",
        "9223372036854775808",
        "-9223372036854775809",
        "1e999",
        "[]",
        "[1]",
        "{}",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        assert_eq!(refused(text.as_bytes()), (ErrorCode::INVALID_REQUEST, None), "{id}");
    }
    let twice = br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#;
    assert_eq!(refused(twice), (ErrorCode::INVALID_REQUEST, None), "a duplicate id is ambiguous");
    let result = br#"{"jsonrpc":"2.0","id":null,"result":{}}"#;
    assert_eq!(refused(result), (ErrorCode::INVALID_REQUEST, None), "only an error may have no id");
}

#[test]
fn deeply_nested_json_does_not_overflow_the_stack() {
    const DEPTH: usize = 10_000;
    let (open, close) = ("[".repeat(DEPTH), "]".repeat(DEPTH));
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","other":{open}{close},"params":{{"a":{open}{close}}}}}"#
    );
    assert_eq!(request(&nested).params.unwrap().get().len(), 2 * DEPTH + 6);
    let objects = format!("{}1{}", r#"{"id":"#.repeat(DEPTH), "}".repeat(DEPTH));
    assert_eq!(refused(objects.as_bytes()), (ErrorCode::INVALID_REQUEST, None));
    assert_eq!(refused(format!("{open}{close}").as_bytes()).0, ErrorCode::INVALID_REQUEST);
    assert_eq!(refused(open.as_bytes()).0, ErrorCode::PARSE_ERROR);
    let error =
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"","data":{open}{close}}}}}"#);
    assert_eq!(
        refused(error.as_bytes()).0,
        ErrorCode::INVALID_REQUEST,
        "the depth of `data` should be limited"
    );
}

#[test]
fn batch_is_split_into_its_messages() {
    let messages = split_batch(b" \n[1, {\"a\":[2]} ,[3]]").unwrap().unwrap();
    let messages: Vec<_> = messages.iter().map(|message| message.get()).collect();
    assert_eq!(messages, ["1", r#"{"a":[2]}"#, "[3]"]);
    assert_eq!(
        refused(messages[2].as_bytes()).0,
        ErrorCode::INVALID_REQUEST,
        "a batch cannot contain a batch"
    );
    assert!(split_batch(b"{}").is_none() && split_batch(b"").is_none() && split_batch(b"\"[\"").is_none());
}

#[test]
fn batch_has_1_to_100_messages() {
    let code = |text: &str| {
        split_batch(text.as_bytes()).unwrap().map(|messages| messages.len()).map_err(|error| error.code)
    };
    let batch = |count| format!("[{}]", vec!["{}"; count].join(","));
    assert_eq!(code("[]"), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(code(&batch(1)), Ok(1));
    assert_eq!(code(&batch(BATCH_MESSAGES_MAX)), Ok(100));
    assert_eq!(code(&batch(BATCH_MESSAGES_MAX + 1)), Err(ErrorCode::INVALID_REQUEST));
    for broken in ["[", "[1", "[1,]", "[1]]", "[1 2]", "[nul]"] {
        assert_eq!(code(broken), Err(ErrorCode::PARSE_ERROR), "{broken}");
    }
    assert!(split_batch(b"[\"\xff\"]").unwrap().is_err(), "not UTF-8");
    let nested = format!("[{}{}]", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(code(&nested), Ok(1));
}

#[test]
fn written_message_is_one_line_and_parses_back() {
    let id = Id::String("a\"\n\u{7f}é".into());
    let params = json!({"text": "a\nb"});
    let text = written(|output| write_request(output, &id, "m\"", &params));
    assert!(!text.contains('\n'), "{text}");
    let read = request(&text);
    assert_eq!((read.id, &*read.method), (id.clone(), "m\""));
    assert_eq!(serde_json::from_str::<Value>(read.params.unwrap().get()).unwrap(), params);
    let text = written(|output| write_notification(output, "n", &json!({})));
    assert_eq!(text, r#"{"jsonrpc":"2.0","method":"n","params":{}}"#);
    let error = Error::invalid_params("no \"such\"\nthing").with_data(json!({"a": null}));
    let text = written(|output| write_error(output, Some(&id), &error));
    assert_eq!(response(&text).outcome.unwrap_err(), error);
    assert_eq!(response(&text).id, Some(id));
    let text = written(|output| write_error(output, None, &Error::internal("x")));
    assert_eq!(text, r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"x"}}"#);
}

#[test]
fn failed_result_is_replaced_by_an_error_response() {
    let id = Id::Integer(i64::MIN);
    let text = written(|output| {
        output.extend_from_slice(b"before ");
        write_result(output, &id, |output| {
            output.extend_from_slice(b"{}");
            Ok(())
        });
    });
    assert_eq!(text, r#"before {"jsonrpc":"2.0","id":-9223372036854775808,"result":{}}"#);
    let text = written(|output| {
        output.extend_from_slice(b"before ");
        write_result(output, &id, |output| {
            output.extend_from_slice(b"{\"half");
            Err(Error::internal("broken"))
        });
    });
    let expected =
        r#"before {"jsonrpc":"2.0","id":-9223372036854775808,"error":{"code":-32603,"message":"broken"}}"#;
    assert_eq!(text, expected);
}

#[test]
fn unserializable_params_become_null() {
    let by_pairs = alloc::collections::BTreeMap::from([((1, 2), 3)]);
    let text = written(|output| write_notification(output, "n", &by_pairs));
    assert_eq!(text, r#"{"jsonrpc":"2.0","method":"n","params":null}"#);
}

#[test]
fn error_display_contains_message_and_code() {
    assert_eq!(
        Error::new(ErrorCode::METHOD_NOT_FOUND, "no such method").to_string(),
        "no such method (-32601)"
    );
}

/// The server kept four copies of an id of 4 MiB while its request was in progress.
#[test]
fn overlong_message_id_is_rejected() {
    let message =
        |bytes: usize| format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(bytes));
    assert!(matches!(parse(message(ID_BYTES_MAX).as_bytes()), Ok(Message::Request(_))));
    let long = message(ID_BYTES_MAX + 1);
    let invalid = parse(long.as_bytes()).map(drop).unwrap_err();
    assert_eq!((invalid.id, invalid.error.code), (None, ErrorCode::INVALID_REQUEST));
}

#[test]
fn read_request_accepts_only_plain_requests_of_its_method() {
    let read = |message: &str| {
        let (id, params) = read_request::<Params<'_>>(message.as_bytes(), "m")?;
        Some((id.to_owned(), params.name?.into_owned()))
    };
    let expected = Some((RequestId::Integer(1), String::from("n")));
    assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"n"}}"#), expected);
    assert_eq!(
        read(r#" {"x":[],"params":{"name":"n"},"m\u0065thod":"m","id":1,"jsonrpc":"2.0"} "#),
        expected
    );
    for message in [
        r#"{"jsonrpc":"2.0","id":1,"method":"other","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"m","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"m","params":{}}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"m","params":{}}"#,
        r#"{"id":1,"method":"m","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[{}]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"m","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}}"#,
        r#"["2.0",1,"m",{}]"#,
        "",
    ] {
        assert_eq!(read(message), None, "{message}");
    }
    assert!(
        read_request::<IgnoredAny>(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"\xff\":1}}",
            "m"
        )
        .is_none()
    );
}

#[test]
fn read_result_accepts_only_results_with_the_expected_id() {
    let read = |message: &str| {
        read_result::<RequestParams>(message.as_bytes(), &Id::Integer(7)).map(|params| params.meta.is_some())
    };
    assert_eq!(read(r#"{"jsonrpc":"2.0","id":7,"result":{"_meta":{}}}"#), Some(true));
    assert_eq!(read(r#"{"result":{},"x":{},"id":7,"jsonrpc":"2.0"}"#), Some(false));
    for message in [
        r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":[{}]}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"_meta":1}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}"#,
        r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
    ] {
        assert_eq!(read(message), None, "{message}");
    }
}
