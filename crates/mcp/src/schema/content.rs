//! Content: text, pictures, sound, and resources.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::{Annotations, Base64Data, MetaObject, Resource, ResourceContents};

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

/// Reads a block as what it says it is, where that stands first, as nearly everybody writes it. What is derived keeps all
/// members in memory until it has seen the type.
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

/// Reads the content of a result. Nearly always it is one block: room for four, which vectors begin with, is more than what is
/// to be had quickly.
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
