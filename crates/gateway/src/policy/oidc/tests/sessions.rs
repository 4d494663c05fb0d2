//! The end, the keys and the refresh of sessions.

use std::collections::BTreeMap;

use serde_json::json;

use super::setup::{Answer, Browser, Site};
use super::*;

fn now() -> u64 {
    since_epoch(&Clock::system()).as_secs()
}

/// Returns a session with this time of the next refresh.
fn session(refresh_at: u64) -> Session {
    let claims = json!({ "sub": "5", "name": "ada", "groups": ["ops"] });
    let claims = claims.as_object().unwrap().clone();
    Session { claims, ends: now() + 1000, refresh_at, refresh_token: Some("first".to_owned()) }
}

#[test]
fn session_ends_and_cannot_be_changed() {
    let site = Site::start(|_| {});
    let valid = session(now() + 500);
    assert_eq!(site.with_session(&valid).page("/").status, 200);
    assert_eq!(site.with_session(&Session { ends: now(), ..valid.clone() }).page("/").status, 303);
    let mut browser = site.with_session(&valid);
    let cookies = browser.replace_cookies(BTreeMap::new());
    let changed = cookies.into_iter().map(|(name, value)| (name, value.replacen(['a', 'b'], "c", 1)));
    browser.replace_cookies(changed.collect());
    assert_eq!(browser.page("/").status, 303);
}

#[test]
fn replicas_accept_sessions_of_each_other_while_secrets_are_replaced() {
    let site = Site::start(|_| {});
    let (old, new) = ("s".repeat(32), "n".repeat(32));
    let secrets = |text: &str| OidcSecrets::from_lines(text).unwrap();
    let both = site.replica(|config| config.secrets = secrets(&format!("{new}\n{old}")));
    let only_new = site.replica(|config| config.secrets = secrets(&new));
    let mut browser = site.logged_in();
    let status_at = |browser: &mut Browser, server: &_| {
        browser.move_to(server);
        browser.page("/").status
    };
    assert_eq!(status_at(&mut browser, &both), 200);
    assert_eq!(status_at(&mut browser, &only_new), 303);
    let other = site.replica(|config| config.client_id = "other".to_owned());
    assert_eq!(status_at(&mut browser, &other), 303, "the session belongs to another client id");
}

#[test]
fn refresh_updates_the_session_and_is_shared() {
    let site = Site::start(|_| {});
    site.provider.set(|answers| {
        answers.refresh_token = Some("second".to_owned());
        answers.claims["groups"] = json!(["new"]);
    });
    let mut browser = site.with_session(&session(now()));
    let before = browser.replace_cookies(BTreeMap::new());
    browser.replace_cookies(before.clone());
    let shown = browser.page("/");
    assert_eq!((shown.status, &*shown.body), (200, "user ada, groups new, cookies "));
    assert_eq!(shown.cookies().len(), 1);
    assert_eq!(site.provider.forms(), ["grant_type=refresh_token&refresh_token=first"]);
    assert!(browser.page("/").cookies().is_empty(), "the new cookie needs no refresh");
    // The browser has sent further requests before it has received the new cookie.
    browser.replace_cookies(before);
    assert_eq!(browser.page("/").body, "user ada, groups new, cookies ");
    assert_eq!(site.provider.forms().len(), 1);
}

#[test]
fn session_ends_if_the_provider_refuses_the_refresh() {
    for (claim, value) in [("sub", "6"), ("iss", "https://evil.example")] {
        let site = Site::start(|_| {});
        site.provider.set(|answers| answers.claims[claim] = value.into());
        assert_eq!(site.with_session(&session(now())).page("/").status, 303);
    }
    let site = Site::start(|_| {});
    let refused = Answer::Other(400, json!({ "error": "invalid_grant" }));
    site.provider.set(|answers| answers.token = refused);
    let mut browser = site.with_session(&session(now()));
    let program = browser.request("GET", "/", "Accept: application/json\r\n");
    assert_eq!((program.status, program.field("www-authenticate")), (401, Some("Cookie realm=\"office\"")));
    assert_eq!(browser.cookie_count(), 0);
    assert_eq!(site.with_session(&session(now())).page("/").status, 303);
}

#[test]
fn session_survives_a_short_failure_of_the_provider() {
    let site = Site::start(|config| config.refresh_interval = Duration::from_secs(100));
    site.provider.set(|answers| answers.token = Answer::Other(500, json!({})));
    let mut browser = site.with_session(&session(now() - 10));
    assert_eq!(browser.page("/").status, 200);
    let asked = site.provider.forms().len();
    assert_eq!((browser.page("/").status, asked), (200, 1));
    assert_eq!(site.provider.forms().len(), 1, "the next refresh waits");
    assert_eq!(site.with_session(&session(now() - 200)).page("/").status, 503);
    site.provider.set(|answers| answers.token = Answer::Tokens);
    assert_eq!(site.with_session(&session(now() - 200)).page("/").status, 200);
}
