//! Content: text, pictures, sound, and resources.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::implementation::Icon;
use super::meta::MetaObject;

/// A piece of content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", remote = "Self")]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// Sound (from 2025-03-26 on).
    Audio(AudioContent),
    /// Where a resource is (from 2025-06-18 on).
    ResourceLink(ResourceLink),
    /// A resource.
    Resource(EmbeddedResource),
}

/// Text.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A picture.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageContent {
    /// Its octets.
    pub data: Base64Data,
    /// Its type.
    pub mime_type: String,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Sound.
pub type AudioContent = ImageContent;

/// Where a resource is.
pub type ResourceLink = Resource;

/// A resource.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Where it is.
    pub uri: String,
    /// Its name, for programs.
    pub name: String,
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many octets it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A resource, in a message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// The resource.
    pub resource: ResourceContents,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// What a resource contains.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Octets.
    Blob(BlobResourceContents),
}

/// The text of a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextResourceContents {
    /// Which resource.
    pub uri: String,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    pub text: String,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The octets of a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobResourceContents {
    /// Which resource.
    pub uri: String,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The octets.
    pub blob: Base64Data,
    /// What is said about it.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Whom content is for, and how much it matters.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// How much it matters, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it was changed, as ISO 8601 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// Who speaks in a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person.
    User,
    /// A model.
    Assistant,
}

/// Octets, written as Base64.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Base64Data(pub String);

/// The text is not Base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidBase64;

impl Base64Data {
    /// Encodes octets.
    pub fn from_bytes(octets: &[u8]) -> Self {
        Self(STANDARD.encode(octets))
    }

    /// Decodes them.
    ///
    /// # Errors
    /// What was sent is not Base64.
    pub fn to_bytes(&self) -> Result<Vec<u8>, InvalidBase64> {
        STANDARD.decode(&self.0).map_err(|_| InvalidBase64)
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BlockVisitor)
    }
}

/// Reads a block as what it says it is, where that stands first, as nearly everybody writes it. What is
/// derived keeps all members in memory until it has seen the type.
struct BlockVisitor;

impl<'de> Visitor<'de> for BlockVisitor {
    type Value = ContentBlock;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a piece of content")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ContentBlock, A::Error> {
        let Some(Text(first)) = map.next_key()? else { return Err(de::Error::missing_field(TYPE)) };
        if first != TYPE {
            let members = MapAccessDeserializer::new(Members { first: Some(first), is_told: false, map });
            return ContentBlock::deserialize(members);
        }
        let Text(kind) = map.next_value()?;
        let members = MapAccessDeserializer::new(Members { first: None, is_told: true, map });
        match &*kind {
            "text" => Deserialize::deserialize(members).map(ContentBlock::Text),
            "image" => Deserialize::deserialize(members).map(ContentBlock::Image),
            "audio" => Deserialize::deserialize(members).map(ContentBlock::Audio),
            "resource_link" => Deserialize::deserialize(members).map(ContentBlock::ResourceLink),
            "resource" => Deserialize::deserialize(members).map(ContentBlock::Resource),
            other => Err(de::Error::unknown_variant(other, &TYPES)),
        }
    }
}

/// Reads the content of a result. Nearly always it is one block: room for four, which vectors begin with, is
/// more than what is to be had quickly.
pub(crate) fn content_blocks<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ContentBlock>, D::Error> {
    deserializer.deserialize_seq(BlocksVisitor)
}

struct BlocksVisitor;

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = Vec<ContentBlock>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of content")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<ContentBlock>, A::Error> {
        let mut blocks = Vec::new();
        while let Some(block) = seq.next_element()? {
            if blocks.is_empty() {
                blocks.reserve_exact(1);
            }
            blocks.push(block);
        }
        Ok(blocks)
    }
}

/// The members of a block, the first of which has been looked at.
struct Members<'de, A> {
    /// The name of the first, if it is to be read by others.
    first: Option<Cow<'de, str>>,
    /// Whether that was the type, which stands there once.
    is_told: bool,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let name = match self.first.take() {
            Some(first) => Some(first),
            None => self.map.next_key()?.map(|Text(name)| name),
        };
        match name {
            Some(name) if self.is_told && name == TYPE => Err(de::Error::duplicate_field(TYPE)),
            Some(name) => seed.deserialize(CowStrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A string, borrowed unless it was written with escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

const TYPE: &str = "type";

const TYPES: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];

impl ContentBlock {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// A picture.
    pub fn image(octets: &[u8], mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(octets, mime_type))
    }

    /// Sound.
    pub fn audio(octets: &[u8], mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(octets, mime_type))
    }

    /// A resource.
    pub const fn resource(resource: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource { resource, annotations: None, meta: None })
    }
}

impl Resource {
    /// A resource of no known type.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// The same with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same with what it is.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The same with its type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

impl ImageContent {
    /// Octets of a type.
    pub fn new(octets: &[u8], mime_type: impl Into<String>) -> Self {
        Self {
            data: Base64Data::from_bytes(octets),
            mime_type: mime_type.into(),
            annotations: None,
            meta: None,
        }
    }
}

impl ResourceContents {
    /// Text at a URI.
    pub fn text(uri: impl Into<String>, mime_type: impl Into<String>, text: impl Into<String>) -> Self {
        let mime_type = Some(mime_type.into());
        Self::Text(TextResourceContents { uri: uri.into(), mime_type, text: text.into(), meta: None })
    }

    /// Octets at a URI.
    pub fn blob(uri: impl Into<String>, mime_type: impl Into<String>, octets: &[u8]) -> Self {
        let (mime_type, blob) = (Some(mime_type.into()), Base64Data::from_bytes(octets));
        Self::Blob(BlobResourceContents { uri: uri.into(), mime_type, blob, meta: None })
    }
}

impl fmt::Display for InvalidBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not Base64")
    }
}

impl core::error::Error for InvalidBase64 {}
