//! Parses messages.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Error, ErrorCode, Id};

/// A JSON-RPC message.
#[derive(Debug)]
pub enum Message<'a> {
    /// A message that needs an answer.
    Request(Request<'a>),
    /// A message without an answer.
    Notification(Notification<'a>),
    /// The answer to a request.
    Response(Response<'a>),
}

/// A message that needs an answer.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id of the request.
    pub id: Id<'a>,
    /// The name of the method.
    pub method: Cow<'a, str>,
    /// The parameters: a JSON object, or `None` if the message has no parameters.
    pub params: Option<&'a RawValue>,
}

/// A message without an answer.
#[derive(Debug)]
pub struct Notification<'a> {
    /// The name of the method.
    pub method: Cow<'a, str>,
    /// The parameters: a JSON object, or `None` if the message has no parameters.
    pub params: Option<&'a RawValue>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id of the request. `None` if the other side could not read the id.
    pub id: Option<Id<'a>>,
    /// The result or the error.
    pub outcome: Result<&'a RawValue, Error>,
}

/// The reason why a message is invalid, for the error response to its sender.
#[derive(Debug)]
pub struct Invalid<'a> {
    /// The id for the error response. `None` if the id of the message is absent or invalid.
    pub id: Option<Id<'a>>,
    /// The error for the response.
    pub error: Error,
}

/// Parses one message.
///
/// # Errors
/// [`ErrorCode::PARSE_ERROR`] if the message is not JSON or not UTF-8. [`ErrorCode::INVALID_REQUEST`] if
/// the message is not a JSON-RPC 2.0 message, or contains a member of the envelope twice.
#[expect(clippy::result_large_err, reason = "the error is no larger than the message in `Ok`")]
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, Invalid<'_>> {
    let text = core::str::from_utf8(bytes).map_err(|_| not_json())?;
    let mut envelope = Envelope::<&RawValue, &RawValue>::EMPTY;
    envelope.read(text).map_err(|error| if error.is_data() { no_envelope(text) } else { not_json() })?;
    let id = match &envelope.id {
        None => None,
        Some(raw) => match serde_json::from_str(raw.get()) {
            Ok(id) => Some(id),
            Err(_) if envelope.error.is_some() && raw.get() == "null" => None,
            Err(_) => return Err(invalid(None, "`id` must be an integer or a string of at most 1024 bytes")),
        },
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    if envelope.params.is_some_and(|params| !is_object(params)) {
        return Err(invalid(id, "`params` must be an object"));
    }
    match (envelope.method, id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) => {
            Ok(Message::Request(Request { id, method, params: envelope.params }))
        }
        (Some(method), None, None, None) => {
            Ok(Message::Notification(Notification { method, params: envelope.params }))
        }
        (None, Some(id), Some(result), None) => {
            Ok(Message::Response(Response { id: Some(id), outcome: Ok(result) }))
        }
        (None, id, None, Some(error)) => match serde_json::from_str(error.get()) {
            Ok(parsed) if is_object(error) => Ok(Message::Response(Response { id, outcome: Err(parsed) })),
            _ => Err(invalid(id, "`error` must have an integer `code` and a string `message`")),
        },
        (_, id, ..) => {
            Err(invalid(id, "the message must have exactly one of `method`, `result` and `error`"))
        }
    }
}

/// Parses the answer to request `id` and its result in one pass. Returns `None` if `bytes` is any other
/// message, or if the result is not a valid `R`. The caller should then use [`parse`].
pub fn read_result<'a, R: Deserialize<'a>>(bytes: &'a [u8], id: &Id<'_>) -> Option<R> {
    let text = core::str::from_utf8(bytes).ok()?;
    let mut envelope = Envelope::<IgnoredAny, Object<R>>::EMPTY;
    envelope.read(text).ok()?;
    let Envelope { jsonrpc, id: Some(answered), method: None, params: None, result, error: None } =
        &mut envelope
    else {
        return None;
    };
    let is_its = serde_json::from_str(answered.get()).is_ok_and(|answered: Id<'_>| answered == *id);
    if !is_its || jsonrpc.as_deref() != Some("2.0") {
        return None;
    }
    result.take().map(|Object(result)| result)
}

/// Parses a request of the method `method` and its parameters in one pass. Returns `None` if `bytes` is
/// any other message, or if the parameters are not a valid `P`. The caller should then use [`parse`].
pub fn read_request<'a, P: Deserialize<'a>>(bytes: &'a [u8], method: &str) -> Option<(Id<'a>, P)> {
    let text = core::str::from_utf8(bytes).ok()?;
    let mut envelope = Envelope::<Object<P>, IgnoredAny>::EMPTY;
    envelope.read(text).ok()?;
    let Envelope { jsonrpc, id: Some(id), method: asked, params, result: None, error: None } = &mut envelope
    else {
        return None;
    };
    if asked.as_deref() != Some(method) || jsonrpc.as_deref() != Some("2.0") {
        return None;
    }
    let id = serde_json::from_str(id.get()).ok()?;
    params.take().map(|Object(params)| (id, params))
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

fn invalid<'a>(id: Option<Id<'a>>, reason: &'static str) -> Invalid<'a> {
    Invalid { id, error: Error::new(ErrorCode::INVALID_REQUEST, reason) }
}

fn not_json<'a>() -> Invalid<'a> {
    Invalid { id: None, error: Error::new(ErrorCode::PARSE_ERROR, "the message is not JSON") }
}

/// Returns the error for a message with an invalid envelope. The error contains the id of the message if
/// the id is valid. This function reads the id again, because serde stopped inside of the envelope.
fn no_envelope(text: &str) -> Invalid<'_> {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return not_json();
    }
    // Only objects have an id. Without this check, serde would read an array as if its elements were the
    // values of the members.
    let identified = text.trim_start().starts_with('{').then(|| serde_json::from_str(text));
    let id = identified.and_then(Result::ok).and_then(|Identified { id }| id);
    invalid(id, "the message is not a JSON-RPC request, notification or response")
}

