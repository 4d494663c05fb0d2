//! Tests of compression settings.

use thruway_server::ContentCoding;
use thruway_server::layers::Compression;

use super::*;

/// Returns the compression of a route with the keys `route`, in a config with the server keys `server`.
fn compression(server: &str, route: &str) -> Result<Option<Compression>, String> {
    let text = format!(
        "{server}\n[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n{route}\n"
    );
    resolved(&text).map(|config| config.routes[0].compression.clone()).map_err(|failure| failure.to_string())
}

#[test]
fn example_config_shows_compression_defaults() {
    let config = resolved(EXAMPLE).unwrap();
    assert_eq!(config.routes[0].compression, Some(Compression::new()));
    assert_eq!(config.routes[1].compression, None);
}

#[test]
fn route_compression_overrides_server_compression() {
    let on = Some(Compression::new());
    for (server, route, expected) in [
        ("", "", None),
        ("compression = true", "", on.clone()),
        ("compression = false", "", None),
        ("compression = true", "compression = false", None),
        ("", "compression = true", on.clone()),
        ("compression = {}", "", on.clone()),
        (
            "compression = { bytes_min = 10 }",
            "compression = { streams_max = 5 }",
            Some(Compression::new().streams_max(5)),
        ),
        (
            "compression = { codings = [\"gzip\"], levels = { gzip = 1, br = 6 }, types = [\"text/html\"] }",
            "",
            Some(Compression::new().codings([(ContentCoding::Gzip, 1)]).types(["text/html"]).unwrap()),
        ),
    ] {
        assert_eq!(compression(server, route).unwrap(), expected, "{server} {route}");
    }
}

#[test]
fn invalid_compression_settings_are_errors() {
    for (keys, message) in [
        ("codings = []", "`codings` is empty"),
        ("codings = [\"deflate\"]", "unknown value `deflate`"),
        ("codings = [\"gzip\", \"br\", \"gzip\"]", "`gzip` is listed twice"),
        ("levels.gzip = 0", "the value must be from 1 to 9"),
        ("levels.br = 7", "the value must be from 1 to 6"),
        ("levels.zstd = 13", "the value must be from 1 to 12"),
        ("levels.zstd = \"best\"", "expected"),
        ("levels.deflate = 1", "unknown key `deflate`"),
        ("types = []", "`types` is empty"),
        ("types = [\"text/html\", \"html\"]", "not a media type"),
        ("types = \"text/html\"", "expected an array"),
        ("bytes_min = -1", "expected"),
        ("level = 5", "unknown key `level`"),
    ] {
        let failure = compression("", &format!("compression = {{ {keys} }}")).unwrap_err();
        assert!(failure.contains(message), "{keys}: {failure}");
    }
    let failure = compression("compression = \"yes\"", "").unwrap_err();
    assert!(failure.contains("expected `true`, `false` or a table"), "{failure}");
}

#[test]
fn check_shows_compression_of_a_route() {
    let text = "compression = true\n[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    let shown = resolved(text).unwrap().to_string();
    assert!(
        shown.contains("the demo; compressed by zstd at level 3, br at level 4, gzip at level 5"),
        "{shown}"
    );
}
