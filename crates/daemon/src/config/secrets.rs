//! Finds the secrets of a config, which errors and logs must not show.
//!
//! The JSON Schema marks secrets with `writeOnly`. The value of an unknown key may also be a secret,
//! because the key may be misspelled.

mod comments;
mod schema_node;

use std::borrow::Cow;
use std::sync::LazyLock;

use thruway_message::mask_userinfo;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::comments::hide_in_comments;
pub(super) use self::schema_node::SchemaNode;
use self::schema_node::names_a_secret;
use super::Span;

/// Returns `text` with stars in place of secrets and of values that may be secrets. The positions of all
/// other bytes stay the same.
pub(super) fn hidden(text: &str) -> String {
    let root = SchemaNode::root(SCHEMA.as_value());
    let mut spans = Vec::new();
    match DeTable::parse(text) {
        Ok(table) => {
            hide_in_table(table.get_ref(), root, &mut spans);
            hide_in_comments(text, root, &mut spans);
        }
        Err(_) => hide_in_lines(text, root, &mut spans),
    }
    let mut shown = text.to_owned();
    for span in spans {
        let stars: String = text[span.clone()].chars().flat_map(stars_for).collect();
        shown.replace_range(span, &stars);
    }
    match mask_userinfo(&shown) {
        Cow::Borrowed(_) => shown,
        Cow::Owned(masked) => masked,
    }
}

/// Returns as many stars as `c` has bytes. If `c` is a quote or a line break, returns `c`.
fn stars_for(c: char) -> impl Iterator<Item = char> {
    let (star, times) = if matches!(c, '"' | '\'' | '\n' | '\r') { (c, 1) } else { ('*', c.len_utf8()) };
    std::iter::repeat_n(star, times)
}

/// Returns the root of the JSON Schema.
pub(super) fn schema_root() -> SchemaNode<'static> {
    SchemaNode::root(SCHEMA.as_value())
}

type Value<'a> = Spanned<DeValue<'a>>;

fn hide_in_table(table: &DeTable<'_>, place: SchemaNode<'_>, spans: &mut Vec<Span>) {
    for (key, value) in table {
        let key = &**key.get_ref();
        match place.of_key(key) {
            Some(known) if place.has_property(key) || !names_a_secret(key) => hide(value, known, spans),
            None if !value.get_ref().is_str() && is_leaf(value) && !place.holds_secrets() => {}
            _ => hide_all(value, spans),
        }
    }
}

fn hide(value: &Value<'_>, place: SchemaNode<'_>, spans: &mut Vec<Span>) {
    match (value.get_ref(), place.of_items()) {
        _ if place.is_secret() => hide_all(value, spans),
        (DeValue::Table(table), _) => hide_in_table(table, place, spans),
        (DeValue::Array(values), Some(items)) => {
            values.iter().for_each(|value| hide(value, items, spans));
            hide_arguments(values, spans);
        }
        (DeValue::Array(_), None) => hide_all(value, spans),
        // The author may have written a string in place of a table with secrets.
        (DeValue::String(_), _) if place.holds_secrets() => hide_all(value, spans),
        _ => {}
    }
}

fn hide_all(value: &Value<'_>, spans: &mut Vec<Span>) {
    match value.get_ref() {
        DeValue::Table(table) => table.iter().for_each(|(_, value)| hide_all(value, spans)),
        DeValue::Array(values) => values.iter().for_each(|value| hide_all(value, spans)),
        _ => spans.push(value.span()),
    }
}

/// Finds secrets in the arguments of a program, such as `--token VALUE` and `--token=VALUE`.
fn hide_arguments(values: &[Value<'_>], spans: &mut Vec<Span>) {
    let mut is_after_name = false;
    for value in values {
        let text = value.get_ref().as_str().unwrap_or_default();
        let name = text.split('=').next().unwrap_or_default();
        let is_option = text.starts_with('-');
        let is_named = is_option && names_a_secret(name);
        if is_after_name && !is_option || is_named && name.len() < text.len() {
            spans.push(value.span());
        }
        is_after_name = is_named;
    }
}

fn is_leaf(value: &Value<'_>) -> bool {
    !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_))
}