#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow, default)]
    id: Option<Id<'a>>,
}

/// The members that messages of all kinds have. The parameters have type `P` and the result has type `R`.
/// The parser ignores other members.
struct Envelope<'a, P, R> {
    jsonrpc: Option<Cow<'a, str>>,
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    params: Option<P>,
    result: Option<R>,
    error: Option<&'a RawValue>,
}

impl<'a, P: Deserialize<'a>, R: Deserialize<'a>> Envelope<'a, P, R> {
    const EMPTY: Self =
        Self { jsonrpc: None, id: None, method: None, params: None, result: None, error: None };

    /// Reads the members of the message `text`. Returning the envelope instead would copy large parameters several
    /// times.
    fn read(&mut self, text: &'a str) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.deserialize_map(EnvelopeVisitor(self))?;
        deserializer.end()
    }
}

struct EnvelopeVisitor<'e, 'a, P, R>(&'e mut Envelope<'a, P, R>);

impl<'de, P: Deserialize<'de>, R: Deserialize<'de>> Visitor<'de> for EnvelopeVisitor<'_, 'de, P, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(envelope) = self;
        while let Some(Text(member)) = map.next_key()? {
            match &*member {
                "jsonrpc" => once(&mut envelope.jsonrpc, "jsonrpc", &mut map, |Text(text)| text)?,
                "id" => once(&mut envelope.id, "id", &mut map, |raw| raw)?,
                "method" => once(&mut envelope.method, "method", &mut map, |Text(text)| text)?,
                "params" => once(&mut envelope.params, "params", &mut map, |params| params)?,
                "result" => once(&mut envelope.result, "result", &mut map, |result| result)?,
                "error" => once(&mut envelope.error, "error", &mut map, |raw| raw)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A value that must be a JSON object. Types with a derived `Deserialize` also accept an array, and read
/// its elements as the values of the members.
struct Object<R>(R);

impl<'de, R: Deserialize<'de>> Deserialize<'de> for Object<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<R>(PhantomData<R>);

impl<'de, R: Deserialize<'de>> Visitor<'de> for ObjectVisitor<R> {
    type Value = Object<R>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<R>, A::Error> {
        R::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads the value of a member. Returns an error for a duplicate member, because two programs that read
/// the message could use different values.
fn once<'de, A: MapAccess<'de>, V: Deserialize<'de>, T>(
    place: &mut Option<T>,
    member: &'static str,
    map: &mut A,
    into: impl FnOnce(V) -> T,
) -> Result<(), A::Error> {
    if place.is_some() {
        return Err(serde::de::Error::duplicate_field(member));
    }
    *place = Some(into(map.next_value()?));
    Ok(())
}

/// A string, borrowed from the message unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Splits a batch into its messages. Returns `None` if `bytes` is not a JSON array. Only MCP revision
/// 2025-03-26 has batches.
///
/// # Errors
/// The batch is not valid JSON, is empty, or has more than [`BATCH_MESSAGES_MAX`] messages.
pub fn split_batch(bytes: &[u8]) -> Option<Result<Vec<&RawValue>, Error>> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return None;
    }
    Some(match serde_json::from_slice(bytes) {
        Ok(Batch(messages)) if messages.is_empty() => {
            Err(Error::new(ErrorCode::INVALID_REQUEST, "the batch is empty"))
        }
        Ok(Batch(messages)) => Ok(messages),
        Err(error) if error.is_data() => {
            Err(Error::new(ErrorCode::INVALID_REQUEST, "the batch has too many messages"))
        }
        Err(_) => Err(Error::new(ErrorCode::PARSE_ERROR, "the message is not JSON")),
    })
}

struct Batch<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor).map(Self)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {BATCH_MESSAGES_MAX} messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while let Some(message) = seq.next_element()? {
            if messages.len() == BATCH_MESSAGES_MAX {
                return Err(serde::de::Error::invalid_length(messages.len() + 1, &self));
            }
            messages.push(message);
        }
        Ok(messages)
    }
}

/// Maximum number of messages in a batch. The number is limited because each message needs an answer.
pub const BATCH_MESSAGES_MAX: usize = 100;
