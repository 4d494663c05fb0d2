//! Tests of trusted proxy settings.

use super::*;

fn proxies(keys: &str) -> Result<String, String> {
    let rest = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    let config = resolved(&format!("{keys}\n{rest}"));
    let line = |config: Config| config.to_string().lines().nth(1).unwrap().to_owned();
    config.map(line).map_err(|failure| failure.to_string())
}

#[test]
fn check_shows_trusted_proxies_and_their_headers() {
    assert_eq!(
        proxies("trusted_proxies = [\"10.0.0.0/8\", \"::1\", \"unix\"]").unwrap(),
        "trusts X-Forwarded-* from proxies at 10.0.0.0/8, ::1, unix"
    );
    let forwarded = "trusted_proxies = [\"192.0.2.1\"]\ntrusted_proxies_write = \"forwarded\"";
    assert_eq!(proxies(forwarded).unwrap(), "trusts Forwarded from proxies at 192.0.2.1");
    assert_eq!(proxies("").unwrap(), "/ and below: the demo");
}

#[test]
fn invalid_trusted_proxy_error_names_its_line() {
    for (keys, message) in [
        ("trusted_proxies = [\"localhost\"]", "not a network"),
        ("trusted_proxies = [\"10.0.0.1/8\"]", "the network of this address is `10.0.0.0/8`"),
        (
            "trusted_proxies = [\"10.0.0.0/40\"]",
            "the prefix length must be at most 32, or at most 128 for IPv6",
        ),
        ("trusted_proxies_write = \"x-real-ip\"", "unknown value `x-real-ip`"),
    ] {
        let failure = proxies(keys).unwrap_err();
        assert!(failure.contains(message) && failure.contains("serve.toml:1"), "{failure}");
        assert!(failure.contains("hint: "), "{failure}");
    }
}
