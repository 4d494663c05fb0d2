//! What is said about listeners, and what is wrong with it.

use super::*;

/// What `check` says of a listener with `keys`, or what is wrong.
fn listener(keys: &str) -> Result<String, String> {
    let config = resolved(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n{keys}\n[[routes]]\npath = \"/\"\ndemo = true\n"
    ));
    config.map(|config| config.listeners[0].to_string()).map_err(|failure| failure.to_string())
}

#[test]
fn proxies_are_believed_from_everywhere_or_from_networks() {
    for (keys, said) in [
        ("", "127.0.0.1:1"),
        ("proxy_protocol = false", "127.0.0.1:1"),
        ("proxy_protocol = true", "127.0.0.1:1, behind PROXY headers"),
        ("proxy_protocol = {}", "127.0.0.1:1, behind PROXY headers"),
        (
            "proxy_protocol = { from = [\"10.0.0.0/8\", \"::1\"] }",
            "127.0.0.1:1, behind PROXY headers from 10.0.0.0/8, ::1/128",
        ),
    ] {
        assert_eq!(listener(keys).as_deref(), Ok(said));
    }
}

#[test]
fn what_is_wrong_with_a_listener_is_shown_where_it_is() {
    for (keys, message) in [
        ("proxy_protocol = \"v1\"", "expected `true` or a table with `from`"),
        ("proxy_protocol = { to = [] }", "unknown key `to`"),
        ("proxy_protocol = { from = [\"10.0.0.0/33\"] }", "`10.0.0.0/33` is not a network"),
    ] {
        let failure = listener(keys).unwrap_err();
        assert!(failure.contains(message) && failure.contains("serve.toml:3"), "{failure}");
    }
}
