extern crate std;

use alloc::string::String;
use alloc::vec::Vec;
use std::format;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use thruway_message::{FieldLineSpan, FieldLines};

use super::*;
use crate::json_rpc::{Error, ErrorCode};
use crate::param_headers::{self, ParamHeader};
use crate::params::Params;
use crate::schema::{CacheHint, CacheScope, ClientCapabilities, Implementation, JsonObject};
use crate::{Revision, header_value};

fn raw(value: &Value) -> std::boxed::Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// Runs `check` on fields and parameters.
fn with<R>(
    lines: &[(&str, &str)],
    params: &Value,
    check: impl FnOnce(FieldLines<'_>, &Params<'_>) -> R,
) -> R {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    let mut put = |text: &str| {
        bytes.extend_from_slice(text.as_bytes());
        u32::try_from(bytes.len()).unwrap()
    };
    for (name, value) in lines {
        let (name_start, name_end) = (put(""), put(name));
        let (value_start, value_end) = (put(": "), put(value));
        spans.push(FieldLineSpan { name_start, name_end, value_start, value_end });
        put("\r\n");
    }
    let params = raw(params);
    check(FieldLines::from_parsed(&bytes, &spans), &Params::parse(Some(&params)).unwrap())
}

fn meta(members: &Value) -> Result<Revision, Error> {
    with(&[], &json!({"_meta": members}), |_, params| check_meta(&params.meta, None))
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[test]
fn meta_requires_protocol_version_and_client_capabilities() {
    assert_eq!(meta(&json!({VERSION: "2026-07-28", CAPABILITIES: {}})), Ok(Revision::R20260728));
    for (members, missing) in [
        (json!({}), VERSION),
        (json!({CAPABILITIES: {}}), VERSION),
        (json!({VERSION: "2026-07-28"}), CAPABILITIES),
    ] {
        let error = meta(&members).unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
        assert!(error.message.contains(missing), "{error}");
    }
    let error = with(&[], &json!({}), |_, params| check_meta(&params.meta, None)).unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
}

#[test]
fn unsupported_revision_error_lists_supported_revisions() {
    for requested in ["2025-11-25", "2026-07-29", "", "latest"] {
        let error = meta(&json!({VERSION: requested, CAPABILITIES: {}})).unwrap_err();
        assert_eq!(error.code, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
        let data = error.data.unwrap();
        assert_eq!(data["requested"], requested);
        assert!(data["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    }
}

#[test]
fn client_capabilities_must_be_valid_and_default_to_none() {
    let capabilities = |value: Value| {
        with(&[], &json!({"_meta": {CAPABILITIES: value}}), |_, params| client_capabilities(&params.meta))
    };
    assert!(capabilities(json!({"elicitation": {}})).unwrap().has_form_elicitation());
    assert_eq!(capabilities(json!({"sampling": 1})).unwrap_err().code, ErrorCode::INVALID_PARAMS);
    let none = with(&[], &json!({}), |_, params| client_capabilities(&params.meta));
    assert_eq!(none, Ok(ClientCapabilities::default()));
    let error = missing_capability(&ClientCapabilities::default().with_roots());
    assert_eq!(error.code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY);
    assert_eq!(error.data, Some(json!({"requiredCapabilities": {"roots": {}}})));
}

fn headers(lines: &[(&str, &str)], method: &str, params: &Value) -> Result<(), Error> {
    let result = with(lines, params, |fields, params| {
        if params.meta.protocol_version.is_some() {
            check_meta(&params.meta, Some(fields))?;
        }
        check_headers(fields, method, params)
    });
    if let Err(error) = &result {
        assert_eq!(error.code, ErrorCode::HEADER_MISMATCH);
    }
    result
}

/// Methods with a mirrored name, and the member that contains it.
const MIRRORED: [(&str, &str); 6] = [
    ("tools/call", "name"),
    ("prompts/get", "name"),
    ("resources/read", "uri"),
    ("tasks/get", "taskId"),
    ("tasks/update", "taskId"),
    ("tasks/cancel", "taskId"),
];

#[test]
fn headers_must_match_the_body() {
    for (method, member) in MIRRORED {
        let params = json!({"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}, member: "one"});
        let lines = [("mcp-PROTOCOL-version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", "one")];
        assert_eq!(headers(&lines, method, &params), Ok(()));
        for missing in 0..lines.len() {
            let mut fewer = lines.to_vec();
            fewer.remove(missing);
            let reason = headers(&fewer, method, &params).unwrap_err().message;
            assert!(reason.ends_with("is missing"), "{reason}");
        }
        for twice in 0..lines.len() {
            let mut more = lines.to_vec();
            more.push(lines[twice]);
            let reason = headers(&more, method, &params).unwrap_err().message;
            assert!(reason.ends_with("is present twice"), "{reason}");
        }
        for (other, value) in ["2026-07-29", "Tools/call", "One"].into_iter().enumerate() {
            let mut different = lines;
            different[other].1 = value;
            let reason = headers(&different, method, &params).unwrap_err().message;
            assert!(reason.ends_with("does not match the body"), "{reason}");
        }
    }
}

#[test]
fn methods_without_name_need_no_name_header() {
    let params = json!({"name": "one", "uri": "two", "taskId": "three"});
    for method in ["tools/list", "server/discover", "x"] {
        assert_eq!(headers(&[("Mcp-Method", method)], method, &params), Ok(()));
    }
    assert_eq!(
        headers(&[("Mcp-Method", "tools/call")], "tools/call", &json!({})),
        Ok(()),
        "the missing name is rejected later"
    );
}

#[test]
fn encoded_name_header_is_decoded() {
    let check = |value: &str, name: &str| {
        let lines = [("Mcp-Method", "tools/call"), ("Mcp-Name", value)];
        headers(&lines, "tools/call", &json!({"name": name}))
    };
    for name in ["echo", "Grüße", " padded", "=?base64?eA==?=", "a\nb", ""] {
        assert_eq!(check(&header_value::encode(name), name), Ok(()), "{name:?}");
    }
    assert_eq!(check("=?base64?ZWNobw==?=", "echo"), Ok(()), "a plain name can be encoded too");
    for malformed in ["=?base64?ZWNobw?=", "=?base64?/w==?=", "gr\u{fc}n"] {
        let reason = check(malformed, "echo").unwrap_err().message;
        assert!(reason.ends_with("is malformed"), "{reason}");
    }
    assert!(check("=?base64?ZWNobw==?=", "=?base64?ZWNobw==?=").is_err(), "the header decodes to `echo`");
}

// An intermediary that decides by the method compares the text without decoding it.
#[test]
fn encoded_method_header_is_rejected() {
    let method = format!("=?base64?{}?=", "dG9vbHMvbGlzdA==");
    assert_eq!(header_value::decode(method.as_bytes()).as_deref(), Ok("tools/list"));
    assert!(headers(&[("Mcp-Method", &method)], "tools/list", &json!({})).is_err());
    assert!(headers(&[("Mcp-Method", "tools/l\u{fc}st")], "tools/list", &json!({})).is_err());
}

#[test]
fn param_headers_must_match_annotated_arguments() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "depth": {"type": "integer", "x-mcp-header": "Depth"},
        "would_block": {"type": "boolean", "x-mcp-header": "Dry"},
    }});
    let found: Vec<ParamHeader> = param_headers::find(schema.as_object().unwrap()).unwrap();
    let check = |lines: &[(&str, &str)], arguments: Value| -> Result<(), String> {
        with(lines, &json!({}), |fields, _| check_param_headers(fields, &found, &arguments)).map_err(
            |error| {
                assert_eq!(error.code, ErrorCode::HEADER_MISMATCH);
                error.message.into_owned()
            },
        )
    };
    let all = [("Mcp-Param-Region", "=?base64?w7w=?="), ("mcp-param-depth", "-5"), ("Mcp-Param-Dry", "true")];
    assert_eq!(check(&all, json!({"region": "ü", "depth": -5, "would_block": true, "other": 1})), Ok(()));
    assert_eq!(check(&[], json!({})), Ok(()));
    assert_eq!(check(&[], json!({"region": null})), Ok(()), "null equals an absent argument");
    assert_eq!(check(&[], json!(null)), Ok(()), "no arguments at all");
    assert_eq!(
        check(&[("Mcp-Param-Other", "1")], json!({})),
        Ok(()),
        "headers without an annotated argument are ignored"
    );
    assert_eq!(
        check(&[("Mcp-Param-Depth", "05")], json!({"depth": 5})),
        Ok(()),
        "numbers are compared by value"
    );
    for (lines, arguments, reason) in [
        (&[][..], json!({"region": "eu"}), "is missing"),
        (&[("Mcp-Param-Region", "eu")], json!({}), "does not match the argument"),
        (&[("Mcp-Param-Region", "EU")], json!({"region": "eu"}), "does not match the argument"),
        (&[("Mcp-Param-Region", "05")], json!({"region": "5"}), "does not match the argument"),
        (&[("Mcp-Param-Dry", "True")], json!({"would_block": true}), "does not match the argument"),
        (&[("Mcp-Param-Depth", "")], json!({"depth": 0}), "does not match the argument"),
        (&[("Mcp-Param-Region", "=?base64?!?=")], json!({"region": "eu"}), "is malformed"),
        (
            &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")],
            json!({"region": "eu"}),
            "is present twice",
        ),
    ] {
        let message = check(lines, arguments).unwrap_err();
        assert!(message.ends_with(reason), "{message}");
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[test]
fn written_result_has_type_cache_hints_and_server_info() {
    let writer = ResultWriter::new(&Implementation::new("n\"", "1")).unwrap();
    let info = json!({"name": "n\"", "version": "1"});
    let cache = CacheHint { ttl_ms: 7, cache_scope: CacheScope::Public };
    let written = |kind, cache, members: &Value, meta: Option<&JsonObject>| -> Value {
        let mut output = b"[".to_vec();
        writer.write(&mut output, kind, cache, members, meta).unwrap();
        serde_json::from_slice(&output[1..]).unwrap()
    };
    assert_eq!(
        written(ResultType::Complete, Some(cache), &json!({"a": 1}), Some(&object(json!({"b/c": 2})))),
        json!({
            "resultType": "complete", "ttlMs": 7, "cacheScope": "public", "a": 1,
            "_meta": {"io.modelcontextprotocol/serverInfo": info, "b/c": 2},
        })
    );
    assert_eq!(
        written(ResultType::InputRequired, None, &json!({}), Some(&Map::new())),
        json!({"resultType": "input_required", "_meta": {"io.modelcontextprotocol/serverInfo": info}})
    );
    assert_eq!(written(ResultType::Task, None, &json!({}), None)["resultType"], "task");
    let mut output = Vec::new();
    writer.write_members(&mut output, Some(CacheHint::default()), br#""tools":[]"#).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&output).unwrap(),
        json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [],
            "_meta": {"io.modelcontextprotocol/serverInfo": info},
        })
    );
}

#[test]
fn result_that_is_not_an_object_is_an_internal_error() {
    let writer = ResultWriter::new(&Implementation::new("n", "1")).unwrap();
    for members in [json!([]), json!(null), json!("{}"), json!(1)] {
        let error = writer.write(&mut Vec::new(), ResultType::Complete, None, &members, None).unwrap_err();
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
    }
}

mod client_side {
    use super::super::{
        RequestOptions, RequestWriter, ResultType, Round, UnknownResultType, append_headers, result_type,
    };
    use crate::Revision;
    use crate::json_rpc::Id;
    use crate::schema::{ClientCapabilities, Implementation, LoggingLevel};
    use alloc::vec::Vec;
    use serde_json::{Value, json};
    use thruway_message::FieldLinesBuf;

    fn written(params: &Value, options: RequestOptions<'_>, round: &Round) -> Value {
        let capabilities = ClientCapabilities::default().with_roots();
        let info = Implementation::new("c", "1");
        let writer = RequestWriter::new(Revision::LATEST, &capabilities, &info).unwrap();
        let mut output = Vec::new();
        writer.write(&mut output, &Id::Integer(7), "tools/call", params, options, round).unwrap();
        serde_json::from_slice(&output).unwrap()
    }

    #[test]
    fn written_request_has_required_meta_members() {
        let message = written(&json!({}), RequestOptions::default(), &Round::default());
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        });
        let params = json!({"_meta": meta});
        assert_eq!(message, json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}));
    }

    #[test]
    fn request_options_are_added_to_params_and_meta() {
        let own = json!({"traceparent": "00-1"});
        let options = RequestOptions {
            wants_progress: true,
            log_level: Some(LoggingLevel::Info),
            meta: own.as_object(),
        };
        let round = Round { request_state: Some("s".into()), ..Round::default() };
        let message = written(&json!({"name": "n"}), options, &round);
        let params = &message["params"];
        assert_eq!((&params["name"], &params["requestState"]), (&json!("n"), &json!("s")));
        assert_eq!(params["_meta"]["progressToken"], 7);
        assert_eq!(params["_meta"]["io.modelcontextprotocol/logLevel"], "info");
        assert_eq!(params["_meta"]["traceparent"], "00-1");
    }

    #[test]
    fn params_that_are_not_an_object_are_rejected() {
        let writer =
            RequestWriter::new(Revision::LATEST, &ClientCapabilities::default(), &Implementation::default());
        let options = RequestOptions::default();
        let refused = writer.unwrap().write(
            &mut Vec::new(),
            &Id::Integer(1),
            "ping",
            &json!([1]),
            options,
            &Round::default(),
        );
        assert!(refused.is_err());
    }

    #[test]
    fn unknown_result_type_is_rejected() {
        let parse = |text: &str| {
            let raw: &serde_json::value::RawValue = serde_json::from_str(text).unwrap();
            result_type(raw)
        };
        assert_eq!(parse("{}"), Ok(ResultType::Complete), "legacy servers send no type");
        assert_eq!(parse(r#"{"resultType":"complete"}"#), Ok(ResultType::Complete));
        assert_eq!(parse(r#"{"resultType":"input_required"}"#), Ok(ResultType::InputRequired));
        assert_eq!(parse(r#"{"resultType":"task"}"#), Ok(ResultType::Task));
        for text in [r#"{"resultType":"soon"}"#, r#"{"resultType":1}"#, "[]", "3", r#""complete""#, "null"] {
            assert_eq!(parse(text), Err(UnknownResultType), "{text}");
        }
    }

    #[test]
    fn written_headers_contain_method_and_encoded_name() {
        let written = |method, name| {
            let mut lines = FieldLinesBuf::new();
            append_headers(&mut lines, method, name).map(|()| lines.bytes().to_vec())
        };
        let lines = b"Mcp-Method: tools/call\r\nMcp-Name: =?base64?Z3LDvG4=?=\r\n";
        assert_eq!(written("tools/call", Some("grün")).unwrap(), lines);
        assert_eq!(written("tools/list", None).unwrap(), b"Mcp-Method: tools/list\r\n");
        assert!(written("tools\r\nlist", None).is_err());
    }
}
