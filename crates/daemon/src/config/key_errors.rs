//! Errors about keys: finds the place of a wrong key, removes it so that the parser can continue, and finds
//! the table to which a misplaced key belongs.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Span;
use super::secrets::{SchemaNode, schema_root};

/// The place of a key or value in a config.
#[derive(Default)]
pub(super) struct KeyPlace {
    /// Names of the keys from the top of the file to the place. For an unknown key, its own name is not part
    /// of them.
    pub(super) keys: Vec<String>,
    /// Positions of the tables that contain the place, outermost first.
    pub(super) tables: Vec<Span>,
    /// `true` if the removed value is a table or an array.
    pub(super) is_section: bool,
}

/// Removes the key at the position `at`, with its value. Returns the place of its table, or `None` if there
/// is no such key.
pub(super) fn remove_key(table: &mut DeTable<'_>, at: &Span) -> Option<KeyPlace> {
    let found = table.iter().find(|(key, _)| key.span() == *at);
    if let Some((key, value)) = found {
        let is_section = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
        let key = key.clone();
        table.remove(&key);
        return Some(KeyPlace { is_section, ..KeyPlace::default() });
    }
    table.iter_mut().find_map(|(key, value)| below(key.get_ref(), value, |table| remove_key(table, at)))
}

/// Removes the key with the value at the position `at`, or with an array that contains this value. Returns
/// the place of the value, or `None` if there is no such value.
pub(super) fn remove_value(table: &mut DeTable<'_>, at: &Span) -> Option<KeyPlace> {
    let is_it = |value: &Spanned<DeValue<'_>>| {
        let is_item = |items: &[Spanned<DeValue<'_>>]| {
            items.iter().any(|item| item.span() == *at && !matches!(item.get_ref(), DeValue::Table(_)))
        };
        value.span() == *at || matches!(value.get_ref(), DeValue::Array(items) if is_item(items))
    };
    let found = table.iter().find(|(_, value)| is_it(value)).map(|(key, _)| key.clone());
    if let Some(key) = found {
        let place = KeyPlace { keys: vec![key.get_ref().to_string()], ..KeyPlace::default() };
        table.remove(&key);
        return Some(place);
    }
    table.iter_mut().find_map(|(key, value)| below(key.get_ref(), value, |table| remove_value(table, at)))
}

/// Calls `remove` with the tables in `value`, and adds the key of the value to the place that `remove` has
/// found.
fn below(
    key: &str,
    value: &mut Spanned<DeValue<'_>>,
    mut remove: impl FnMut(&mut DeTable<'_>) -> Option<KeyPlace>,
) -> Option<KeyPlace> {
    let span = value.span();
    let (mut place, span) = match value.get_mut() {
        DeValue::Table(table) => (remove(table)?, span),
        DeValue::Array(items) => items.iter_mut().find_map(|item| {
            let span = item.span();
            let DeValue::Table(table) = item.get_mut() else { return None };
            Some((remove(table)?, span))
        })?,
        _ => return None,
    };
    place.keys.insert(0, key.to_owned());
    place.tables.insert(0, span);
    Some(place)
}

/// Returns a hint if a table around the unknown key `name` has this key. In TOML, a key belongs to the last
/// table header above it.
pub(super) fn hint_about_outer_table(place: &KeyPlace, name: &str) -> Option<String> {
    let keys = &place.keys[..];
    let outer = (0..keys.len())
        .rev()
        .find(|&length| schema_root().of_keys(&keys[..length]).is_some_and(|table| table.has_key(name)))?;
    let inner = header(&keys[..=outer]);
    Some(match outer {
        0 => format!("`{name}` is a top-level key: write it above `{inner}` and all other sections"),
        _ => format!("`{name}` is a key of `{}`: write it above `{inner}`", header(&keys[..outer])),
    })
}

/// Returns a hint if one or two other sections of the file have the unknown key `name`.
pub(super) fn hint_about_other_section(name: &str) -> Option<String> {
    let root = schema_root();
    let sections = root.keys().into_iter().filter_map(|section| {
        let node = root.of_keys(std::slice::from_ref(&section))?;
        if node.has_key(name) {
            return Some(header(&[section]));
        }
        let is_named = !node.is_list() && node.of_key("NAME").is_some_and(|named| named.has_key(name));
        is_named.then(|| format!("[{section}.NAME]"))
    });
    let sections: Vec<_> = sections.map(|section| format!("`{section}`")).collect();
    let is_clear = (1..=2).contains(&sections.len());
    is_clear.then(|| format!("`{name}` is a key of {}", sections.join(" and of ")))
}

/// Returns the header of the table with these keys.
fn header(keys: &[String]) -> String {
    let path = keys.join(".");
    let is_list = schema_root().of_keys(keys).is_some_and(SchemaNode::is_list);
    if is_list { format!("[[{path}]]") } else { format!("[{path}]") }
}
