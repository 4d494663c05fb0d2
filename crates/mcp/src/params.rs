//! The parameters of a client's request, borrowed from the message.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json_rpc::{Error, Id};
use crate::traced_call::TraceContext;

/// The parameters that several methods have in common. To read parameters that only one method has, parse
/// the JSON again with the function [`parse`].
#[derive(Default, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params<'a> {
    /// Metadata of the request (`_meta`).
    #[serde(borrow, rename = "_meta", default)]
    pub meta: RequestMeta<'a>,
    /// The name of the tool or prompt.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub name: Option<Cow<'a, str>>,
    /// The URI of the resource.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub uri: Option<Cow<'a, str>>,
    /// The id of the task.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub task_id: Option<Cow<'a, str>>,
    /// The member `task`. If it is present, the client wants the server to run the request as a task (MCP
    /// revision 2025-11-25).
    #[serde(borrow, default)]
    pub task: Option<&'a RawValue>,
    /// The arguments of the tool or prompt.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    /// The cursor of the requested page of a list.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub cursor: Option<Cow<'a, str>>,
    /// The answers to the server's elicitation, sampling and roots requests in an earlier round.
    #[serde(borrow, default)]
    pub input_responses: Option<&'a RawValue>,
    /// The state that the server returned in an earlier round.
    #[serde(borrow, default, deserialize_with = "borrowed")]
    pub request_state: Option<Cow<'a, str>>,
}

impl<'a> Params<'a> {
    /// Parses the parameters of a request. Absent parameters count as an empty object.
    ///
    /// # Errors
    /// A member has the wrong type or occurs twice.
    pub fn parse(params: Option<&'a RawValue>) -> Result<Self, Error> {
        parse(params)
    }

    /// Returns the value of the required member `member`.
    ///
    /// # Errors
    /// The value is `None`, because the request does not have the member.
    pub fn required<'p>(member: &'static str, value: Option<&'p Cow<'a, str>>) -> Result<&'p str, Error> {
        value.map(|value| &**value).ok_or_else(|| Error::invalid_params(format!("`{member}` is missing")))
    }
}

/// Parses the parameters of one method. Absent parameters count as an empty object.
///
/// # Errors
/// The parameters do not match the type `P`.
pub fn parse<'a, P: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<P, Error> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|error| {
        let mut reason = error.to_string();
        // The reason may quote the client's input, which may be long.
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Error::invalid_params(format!("invalid parameters: {reason}"))
    })
}

/// Maximum length of the reason in an error message, in bytes.
const REASON_BYTES_MAX: usize = 300;

/// Metadata of a request: the members of `_meta`, including members that the protocol does not define.
#[derive(Default, Debug)]
pub struct RequestMeta<'a> {
    /// The protocol revision, which only requests of the modern era contain.
    pub protocol_version: Option<Cow<'a, str>>,
    /// The client's capabilities, a JSON object.
    pub client_capabilities: Option<&'a RawValue>,
    /// The client's name and version. No decision may depend on this information, because it is not
    /// verified.
    pub client_info: Option<&'a RawValue>,
    /// The lowest severity of log messages that the client wants.
    pub log_level: Option<Cow<'a, str>>,
    /// The token that links progress notifications to the request.
    pub progress_token: Option<Id<'a>>,
    /// The names and values of the other members, such as the trace context.
    pub others: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// Trace context for forwarded requests. A server sets it if tracing is on, or if the HTTP headers of the
    /// request contain a trace context.
    pub forwarded_trace: Option<Box<TraceContext>>,
}

impl<'a> RequestMeta<'a> {
    /// Returns the JSON value of the member `name`, which the protocol does not define.
    pub fn other(&self, name: &str) -> Option<&'a RawValue> {
        self.others.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }
}

impl<'a> RequestMeta<'a> {
    fn add_other<E: de::Error>(&mut self, member: Cow<'a, str>, value: &'a RawValue) -> Result<(), E> {
        if self.other(&member).is_some() {
            return Err(E::custom("duplicate member of `_meta`"));
        }
        if self.others.len() == META_OTHERS_MAX {
            return Err(E::custom("too many members of `_meta`"));
        }
        self.others.push((member, value));
        Ok(())
    }
}

/// Maximum number of members of `_meta` that the protocol does not define. The limit exists because a
/// parsed member needs more memory than its JSON text.
const META_OTHERS_MAX: usize = 100;

/// Names of the members of `_meta` that the protocol defines.
pub mod meta_keys {
    /// The protocol revision of a request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The client's capabilities.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The client's name and version.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// The lowest severity of log messages that the client wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The token that links progress notifications to the request.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The id of the subscription that a message belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// The task that a message belongs to (MCP revision 2025-11-25).
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// The server's name and version.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The trace and the span of the sender (W3C Trace Context).
    pub const TRACE_PARENT: &str = "traceparent";
    /// Vendor-specific data about the trace (W3C Trace Context).
    pub const TRACE_STATE: &str = "tracestate";
}

