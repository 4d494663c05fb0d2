//! Tests of errors about keys and their values: their number, and their hints.

use super::*;

const SITE: &str = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";

/// Returns the line numbers and messages of all findings about a config.
fn findings(text: &str) -> Vec<(usize, String)> {
    let failure = resolved(text).err().unwrap_or_else(|| panic!("{text}"));
    failure.findings().iter().map(|one| (one.line().unwrap_or_default(), one.message())).collect()
}

/// Returns the text of the errors about a config.
fn errors(text: &str) -> String {
    resolved(text).err().unwrap_or_else(|| panic!("{text}")).to_string()
}

#[test]
fn all_unknown_keys_are_reported_together_with_other_errors() {
    let text = format!("wokers = 1\nconnections_max = 0\n{SITE}[limits]\nheadrs = 1\nbody = 5\n");
    assert_eq!(
        findings(&text),
        [
            (1, "unknown key `wokers`".to_owned()),
            (9, "unknown key `headrs`".to_owned()),
            (10, "unknown key `body`".to_owned()),
            (2, "the value must be from 1 to 10000000".to_owned()),
        ]
    );
}

#[test]
fn all_values_of_the_wrong_type_are_reported_together() {
    let text = format!("workers = \"two\"\nwokers = 1\n{SITE}[timeouts]\nidle = 5\nheader = \"soon\"\n");
    let found = findings(&text);
    let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 9, 10], "{found:?}");
}

/// A wrong key of a route must not cause further errors about the same route.
#[test]
fn unknown_key_hides_errors_about_the_same_table_only() {
    let text = format!("workers = 0\n{SITE}[[routes]]\npath = \"/a\"\nupsteam = \"a\"\n");
    let found: Vec<_> = findings(&text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(found, [9, 1]);
    // The route names an upstream of the misspelled section.
    let text = format!(
        "workers = 0\n{SITE}[upstream.a]\nservers = []\n[[routes]]\npath = \"/a\"\nupstream = \"a\"\n"
    );
    assert_eq!(findings(&text), [(7, "unknown key `upstream`".to_owned())]);
}

#[test]
fn number_of_reported_keys_is_bounded() {
    let keys: String = (0..200).flat_map(|number| [format!("x{number}"), " = 1\n".to_owned()]).collect();
    assert_eq!(findings(&format!("{keys}{SITE}")).len(), 51);
}

#[test]
fn hint_names_the_table_of_a_misplaced_key() {
    let route = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n";
    for (text, hint) in [
        (
            format!("{route}[routes.rewrite]\npath = \"/b\"\npolicies = [\"a\"]\n"),
            "`policies` is a key of `[[routes]]`: write it above `[routes.rewrite]`",
        ),
        (
            format!("{SITE}[limits]\nworkers = 2\n"),
            "`workers` is a top-level key: write it above `[limits]` and all other sections",
        ),
        (
            format!(
                "{route}[upstreams.a]\nservers = []\n[upstreams.a.check]\npath = \"/\"\nbalance = \"hash\"\n"
            ),
            "`balance` is a key of `[upstreams.a]`: write it above `[upstreams.a.check]`",
        ),
        (format!("body_bytes = 5\n{SITE}"), "`body_bytes` is a key of `[limits]`"),
        (
            format!("{SITE}[limits]\nmetrics_interval = \"1s\"\n"),
            "`metrics_interval` is a key of `[telemetry]`",
        ),
    ] {
        let failure = errors(&text);
        assert!(failure.contains(hint), "{hint}: {failure}");
    }
}

#[test]
fn hints_about_types_have_an_example_value() {
    for (text, message) in [
        ("[[listeners]]\naddress = 8080\n", "hint: write an address in quotes: `\"127.0.0.1:8080\"`"),
        (
            "[timeouts]\nidle = 45\n",
            "invalid type: integer `45`, expected a duration in quotes, such as `\"10s\"`",
        ),
        ("[timeouts]\nidle = 45\n", "durations need a unit: `\"45s\"`"),
        ("[[routes]]\nmethods = \"GET\"\n", "hint: write a list in brackets: `methods = [\"…\"]`"),
        ("batch_sends = \"yes\"\n", "hint: write `true` or `false` without quotes"),
    ] {
        let failure = errors(text);
        assert!(failure.contains(message), "{message}: {failure}");
    }
}

/// Regression test: a dollar sign as `$$` counted as an environment variable. The message then showed `$$$uri`.
#[test]
fn variables_of_nginx_get_a_hint_with_the_placeholder() {
    let files = |entry: &str| {
        errors(&format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nfiles = {{ root = \".\", try_files = [\"{entry}\"] }}\n"
        ))
    };
    let escaped = files("$$uri/index.html");
    assert!(escaped.contains("error: `$uri/index.html` is not a file to try"), "{escaped}");
    assert!(
        escaped.contains("hint: write `{path}/index.html` in place of `$uri/index.html` of nginx"),
        "{escaped}"
    );
    let unescaped = files("$uri");
    assert!(
        unescaped.contains("hint: write `{path}` in place of the variable `$uri` of nginx"),
        "{unescaped}"
    );
    let other = files("$HOME");
    assert!(other.contains("hint: write a dollar sign as `$$`, and a variable as `${NAME}`"), "{other}");
}

#[test]
fn message_replaces_a_private_value_once() {
    let replaced = failure::without_value("`abcd` is wrong".to_owned(), "abcd", "${abcd}", true);
    assert_eq!(replaced, "`${abcd}` is wrong");
}

#[test]
fn stars_in_an_excerpt_are_explained() {
    let failure = errors(&format!("{SITE}[policies.a.jwt]\nsecret = 5\n"));
    assert!(failure.contains("note: stars replace a value that may be secret"), "{failure}");
    assert!(!errors(&format!("wokers = 1\n{SITE}")).contains("note:"));
}

#[test]
fn header_that_thruway_writes_gets_its_own_hint() {
    let rule = |name: &str| errors(&format!("{SITE}response_rules = [{{ set = {{ {name} = \"a\" }} }}]\n"));
    assert!(rule("Server").contains("Thruway writes this header if it is absent: remove this rule"));
    assert!(rule("Via").contains("use the keys of the upstream for these headers"));
    assert!(rule("Connection").contains("Thruway writes this header for each connection or message"));
}

#[test]
fn line_of_a_users_file_is_an_error_with_the_path_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.txt");
    std::fs::write(&file, "# users\nada\n").unwrap();
    let failure = errors(&format!("{SITE}[policies.a.basic_auth]\nusers_file = \"{}\"\n", file.display()));
    assert!(failure.contains(&format!("line 2 of `{}` is not `NAME:VALUE`", file.display())), "{failure}");
}

/// Regression test: the error marked `[[routes]]`.
#[test]
fn missing_root_is_an_error_at_its_key() {
    let text =
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nfiles.root = \"/none/such\"\n";
    let config = resolved(text).unwrap_or_else(|failure| panic!("{failure}"));
    let failure = crate::routes::build(&config, &crate::routes::Parts::default()).err().unwrap();
    assert_eq!(failure.findings()[0].line(), Some(5), "{failure}");
}
