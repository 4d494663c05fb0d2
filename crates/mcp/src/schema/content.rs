//! Content: text, images, audio, and resources.

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

/// One block of content: a text, an image, audio or a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", remote = "Self")]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Audio (since MCP revision 2025-03-26).
    Audio(AudioContent),
    /// A link to a resource (since MCP revision 2025-06-18).
    ResourceLink(ResourceLink),
    /// An embedded resource.
    Resource(EmbeddedResource),
}

/// Text.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// The intended audience and importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// An image.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageContent {
    /// The image data.
    pub data: Base64Data,
    /// The media type.
    pub mime_type: String,
    /// The intended audience and importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// Audio.
pub type AudioContent = ImageContent;

/// A link to a resource.
pub type ResourceLink = Resource;

/// The description of a resource.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The name that programs use for the resource.
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The intended audience and importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Icons for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// A resource that is embedded in a message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// The resource.
    pub resource: ResourceContents,
    /// The intended audience and importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The content of a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Binary data.
    Blob(BlobResourceContents),
}

/// The text of a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextResourceContents {
    /// The URI of the resource.
    pub uri: String,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    pub text: String,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The binary data of a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobResourceContents {
    /// The URI of the resource.
    pub uri: String,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The data.
    pub blob: Base64Data,
    /// Metadata (`_meta`).
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaObject>,
}

/// The intended audience of content, and the importance of the content.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// The intended audience.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// The importance, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Time of the last change, in the format of ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// A participant of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// Binary data in Base64.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Base64Data(pub String);

/// Error: the text is not valid Base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidBase64;

impl Base64Data {
    /// Encodes bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(STANDARD.encode(bytes))
    }

    /// Decodes the data.
    ///
    /// # Errors
    /// The text is not valid Base64.
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

/// Reads a content block without buffering its members if `type` is the first member, as in most
/// messages. A derived implementation would buffer all members until it has read `type`.
struct BlockVisitor;

impl<'de> Visitor<'de> for BlockVisitor {
    type Value = ContentBlock;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ContentBlock, A::Error> {
        let Some(Text(first)) = map.next_key()? else { return Err(de::Error::missing_field(TYPE)) };
        if first != TYPE {
            let members =
                MapAccessDeserializer::new(Members { first: Some(first), is_type_read: false, map });
            return ContentBlock::deserialize(members);
        }
        let Text(kind) = map.next_value()?;
        let members = MapAccessDeserializer::new(Members { first: None, is_type_read: true, map });
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

/// Reads the content blocks of a result. Most results have one block, so this function allocates space
/// for one block. By default, serde allocates space for four blocks.
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

/// The remaining members of a content block, after the name of the first member was read.
struct Members<'de, A> {
    /// The name of the first member, until the caller has read it.
    first: Option<Cow<'de, str>>,
    /// `true` if the first member was `type`. If another member `type` follows, this is an error.
    is_type_read: bool,
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
            Some(name) if self.is_type_read && name == TYPE => Err(de::Error::duplicate_field(TYPE)),
            Some(name) => seed.deserialize(CowStrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A string, borrowed from the input unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

const TYPE: &str = "type";

const TYPES: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];

impl ContentBlock {
    /// Returns a block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// Returns a block with an image. `bytes` is the content of the image file.
    pub fn image(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(bytes, mime_type))
    }

    /// Returns a block with audio. `bytes` is the content of the audio file.
    pub fn audio(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(bytes, mime_type))
    }

    /// Returns a block with an embedded resource.
    pub const fn resource(resource: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource { resource, annotations: None, meta: None })
    }
}

impl Resource {
    /// Returns a resource without a media type.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// Sets the display name.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

impl ImageContent {
    /// Returns an image or audio of the media type `mime_type`. `bytes` is the content of the file.
    pub fn new(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self {
            data: Base64Data::from_bytes(bytes),
            mime_type: mime_type.into(),
            annotations: None,
            meta: None,
        }
    }
}

impl ResourceContents {
    /// Returns the text of the resource `uri`.
    pub fn text(uri: impl Into<String>, mime_type: impl Into<String>, text: impl Into<String>) -> Self {
        let mime_type = Some(mime_type.into());
        Self::Text(TextResourceContents { uri: uri.into(), mime_type, text: text.into(), meta: None })
    }

    /// Returns the binary data `bytes` of the resource `uri`.
    pub fn blob(uri: impl Into<String>, mime_type: impl Into<String>, bytes: &[u8]) -> Self {
        let (mime_type, blob) = (Some(mime_type.into()), Base64Data::from_bytes(bytes));
        Self::Blob(BlobResourceContents { uri: uri.into(), mime_type, blob, meta: None })
    }
}

impl fmt::Display for InvalidBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not Base64")
    }
}

impl core::error::Error for InvalidBase64 {}