impl<'de: 'a, 'a> Deserialize<'de> for RequestMeta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestMetaVisitor)
    }
}

struct RequestMetaVisitor;

impl<'de> Visitor<'de> for RequestMetaVisitor {
    type Value = RequestMeta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequestMeta<'de>, A::Error> {
        let mut meta = RequestMeta::default();
        while let Some(Text(member)) = map.next_key()? {
            match &*member {
                meta_keys::PROTOCOL_VERSION => once(&mut meta.protocol_version, text(&mut map)?)?,
                meta_keys::CLIENT_CAPABILITIES => once(&mut meta.client_capabilities, object(&mut map)?)?,
                meta_keys::CLIENT_INFO => once(&mut meta.client_info, object(&mut map)?)?,
                meta_keys::LOG_LEVEL => once(&mut meta.log_level, text(&mut map)?)?,
                meta_keys::PROGRESS_TOKEN => once(&mut meta.progress_token, map.next_value()?)?,
                _ => meta.add_other(member, map.next_value()?)?,
            }
        }
        Ok(meta)
    }
}

/// Stores the value of a member. Returns an error for a duplicate member, because two programs that read
/// the message could use different values.
fn once<T, E: de::Error>(place: &mut Option<T>, value: T) -> Result<(), E> {
    match place.replace(value) {
        Some(_) => Err(E::custom("duplicate member of `_meta`")),
        None => Ok(()),
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Cow<'de, str>, A::Error> {
    map.next_value().map(|Text(text)| text)
}

fn object<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de RawValue, A::Error> {
    let raw: &RawValue = map.next_value()?;
    if !raw.get().starts_with('{') {
        return Err(de::Error::invalid_type(de::Unexpected::Other("another value"), &"an object"));
    }
    if raw.get().len() > META_OBJECT_BYTES_MAX {
        return Err(de::Error::custom("a member of `_meta` is too long"));
    }
    Ok(raw)
}

/// Maximum size of `clientCapabilities` and of `clientInfo`, in bytes each. While the server handles the
/// request, the parsed values need many times as much memory as their text.
const META_OBJECT_BYTES_MAX: usize = 64 << 10;

/// Reads an optional string without copying it. Without this function, serde would copy every string
/// inside of an `Option`.
fn borrowed<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    let text = Option::<Text<'a>>::deserialize(deserializer)?;
    Ok(text.map(|Text(text)| text))
}

