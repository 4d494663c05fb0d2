//! Finds secrets in comments. Operators often disable a setting by making a comment of its line.

use super::schema_node::{SchemaNode, names_a_secret};
use crate::config::Span;

/// Finds the values of settings in comments, except values that cannot be secrets. `text` is valid TOML.
pub(super) fn hide_in_comments(text: &str, root: SchemaNode<'_>, spans: &mut Vec<Span>) {
    let (mut section, mut start) = (Some(root), 0);
    for line in text.split_inclusive('\n') {
        let comment =
            line.trim_start().strip_prefix('#').map(|comment| comment.trim_start_matches(['#', ' ']));
        let content = comment.unwrap_or(line).trim();
        if let Some(header) = content.strip_prefix('[') {
            section = root.of_path(header.trim_start_matches('[').split(']').next().unwrap_or_default());
        } else if comment.is_some()
            && let Some(value) = secret_value(content, section)
        {
            let end = start + line.trim_end().len();
            spans.push(end - value.len()..end);
        }
        start += line.len();
    }
}

/// Returns the value in `content` if it may be a secret: in `KEY = VALUE`, or in `KEY: VALUE` if the key suggests a
/// secret.
fn secret_value<'c>(content: &'c str, section: Option<SchemaNode<'_>>) -> Option<&'c str> {
    let at = content.find(['=', ':'])?;
    let (key, value) = (content[..at].trim(), content[at + 1..].trim_start());
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.\"'".contains(&byte);
    if key.is_empty() || !key.bytes().all(is_key) {
        return None;
    }
    let is_harmless =
        || section.and_then(|section| section.of_path(key)).is_some_and(SchemaNode::is_harmless);
    let is_secret = names_a_secret(key) || content[at..].starts_with('=') && !is_harmless();
    is_secret.then_some(value)
}
