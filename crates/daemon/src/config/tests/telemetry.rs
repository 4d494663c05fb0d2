//! Tests of the telemetry section.

use super::*;

fn with_telemetry(keys: &str) -> Result<Config, Failure> {
    resolved(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nrespond.status = 204\n\
         [telemetry]\n{keys}\n"
    ))
}

/// Regression test: Thruway ignored the query, so a collector never got an API key in the query.
#[test]
fn url_of_a_collector_is_refused_with_its_reason() {
    for (url, hint) in [
        ("http://a:4318/?api_key=k", "remove the query: write API keys in `headers`"),
        ("http://a:4318/#x", "remove the fragment"),
        ("http://bob:sesame@a:4318", "write `Authorization` in `headers`"),
        ("grpc://a:4317/v1/traces", "remove the path"),
        ("http://a:0", "the port is 0"),
        ("a:4318", "write `http://HOST:4318`"),
        ("ftp://a", "write `http://HOST:4318`"),
        ("http://a:99999", "write `http://HOST:4318`"),
    ] {
        let failure = with_telemetry(&format!("otlp = \"{url}\"")).err().unwrap().to_string();
        assert!(failure.contains("error: this is not the URL of a collector"), "{failure}");
        assert!(failure.contains(hint) && !failure.contains("sesame"), "{failure}");
    }
}

#[test]
fn headers_that_thruway_writes_itself_are_refused() {
    for name in ["Host", "User-Agent", "Upgrade", "Expect", "Content-Encoding", "grpc-encoding", "x y"] {
        let failure = with_telemetry(&format!("otlp = \"http://a\"\nheaders = {{ \"{name}\" = \"x\" }}"));
        let failure = failure.err().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(failure.contains("this is not a header that Thruway can send"), "{failure}");
    }
}

#[test]
fn service_name_has_no_control_characters() {
    let failure = with_telemetry("otlp = \"http://a\"\nservice_name = \"a\\nb\"").err().unwrap().to_string();
    assert!(failure.contains("the name contains a control character"), "{failure}");
}

#[test]
fn missing_root_certificate_is_shown_at_its_key() {
    let failure = with_telemetry("otlp = \"https://a\"\nroots = [\"absent.pem\"]").err().unwrap().to_string();
    assert!(failure.contains("roots = [\"absent.pem\"]") && failure.contains("absent.pem`"), "{failure}");
}
