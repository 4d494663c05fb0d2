//! Content: text, pictures, sound, and resources.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{MetaObject, Resource};

/// A piece of content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
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
