//! What of a config is not shown to anybody: excerpts of it stand in errors, and errors in logs.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Span;

/// `text` with stars in place of values that are secret, or would be if somebody had written a password where its hash
/// belongs. All octets stay where they are. What is no TOML has no values, and is returned as it is.
pub(super) fn hidden(text: &str) -> String {
    let mut spans = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        for (_, policy) in entries(table.get_ref(), "policies") {
            let kind = |name| policy.get_ref().as_table().and_then(|policy| policy.get(name));
            hide(kind("basic_auth"), "users", &mut spans);
            hide(kind("api_keys"), "keys", &mut spans);
            hide(kind("jwt"), "secret", &mut spans);
        }
        for (_, upstream) in entries(table.get_ref(), "upstreams") {
            let sticky = upstream.get_ref().as_table().and_then(|upstream| upstream.get("sticky"));
            hide(sticky, "secret", &mut spans);
        }
    }
    let mut shown = text.to_owned();
    for span in spans {
        let stars: String = text[span.clone()].chars().flat_map(stars_for).collect();
        shown.replace_range(span, &stars);
    }
    shown
}

/// As many octets as `c` has; quotes and the ends of lines stay.
fn stars_for(c: char) -> impl Iterator<Item = char> {
    let (star, times) = if matches!(c, '"' | '\'' | '\n' | '\r') { (c, 1) } else { ('*', c.len_utf8()) };
    std::iter::repeat_n(star, times)
}

type Value<'a> = Spanned<DeValue<'a>>;

fn entries<'t, 'a>(table: &'t DeTable<'a>, name: &str) -> impl Iterator<Item = (&'t str, &'t Value<'a>)> {
    let table = table.get(name).and_then(|value| value.get_ref().as_table());
    table.into_iter().flat_map(|table| table.iter().map(|(name, value)| (&**name.get_ref(), value)))
}

/// Adds the texts of `key` in `table`: one, or those of a table.
fn hide(table: Option<&Value<'_>>, key: &str, spans: &mut Vec<Span>) {
    let Some(value) = table.and_then(|table| table.get_ref().as_table()).and_then(|table| table.get(key))
    else {
        return;
    };
    match value.get_ref() {
        DeValue::Table(table) => spans.extend(table.iter().map(|(_, value)| value.span())),
        _ => spans.push(value.span()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_become_stars_and_nothing_moves() {
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
}