/// A string, borrowed from the message unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_rpc::ErrorCode;
    use crate::schema::CompleteRequestParams;
    use alloc::string::String;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    fn reason(text: &str) -> String {
        let error = Params::parse(Some(raw(text))).unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
        error.message.into_owned()
    }

    #[test]
    fn params_parse_reads_common_members() {
        let params = Params::parse(Some(raw(
            r#"{"name":"n","uri":"u","taskId":"t","arguments":{ "a":[1]},"cursor":"","inputResponses":{},
                "requestState":"s","other":{"name":1}}"#,
        )))
        .unwrap();
        assert_eq!(params.name.as_deref(), Some("n"));
        assert_eq!(params.uri.as_deref(), Some("u"));
        assert_eq!(params.task_id.as_deref(), Some("t"));
        assert_eq!(
            params.arguments.map(RawValue::get),
            Some(r#"{ "a":[1]}"#),
            "the original text should be kept"
        );
        assert_eq!(params.cursor.as_deref(), Some(""), "an empty cursor is a valid cursor");
        assert_eq!(params.input_responses.map(RawValue::get), Some("{}"));
        assert_eq!(params.request_state.as_deref(), Some("s"));
    }

    #[test]
    fn absent_params_equal_an_empty_object() {
        for text in [None, Some(raw("{}")), Some(raw(r#"{"name":null,"arguments":null,"cursor":null}"#))] {
            let params = Params::parse(text).unwrap();
            assert!(params.name.is_none() && params.arguments.is_none() && params.cursor.is_none());
            assert!(params.meta.protocol_version.is_none() && params.meta.others.is_empty());
        }
        let error = Params::required("name", None).unwrap_err();
        assert_eq!((error.code, &*error.message), (ErrorCode::INVALID_PARAMS, "`name` is missing"));
        assert_eq!(Params::required("name", Some(&Cow::Borrowed("n"))), Ok("n"));
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let params = Params::parse(Some(raw(r#"{"name":"plain","uri":"\u0061\"é"}"#))).unwrap();
        assert!(matches!(params.name, Some(Cow::Borrowed("plain"))));
        assert_eq!(params.uri.as_deref(), Some("a\"é"));
    }

    #[test]
    fn meta_members_are_parsed_and_unknown_ones_kept() {
        let params = Params::parse(Some(raw(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"v","traceparent":"00-1",
                "io.modelcontextprotocol/clientCapabilities":{"a":1},"io.modelcontextprotocol/clientInfo":{},
                "io.modelcontextprotocol/logLevel":"info","progressToken":-1,"x.example/y":{"z": null},
                "progress\u0054oken2":[]}}"#,
        )))
        .unwrap();
        let meta = &params.meta;
        assert_eq!(meta.protocol_version.as_deref(), Some("v"));
        assert_eq!(meta.client_capabilities.map(RawValue::get), Some(r#"{"a":1}"#));
        assert_eq!(meta.client_info.map(RawValue::get), Some("{}"));
        assert_eq!(meta.log_level.as_deref(), Some("info"));
        assert_eq!(meta.progress_token, Some(Id::Integer(-1)));
        assert_eq!(meta.other("traceparent").map(RawValue::get), Some(r#""00-1""#));
        assert_eq!(meta.other("x.example/y").map(RawValue::get), Some(r#"{"z": null}"#));
        assert_eq!(meta.other("progressToken2").map(RawValue::get), Some("[]"));
        assert!(meta.other("tracestate").is_none() && meta.other("progressToken").is_none());
        assert_eq!(meta.others.len(), 3);
    }

    #[test]
    fn params_member_of_wrong_type_is_rejected() {
        for text in [
            r#"{"_meta":[]}"#,
            r#"{"_meta":"x"}"#,
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":20260728}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":[]}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":null}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/clientInfo":"me"}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/logLevel":3}}"#,
            r#"{"_meta":{"progressToken":1.5}}"#,
            r#"{"_meta":{"progressToken":null}}"#,
            r#"{"_meta":{"progressToken":{}}}"#,
            r#"{"name":1}"#,
            r#"{"uri":["x"]}"#,
            r#"{"cursor":2}"#,
            r#"{"requestState":{}}"#,
            r#"{"name":"\ud800"}"#,
        ] {
            assert!(reason(text).starts_with("invalid parameters: "), "{text}");
        }
    }

    #[test]
    fn duplicate_params_member_is_rejected() {
        for text in [
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","n\u0061me":"a"}"#,
            r#"{"_meta":{},"_meta":{}}"#,
            r#"{"arguments":{},"arguments":{}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"a","io.modelcontextprotocol/protocolVersion":"b"}}"#,
            r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientCapabilities":{}}}"#,
            r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
            r#"{"_meta":{"traceparent":"00-1","trace\u0070arent":"00-2"}}"#,
        ] {
            assert!(reason(text).contains("duplicate"), "{text}");
        }
    }

    /// Each member needed 40 bytes of memory, and many more in `async` handlers. A message of 4 MiB can
    /// contain half a million members.
    #[test]
    fn number_of_unknown_meta_members_is_limited() {
        let meta = |members: usize| {
            let members: Vec<_> = (0..members).map(|n| format!(r#""{n}":0"#)).collect();
            format!(r#"{{"_meta":{{{}}}}}"#, members.join(","))
        };
        assert_eq!(
            Params::parse(Some(raw(&meta(META_OTHERS_MAX)))).unwrap().meta.others.len(),
            META_OTHERS_MAX
        );
        assert!(reason(&meta(META_OTHERS_MAX + 1)).contains("too many"));
    }

    #[test]
    fn size_of_client_capabilities_is_limited() {
        let text = |zeros: usize| {
            let zeros = ["0"].repeat(zeros).join(",");
            format!(r#"{{"_meta":{{"io.modelcontextprotocol/clientCapabilities":{{"x":[{zeros}]}}}}}}"#)
        };
        assert!(Params::parse(Some(raw(&text(30_000)))).is_ok());
        assert!(reason(&text(33_000)).contains("too long"));
    }

    #[test]
    fn params_error_message_length_is_bounded() {
        let long = "é".repeat(10_000);
        let text = alloc::format!(r#"{{"ref":{{"type":"{long}"}},"argument":{{"name":"","value":""}}}}"#);
        let error = parse::<CompleteRequestParams>(Some(raw(&text))).unwrap_err();
        assert!(error.message.len() <= "invalid parameters: ".len() + REASON_BYTES_MAX, "{error}");
    }

    #[test]
    fn typed_params_of_a_method_are_parsed() {
        let text = r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}"#;
        let params: CompleteRequestParams = parse(Some(raw(text))).unwrap();
        assert_eq!(params.argument.value, "v");
        assert_eq!(parse::<CompleteRequestParams>(None).unwrap_err().code, ErrorCode::INVALID_PARAMS);
    }
}
