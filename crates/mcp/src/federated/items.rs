//! The items of lists: tools, resources, resource templates and prompts.

use alloc::borrow::{Cow, ToOwned as _};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::members::one_line;
use crate::schema::methods;

/// The kinds of lists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListKind {
    /// The tools, by name.
    Tools,
    /// The resources, by URI.
    Resources,
    /// The resource templates, by URI template.
    ResourceTemplates,
    /// The prompts, by name.
    Prompts,
}

/// An item of a member's list. Keeps the JSON text of the member, on one line.
#[derive(Clone, Debug)]
pub struct ListItem {
    json: Box<RawValue>,
    key: Box<str>,
    /// The position of the key in the JSON text, with its quotation marks.
    key_range: Range<usize>,
}

/// The error for an item that is not a JSON object, or that has no key, several keys, or a key that is not a
/// string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemInvalid;

impl ListKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::ResourceTemplates, Self::Prompts];

    /// Returns the kind of the list that requests with this method return.
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// Returns the method that requests the list.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => methods::TOOLS_LIST,
            Self::Resources => methods::RESOURCES_LIST,
            Self::ResourceTemplates => methods::RESOURCES_TEMPLATES_LIST,
            Self::Prompts => methods::PROMPTS_LIST,
        }
    }

    /// Returns the member of the result that contains the items.
    pub const fn result_member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the member of an item that identifies the item in the list: `name`, `uri` or `uriTemplate`.
    pub const fn key_member(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::ResourceTemplates => "uriTemplate",
        }
    }

    /// `true` if the key of an item is a name, which the endpoint may change. `false` if the key is a URI.
    pub const fn has_names(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }
}

impl fmt::Display for ItemInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a JSON object with one name or URI")
    }
}

impl core::error::Error for ItemInvalid {}

impl ListItem {
    /// Reads an item of a list of the kind `kind`. Reads only the key, and ignores the other members.
    ///
    /// # Errors
    /// `json` is not an object with exactly one key.
    pub fn parse(kind: ListKind, json: &RawValue) -> Result<Self, ItemInvalid> {
        let json = one_line(json.to_owned());
        let seed = KeySeed(kind.key_member());
        let key = seed.deserialize(&mut serde_json::Deserializer::from_str(json.get()));
        let (value, key) = key.map_err(|_| ItemInvalid)?;
        let start = value.get().as_ptr().addr() - json.get().as_ptr().addr();
        let key_range = start..start + value.get().len();
        let key = key.into();
        Ok(Self { json, key, key_range })
    }

    /// Returns the key: the member's own name or the URI.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the JSON text of the item, as the member has sent it.
    pub fn json(&self) -> &RawValue {
        &self.json
    }

    /// Appends the JSON text of the item with the key `key`. All other bytes stay the same.
    pub fn append_with_key(&self, output: &mut String, key: &str) {
        let json = self.json.get();
        if key == &*self.key {
            output.push_str(json);
            return;
        }
        output.push_str(&json[..self.key_range.start]);
        append_string(output, key);
        output.push_str(&json[self.key_range.end..]);
    }
}

fn append_string(output: &mut String, text: &str) {
    // Writing a string as JSON cannot fail.
    output.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Finds the member with the given name in an object. Returns its value as JSON text and as a string.
struct KeySeed(&'static str);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = (&'de RawValue, Cow<'de, str>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = (&'de RawValue, Cow<'de, str>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Text(name)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            // Parsers differ in which of two members with the same name they use.
            if name == self.0 && found.replace(value).is_some() {
                return Err(A::Error::custom("two keys"));
            }
        }
        let value = found.ok_or_else(|| A::Error::custom("no key"))?;
        let Text(key) = serde_json::from_str(value.get()).map_err(A::Error::custom)?;
        Ok((value, key))
    }
}

/// A string, borrowed from the input unless it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: ListKind, json: &str) -> Result<ListItem, ItemInvalid> {
        ListItem::parse(kind, serde_json::from_str(json).unwrap())
    }

    fn renamed(kind: ListKind, json: &str, key: &str) -> String {
        let mut output = String::new();
        item(kind, json).unwrap().append_with_key(&mut output, key);
        output
    }

    #[test]
    fn only_the_key_of_an_item_changes() {
        let json = r#"{ "a":{"name":"x"} , "n\u0061me" : "o\u006ed" ,"big":1.50e3,"b":[ {"name":1}]}"#;
        assert_eq!(item(ListKind::Tools, json).unwrap().key(), "ond");
        assert_eq!(
            renamed(ListKind::Tools, json, "new\"\n"),
            r#"{ "a":{"name":"x"} , "n\u0061me" : "new\"\n" ,"big":1.50e3,"b":[ {"name":1}]}"#
        );
        assert_eq!(renamed(ListKind::Prompts, r#"{"name":""}"#, "a__"), r#"{"name":"a__"}"#);
    }

    #[test]
    fn item_with_unchanged_key_keeps_its_bytes_on_one_line() {
        assert_eq!(
            renamed(ListKind::Tools, "{\r\n\"name\":\n\"\\u0061\"}", "a"),
            "{  \"name\": \"\\u0061\"}"
        );
    }

    #[test]
    fn each_kind_has_its_own_key() {
        let json = r#"{"name":"a","uri":"b","uriTemplate":"c"}"#;
        let keys = ListKind::ALL.map(|kind| item(kind, json).unwrap().key().to_owned());
        assert_eq!(keys, ["a", "b", "c", "a"]);
    }

    #[test]
    fn item_without_exactly_one_text_key_is_invalid() {
        for json in [
            "{}",
            "[]",
            "null",
            r#""name""#,
            r#"{"name":1}"#,
            r#"{"name":null}"#,
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","n\u0061me":"a"}"#,
            r#"{"name":"\ud800"}"#,
        ] {
            assert_eq!(item(ListKind::Tools, json).err(), Some(ItemInvalid), "{json}");
        }
    }

    #[test]
    fn method_names_the_kind() {
        for kind in ListKind::ALL {
            assert_eq!(ListKind::of_method(kind.method()), Some(kind));
        }
        assert_eq!(ListKind::of_method("tools/call"), None);
    }
}
