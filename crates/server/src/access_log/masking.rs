//! Masks the values of secret query parameters, so that logs do not contain these values.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Returns `url` with `***` in place of the values of the query parameters `names`. `url` may be a request
/// target or any URI.
pub(super) fn masked<'u>(url: &'u [u8], names: &[String]) -> Cow<'u, [u8]> {
    let query_at = if names.is_empty() { None } else { url.iter().position(|byte| *byte == b'?') };
    let Some(query_at) = query_at else { return url.into() };
    let (before, query) = url.split_at(query_at + 1);
    let is_key = |parameter: &[u8]| {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        names.iter().any(|key| is_name(name, key.as_bytes()))
    };
    if !query.split(|byte| *byte == b'&').any(is_key) {
        return url.into();
    }
    let mut masked = before.to_vec();
    for (place, parameter) in query.split(|byte| *byte == b'&').enumerate() {
        if place > 0 {
            masked.push(b'&');
        }
        match parameter.iter().position(|byte| *byte == b'=') {
            Some(value_at) if is_key(parameter) => {
                masked.extend_from_slice(&parameter[..=value_at]);
                masked.extend_from_slice(b"***");
            }
            _ => masked.extend_from_slice(parameter),
        }
    }
    masked.into()
}

/// Returns `true` if `encoded`, the name of a query parameter in a URL, equals `name` after decoding. Decodes
/// percent-encoded bytes and replaces `+` by a space. Ignores case, because a client may write the name of a
/// secret parameter in another case.
fn is_name(encoded: &[u8], name: &[u8]) -> bool {
    let decoded =
        percent_decode(encoded).map(|byte| if byte == b'+' { b' ' } else { byte.to_ascii_lowercase() });
    decoded.eq(name.iter().map(|byte| if *byte == b'+' { b' ' } else { byte.to_ascii_lowercase() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log once contained the keys that clients send as a query parameter.
    #[test]
    fn only_values_of_masked_query_parameters_become_stars() {
        let names = ["key".to_owned(), "api key".to_owned()];
        for (url, expected) in [
            ("/", "/"),
            ("/key=a", "/key=a"),
            ("/?a=b&c", "/?a=b&c"),
            ("/?key=sesame", "/?key=***"),
            ("/?a=b&key=sesame=&c=d", "/?a=b&key=***&c=d"),
            ("/?KEY=sesame&%6Bey=sesame", "/?KEY=***&%6Bey=***"),
            ("/?api+key=sesame&api%20key=sesame", "/?api+key=***&api%20key=***"),
            ("/?key&keys=b&key=", "/?key&keys=b&key=***"),
            ("http://a/b?key=sesame", "http://a/b?key=***"),
        ] {
            assert_eq!(masked(url.as_bytes(), &names), expected.as_bytes(), "{url}");
            assert_eq!(masked(url.as_bytes(), &[]), url.as_bytes());
        }
    }
}
