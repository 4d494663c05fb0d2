//! The JSON Schema as a description of the places that contain secrets.

use serde_json::Value as Schema;

/// A node of the JSON Schema.
#[derive(Clone, Copy)]
pub(in crate::config) struct SchemaNode<'s> {
    root: &'s Schema,
    schema: &'s Schema,
}

impl<'s> SchemaNode<'s> {
    pub(super) const fn root(schema: &'s Schema) -> Self {
        Self { root: schema, schema }
    }

    /// Returns this node and all schemas to which its `$ref`, `anyOf`, `oneOf` and `allOf` refer.
    fn alternatives(self) -> Vec<Self> {
        let at = |schema| Self { schema, ..self };
        let referred =
            self.schema["$ref"].as_str().and_then(|place| self.root.pointer(place.strip_prefix('#')?));
        let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|list| self.schema[list].as_array());
        let more = referred.into_iter().chain(lists.flatten()).flat_map(|schema| at(schema).alternatives());
        std::iter::once(self).chain(more).collect()
    }

    fn any(self, is_so: impl Fn(&Schema) -> bool) -> bool {
        self.alternatives().iter().any(|place| is_so(place.schema))
    }

    fn find(self, find: impl Fn(&'s Schema) -> Option<&'s Schema>) -> Option<Self> {
        let schema = self.alternatives().into_iter().find_map(|place| find(place.schema))?;
        Some(Self { schema, ..self })
    }

    pub(super) fn is_secret(self) -> bool {
        self.any(|schema| schema["writeOnly"] == true)
    }

    fn takes_tables(self) -> bool {
        self.any(|schema| schema["type"] == "object")
    }

    pub(super) fn is_harmless(self) -> bool {
        !self.is_secret() && !self.takes_tables() && self.of_items().is_none_or(Self::is_harmless)
    }

    /// Returns `true` if this table has keys for secrets. The value of an unknown key in such a table may
    /// also be a secret.
    pub(super) fn holds_secrets(self) -> bool {
        let is_secret = |schema| Self { schema, ..self }.is_secret();
        let properties = |place: &Self| {
            place.schema["properties"].as_object().is_some_and(|all| all.values().any(is_secret))
        };
        self.alternatives().iter().any(properties)
    }

    pub(super) fn has_property(self, key: &str) -> bool {
        self.any(|schema| schema["properties"].get(key).is_some())
    }

    pub(in crate::config) fn of_key(self, key: &str) -> Option<Self> {
        let free = |schema: &'s Schema| schema.get("additionalProperties").filter(|free| free.is_object());
        self.find(|schema| schema["properties"].get(key)).or_else(|| self.find(free))
    }

    /// Returns the node at the keys `keys`. If a node is a list, looks up the key in the items of the list.
    pub(in crate::config) fn of_keys(self, keys: &[String]) -> Option<Self> {
        keys.iter().try_fold(self, |place, key| place.of_key(key).or_else(|| place.of_items()?.of_key(key)))
    }

    /// Returns `true` if this table, or each item of this list of tables, can have the key `key`.
    pub(in crate::config) fn has_key(self, key: &str) -> bool {
        self.has_property(key) || self.of_items().is_some_and(|items| items.has_property(key))
    }

    /// Returns `true` if this is a list.
    pub(in crate::config) fn is_list(self) -> bool {
        self.of_items().is_some()
    }

    /// Returns the names of the keys of this table.
    pub(in crate::config) fn keys(self) -> Vec<String> {
        self.schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn of_items(self) -> Option<Self> {
        self.find(|schema| schema.get("items"))
    }

    /// Returns the node at the key path `path`, such as `a.b`. If a node is a list, looks up the key in the
    /// items of the list. Stops at a secret, because everything below a secret is also secret.
    pub(super) fn of_path(self, path: &str) -> Option<Self> {
        path.trim().split('.').try_fold(self, |place, key| {
            let key = key.trim().trim_matches(['"', '\'']);
            let below = || place.of_key(key).or_else(|| place.of_items()?.of_key(key));
            if place.is_secret() { Some(place) } else { below() }
        })
    }
}

/// Returns `true` if the name `key` suggests that the value is a secret. The author of the config chose
/// this name.
pub(super) fn names_a_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["authorization", "cookie", "key", "password", "secret", "token"].iter().any(|name| key.contains(name))
}
