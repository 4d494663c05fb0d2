//! Failures of the provider and of ID tokens.

use serde_json::json;

use super::setup::{Answer, Answers, Received, Site};
use super::*;

/// Returns the response to the callback, if the provider is changed by `change` after the login has begun.
fn callback(site: &Site, more: &str, change: impl FnOnce(&mut Answers)) -> Received {
    let mut browser = site.browser();
    let callback = browser.begin("/");
    site.provider.set_nonce(&browser.nonce_of(&callback));
    site.provider.set(change);
    let response = browser.page(&format!("{callback}{more}"));
    assert_eq!(response.cookies().len(), if response.status == 303 { 2 } else { 1 });
    assert_eq!(browser.cookie_count(), usize::from(response.status == 303), "the login cookie is removed");
    response
}

#[test]
fn invalid_id_tokens_give_no_session() {
    let now = since_epoch(&Clock::system()).as_secs();
    for (name, value) in [
        ("nonce", json!("other")),
        ("nonce", Value::Null),
        ("aud", json!("other")),
        ("aud", json!(["other", "third"])),
        ("iss", json!("https://evil.example")),
        ("exp", json!(now - 60)),
        ("iat", Value::Null),
        ("azp", json!("other")),
        ("name", json!("x".repeat(5000))),
    ] {
        let site = Site::start(|_| {});
        let response = callback(&site, "", |answers| match &value {
            Value::Null => drop(answers.claims.as_object_mut().unwrap().remove(name)),
            value => answers.claims[name] = value.clone(),
        });
        assert_eq!(response.status, 502, "{name} {value}");
        assert_eq!(response.body, "502 Bad Gateway\nThe login provider sent no valid response.\n");
    }
    let site = Site::start(|_| {});
    assert_eq!(callback(&site, "", |answers| answers.seed = 2).status, 502);
    let site = Site::start(|_| {});
    assert_eq!(
        callback(&site, "", |answers| answers.claims["aud"] = json!(["gateway", "other"])).status,
        303
    );
}

#[test]
fn failures_of_the_token_endpoint_give_no_session() {
    let other = |status, content| Answer::Other(status, content);
    for (token, status) in [
        (other(500, json!("failure")), 502),
        (other(503, json!({ "error": "down" })), 502),
        (other(401, json!({ "error": "invalid_client" })), 502),
        (other(400, json!({ "error": "invalid_grant" })), 403),
        (other(200, json!({ "access_token": "a" })), 502),
        (other(200, json!({ "id_token": "a.b.c" })), 502),
        (other(200, json!({ "access_token": "a", "id_token": "a.b.c" })), 502),
        (other(200, json!("x".repeat(300 << 10))), 502),
    ] {
        let site = Site::start(|_| {});
        assert_eq!(callback(&site, "", |answers| answers.token = token).status, status);
    }
}

#[test]
fn silent_provider_gets_503_after_the_timeout() {
    let site = Site::start(|_| {});
    let replica = site.replica(|config| config.timeout = Duration::from_millis(700));
    let mut browser = site.browser();
    browser.move_to(&replica);
    let callback = browser.begin("/");
    site.provider.set(|answers| answers.token = Answer::Silence);
    let response = browser.page(&callback);
    assert_eq!((response.status, response.field("retry-after")), (503, Some("10")));
}

#[test]
fn errors_of_the_provider_reach_the_user() {
    for (more, status, text) in [
        ("&error=access_denied", 403, "reports `access_denied`"),
        ("&error=temporarily_unavailable", 503, "reports `temporarily_unavailable`"),
        ("&error=%0d%0a%1b%5b%3Cb%3E%F0%9F%98%80", 403, "reports `[<b>`"),
        ("&iss=https://evil.example", 400, "sent an incomplete redirect"),
        ("&iss=https://evil.example&error=access_denied", 400, "sent an incomplete redirect"),
    ] {
        let site = Site::start(|_| {});
        let response = callback(&site, more, |_| {});
        assert_eq!(response.status, status, "{more}");
        assert!(response.body.contains(text), "{more}: {}", response.body);
        assert!(site.provider.forms().is_empty(), "the gateway does not use the code");
    }
}

#[test]
fn missing_issuer_is_an_error_if_the_provider_sends_it() {
    let site = Site::start(|_| {});
    site.provider.set(|answers| {
        answers.metadata["authorization_response_iss_parameter_supported"] = json!(true);
    });
    assert_eq!(callback(&site, "", |_| {}).status, 400);
    let more = format!("&iss={}", site.provider.issuer);
    assert_eq!(callback(&site, &more, |_| {}).status, 303);
}

#[test]
fn page_gets_503_until_the_metadata_is_valid() {
    let set = |name: &'static str, value: Value| move |answers: &mut Answers| answers.metadata[name] = value;
    for (name, value) in [
        ("issuer", json!("https://other.example")),
        ("token_endpoint", Value::Null),
        ("token_endpoint", json!("http://login.example/token")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
        ("jwks_uri", json!("http://login.example/jwks")),
    ] {
        let site = Site::start(|_| {});
        let mut before = Value::Null;
        site.provider.set(|answers| before = answers.metadata[name].clone());
        site.provider.set(set(name, value));
        let mut browser = site.browser();
        assert_eq!(browser.page("/").status, 503, "{name}");
        site.provider.set(set(name, before));
        // The next fetch starts after a pause of a millisecond.
        let end = Clock::system().now_exact() + Duration::from_secs(20);
        while browser.page("/").status != 303 {
            assert!(Clock::system().now_exact() < end, "{name}");
        }
    }
}

#[test]
fn errors_name_the_cause() {
    for (error, text) in [
        (ProviderError::NoMetadata, "the metadata or the keys of the provider cannot be fetched"),
        (ProviderError::Status(500, String::new()), "the token endpoint responded with status 500"),
        (
            ProviderError::Status(400, "invalid_grant".to_owned()),
            "the token endpoint responded with status 400 and the error `invalid_grant`",
        ),
        (ProviderError::NoMember("id_token"), "the response of the token endpoint has no `id_token`"),
        (ProviderError::IdToken("reason"), "the ID token is invalid: reason"),
        (ProviderError::Callback("reason"), "the redirect of the provider is invalid: reason"),
        (ProviderError::TimedOut, "the provider did not respond in time"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
