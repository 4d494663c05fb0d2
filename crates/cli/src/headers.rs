//! Header fields as they are typed on command lines.

use thruway_message::FieldName;

use crate::config::Failure;

/// The names and values of `lines`, each typed as `Name: value`.
///
/// # Errors
/// One is not. Which one, its place tells: what stands in it may be a secret, and where the colon was
/// forgotten, all of it.
pub(crate) fn parse_headers(lines: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let parsed = lines.iter().zip(1..).map(|(line, place)| {
        parse(line).ok_or_else(|| {
            Failure::new(format!("what `-H` number {place} gives is no header field"))
                .with_hint("a header field is `Name: value`")
        })
    });
    parsed.collect()
}

fn parse(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    FieldName::new(name.trim().as_bytes()).ok()?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(lines: &[&str]) -> Result<Vec<(String, String)>, String> {
        let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        parse_headers(&lines).map_err(|failure| format!("{failure}"))
    }

    #[test]
    fn the_name_ends_at_the_first_colon() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parsed(&["Authorization: Bearer a:b", "X-A :", "b:c "]),
            Ok(vec![pair("Authorization", "Bearer a:b"), pair("X-A", ""), pair("b", "c")])
        );
    }

    /// The whole line was printed, with the secret.
    #[test]
    fn what_is_no_header_field_is_not_shown() {
        for line in ["Authorization Bearer secret", "Authorization Bearer secret:more", ": secret", ""] {
            let said = parsed(&["A: b", line]).unwrap_err();
            assert!(said.contains("`-H` number 2") && !said.contains("secret"), "{said}");
        }
    }
}
