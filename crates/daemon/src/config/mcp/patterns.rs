//! Checks of patterns for the names of tools and prompts, and for URIs.

use crate::config::resolver::Resolver;
use crate::config::values::Spanned;

/// Refuses an invalid pattern for names. `items` is the plural of the named items, such as `tools`.
pub(super) fn check_name_pattern(resolver: &mut Resolver<'_>, raw: &Spanned<String>, items: &str) {
    let pattern = raw.get_ref();
    if !is_length_valid(pattern) {
        resolver.refuse(raw, format!("a pattern for {items} has 1 to {PATTERN_BYTES_MAX} bytes"));
    } else if let Some(byte) = pattern.chars().find(|&byte| is_of_other_globs(byte)) {
        let message = format!("a pattern for {items} cannot contain `{}`", byte.escape_debug());
        resolver.refuse_with(raw, message, "`*` matches any text; all other characters match themselves");
    }
}

/// Refuses an invalid pattern for URIs. Unlike names, URIs and URI templates can contain `?` and `{`.
pub(super) fn check_uri_pattern(resolver: &mut Resolver<'_>, raw: &Spanned<String>) {
    if !is_length_valid(raw.get_ref()) {
        resolver.refuse(raw, format!("a pattern for resources has 1 to {PATTERN_BYTES_MAX} bytes"));
    }
}

fn is_length_valid(pattern: &str) -> bool {
    (1..=PATTERN_BYTES_MAX).contains(&pattern.len())
}

/// Returns `true` if `byte` has a special meaning in the patterns of other programs, or is no part of a name.
fn is_of_other_globs(byte: char) -> bool {
    byte.is_whitespace() || byte.is_control() || matches!(byte, '?' | '[' | ']' | '{' | '}' | '\\' | ',')
}

const PATTERN_BYTES_MAX: usize = 256;
