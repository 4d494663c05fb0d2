//! The parameters of a client's request, borrowed from the message.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json_rpc::{Error, Id};

/// The members that parameters of requests have in common. What only one method has is read by
/// [`parse`](Self::parse) a second time.
#[derive(Default, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params<'a> {
    /// What is said about the request.
    #[serde(borrow, rename = "_meta", default)]
    pub meta: RequestMeta<'a>,
    /// The tool or prompt.
    #[serde(borrow, default)]
    pub name: Option<Cow<'a, str>>,
    /// The resource.
    #[serde(borrow, default)]
    pub uri: Option<Cow<'a, str>>,
    /// The task.
    #[serde(borrow, default)]
    pub task_id: Option<Cow<'a, str>>,
    /// What the tool or prompt is called with.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    /// Where a list is to go on.
    #[serde(borrow, default)]
    pub cursor: Option<Cow<'a, str>>,
    /// The answers to what an earlier round asked.
    #[serde(borrow, default)]
    pub input_responses: Option<&'a RawValue>,
    /// What an earlier round gave the client to bring back.
    #[serde(borrow, default)]
    pub request_state: Option<Cow<'a, str>>,
}

impl<'a> Params<'a> {
    /// Parses parameters; absent ones are as an empty object.
    ///
    /// # Errors
    /// A member has the wrong type or stands twice.
    pub fn parse(params: Option<&'a RawValue>) -> Result<Self, Error> {
        parse(params)
    }

    /// The member `name`, which the method cannot do without.
    ///
    /// # Errors
    /// It is not there.
    pub fn required<'p>(member: &'static str, value: Option<&'p Cow<'a, str>>) -> Result<&'p str, Error> {
        value.map(|value| &**value).ok_or_else(|| Error::invalid_params(format!("`{member}` is missing")))
    }
}

/// Parses the parameters of one method; absent ones are as an empty object.
///
/// # Errors
/// They are not what the method asks for.
pub fn parse<'a, P: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<P, Error> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|error| {
        let mut reason = error.to_string();
        // It may quote what was sent.
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Error::invalid_params(format!("invalid parameters: {reason}"))
    })
}

/// How much of what is wrong is told.
const REASON_BYTES_MAX: usize = 300;

/// What is said about a request: the members of `_meta` that the protocol defines, and the others.
#[derive(Default, Debug)]
pub struct RequestMeta<'a> {
    /// The revision that the request is in. Whether it is there tells the eras apart.
    pub protocol_version: Option<Cow<'a, str>>,
    /// What the client can do, an object.
    pub client_capabilities: Option<&'a RawValue>,
    /// What the client says it is. Not verified, never a ground for a decision.
    pub client_info: Option<&'a RawValue>,
    /// From which level on the client wants log messages.
    pub log_level: Option<Cow<'a, str>>,
    /// What progress is to be reported under.
    pub progress_token: Option<Id<'a>>,
    /// The other members, such as the trace context.
    pub others: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> RequestMeta<'a> {
    /// The value of a member that the protocol does not define, as JSON.
    pub fn other(&self, name: &str) -> Option<&'a RawValue> {
        self.others.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
    }
}

/// Names of members of `_meta`.
pub mod meta_keys {
    /// The revision that a request is in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What the client can do.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// What the client says it is.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// From which level on the client wants log messages.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// What progress is to be reported under.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// Which subscription a message belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// What the server says it is.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
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
                meta_keys::PROTOCOL_VERSION => {
                    once(&mut meta.protocol_version, map.next_value::<Text<'_>>()?.0)?;
                }
                meta_keys::CLIENT_CAPABILITIES => once(&mut meta.client_capabilities, object(&mut map)?)?,
                meta_keys::CLIENT_INFO => once(&mut meta.client_info, object(&mut map)?)?,
                meta_keys::LOG_LEVEL => once(&mut meta.log_level, map.next_value::<Text<'_>>()?.0)?,
                meta_keys::PROGRESS_TOKEN => once(&mut meta.progress_token, map.next_value()?)?,
                _ => meta.others.push((member, map.next_value()?)),
            }
        }
        Ok(meta)
    }
}

/// Two readers could each believe another one of two.
fn once<T, E: de::Error>(place: &mut Option<T>, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom("a member of `_meta` stands twice")),
    }
}

fn object<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de RawValue, A::Error> {
    let raw: &RawValue = map.next_value()?;
    if raw.get().starts_with('{') {
        Ok(raw)
    } else {
        Err(de::Error::invalid_type(de::Unexpected::Other("another value"), &"an object"))
    }
}

/// A string, borrowed unless it was written with escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