/// Finds the text to mask in a file that is not valid TOML. Does not mask section names and lines that cannot
/// contain a secret.
fn hide_in_lines(text: &str, root: SchemaNode<'_>, spans: &mut Vec<Span>) {
    let (mut section, mut start) = (Some(root), 0);
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end().len();
        if let Some(header) = line.trim().strip_prefix('[') {
            section = root.of_path(header.trim_start_matches('[').split(']').next().unwrap_or_default());
            if section.is_none() {
                spans.push(start..end);
            }
        } else {
            let key =
                line.split([' ', '\t', '=']).find(|part| !part.is_empty()).unwrap_or_default().trim_end();
            match section.and_then(|section| section.of_path(key)) {
                Some(place) if place.is_harmless() => {}
                Some(_) => spans.push(start + line.find(key).unwrap_or(0) + key.len()..end),
                None => spans.push(start..end),
            }
        }
        start += line.len();
    }
}

/// The JSON Schema of configs, computed for the first excerpt.
static SCHEMA: LazyLock<schemars::Schema> = LazyLock::new(super::schema);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::failure::without_value;

    /// Regression test: messages quoted values of environment variables, in full or in part, even
    /// if the excerpt masked them.
    #[test]
    fn message_names_the_variable_instead_of_its_value() {
        let replaced = |message: &str, value| without_value(message.to_owned(), value, "${TOK}", true);
        assert_eq!(replaced("unknown value `sesame`", "sesame"), "unknown value `${TOK}`");
        assert_eq!(replaced("`se\\nsame` is no host", "se\nsame"), "`${TOK}` is no host");
        assert_eq!(replaced("/etc/sesame: not found", "sesame"), "/etc/${TOK}: not found");
        assert_eq!(replaced("`ame` is no port", "ses:ame"), "`${TOK}` is no port");
        let message = "`5` is not a duration: write `10s` or `500ms`";
        assert_eq!(replaced(message, "5"), message.replace("`5`", "`${TOK}`"));
        assert_eq!(replaced("a path does not hold ` `", "se same"), "a path does not hold ` `");
        let message = "not a URL that begins with `https://`";
        assert_eq!(replaced(message, "https://a:b@c/"), message);
        let elsewhere = without_value("the value `a` is from 1 to 5".to_owned(), "om", "${TOK}", false);
        assert_eq!(elsewhere, "the value `a` is from 1 to 5");
    }

    /// Regression test: an error about another part of a URL showed its password.
    #[test]
    fn credentials_in_urls_are_masked() {
        let text = "[[routes]]\nredirect.to = \"https://bob:sesame@a.example/\"\nworkers ="; // invalid TOML
        for text in [text, text.trim_end_matches("\nworkers =")] {
            let shown = hidden(text);
            assert_eq!(shown.len(), text.len());
            assert!(!shown.contains("sesame"), "{shown}");
        }
    }

    #[test]
    fn secrets_are_masked_without_changing_text_length() {
        let text = "[policies.a]\nbasic_auth = { realm = \"r\", users = { \"b\" = 'pä', c = \"\"\"x\ny\"\"\" } }\n\
                    [policies.b.jwt]\nsecret = \"s3\"\n[policies.c.api_keys.keys]\nd = 5\n\
                    [upstreams.u]\nsticky.secret = \"t\"\n";
        let shown = hidden(text);
        assert_eq!(
            shown,
            "[policies.a]\nbasic_auth = { realm = \"r\", users = { \"b\" = '***', c = \"\"\"*\n*\"\"\" } }\n\
             [policies.b.jwt]\nsecret = \"**\"\n[policies.c.api_keys.keys]\nd = *\n\
             [upstreams.u]\nsticky.secret = \"*\"\n"
        );
        assert_eq!(shown.len(), text.len());
        assert_eq!(hidden("workers ="), "workers =");
    }

    /// Regression test: values were hidden only if their keys were spelled correctly.
    #[test]
    fn values_of_misspelled_keys_near_secrets_are_masked() {
        for text in [
            "policies.a.jwt.secert = \"sesame\"",
            "policies.a.jwt.secert = 731",
            "policies.a.jtw = { secret = \"sesame\" }",
            "policies.a.jtw.leeway = 731",
            "polices.a.jwt = { secret = \"sesame\" }",
            "policies.a.basic_auth = \"bob:sesame\"",
            "policies.a.basic_auth = [\"bob:sesame\"]",
            "policies.a.basic_auth.user = { bob = \"sesame\" }",
            "policies.a.api_keys.kyes.bob = \"sesame\"",
            "upstreams.a.stiky = { cookie = \"sesame\" }",
            "[[upstreams.a.sticky]]\nsecert = 731",
            "[[routes]]\nrewrite.request.set.Authorization = \"Bearer sesame\"",
            "[[routes]]\npasword = \"sesame\"",
        ] {
            let shown = hidden(text);
            assert!(!shown.contains("sesame") && !shown.contains("731") && shown.contains("***"), "{shown}");
        }
    }

    /// Regression test: the admin listener showed disabled settings with their secrets to all users.
    #[test]
    fn secrets_in_comments_are_masked() {
        for text in [
            "[policies.a.jwt]\n# secret = \"sesame\"",
            "[policies.a.jwt]\n  ## secret=\"sesame\"\r\nleeway = \"1s\"",
            "# [policies.a.jwt]\n# secret = \"sesame\"",
            "# telemetry.headers = { x = \"sesame\" }",
            "[mcp.servers.a]\n# auth = { bearer = \"sesame\" }",
            "# password: sesame",
            "# unknown = \"sesame\"",
        ] {
            let shown = hidden(text);
            assert!(!shown.contains("sesame") && shown.contains("***"), "{shown}");
            assert_eq!(shown.len(), text.len());
        }
        for text in ["# workers = 2", "# Note: see the guide.", "# Use b if c = d.", "#"] {
            assert_eq!(hidden(text), text);
        }
    }

    #[test]
    fn secrets_in_arguments_are_masked() {
        let text = "[mcp.servers.a]\ncommand = [\"npx\", \"--access-token\", \"sesame\", \"--api-key=sesame\", \"--token\", \"--verbose\", \"dir\"]";
        let shown = hidden(text);
        assert!(!shown.contains("sesame"), "{shown}");
        assert!(
            shown.contains("\"--access-token\", \"******\"")
                && shown.ends_with("\"--token\", \"--verbose\", \"dir\"]"),
            "{shown}"
        );
    }

    #[test]
    fn values_that_are_not_secret_are_shown() {
        for text in [
            "wrokers = 2",
            "workers = \"two\"",
            "access_log.format = \"jsn\"",
            "[policies.a.jwt]\nissuer = \"i\"\nalgorithms = [\"none\"]\nleeway = \"2h\"",
            "[policies.a]\nallow = [\"::1\"]\ncontent_bytes = 5",
            "[[routes]]\nheaders = { X-User = \"bob\" }\nrewrite.request.set = { X-User = \"bob\" }",
            "[upstreams.a]\nservers = [\"a:1\", { address = \"b:1\" }]\nsticky.cookie = \"c\"",
        ] {
            assert_eq!(hidden(text), text);
        }
    }

    /// Regression test: with a missing quote, the error showed the secret in front of it.
    #[test]
    fn secrets_in_invalid_toml_are_masked() {
        assert_eq!(hidden("[[listeners]]\naddress = \"::1\n"), "[[listeners]]\naddress = \"::1\n");
        let text = "workers = 2\n[policies.a.jwt]\nleeway = \"1s\nsecret = \"sesame\n[policies.b.basic_auth.users]\n\
                    bob = sesame\n[polices.c]\nx = sesame\n[upstreams.a]\nsticky = { secret = sesame }\nsesame==\n";
        let shown = hidden(text);
        assert_eq!(shown.len(), text.len());
        assert!(!shown.contains("sesame"), "{shown}");
        assert!(shown.starts_with("workers = 2\n[policies.a.jwt]\nleeway = \"1s\nsecret**"), "{shown}");
        assert!(shown.contains("\nbob****"), "{shown}");
    }
}
