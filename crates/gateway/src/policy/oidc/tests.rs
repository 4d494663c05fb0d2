mod failures;
mod real_provider;
mod sessions;
mod setup;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;
use setup::Site;

#[test]
fn login_returns_to_the_page_with_a_session() {
    let site = Site::start(|_| {});
    let (mut browser, page) = (site.browser(), "/a/b?c=d%20e");
    let to_provider = browser.page(page);
    assert_eq!(to_provider.status, 303);
    assert_eq!(to_provider.field("cache-control"), Some("no-store"));
    let location = to_provider.field("location").unwrap();
    assert!(location.starts_with(&format!("{}/authorize?ui=dark&", site.provider.issuer)), "{location}");
    let asked = setup::parameters(location);
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "gateway"),
        ("redirect_uri", "https://shop.example/oidc/callback"),
        ("scope", "openid"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(asked[name], value, "{location}");
    }
    let begun = to_provider.cookies();
    assert!(begun[0].starts_with("__Host-thruway-") && begun[0].contains("; Secure; HttpOnly; SameSite=Lax"));
    assert!(!begun[0].contains(&asked["state"]) && !begun[0].contains(&asked["nonce"]), "{begun:?}");

    site.provider.set_nonce(&asked["nonce"]);
    let callback = format!("/oidc/callback?code=c%2F1&state={}", asked["state"]);
    let returned = browser.page(&callback);
    assert_eq!(
        (returned.status, returned.field("location")),
        (303, Some("https://shop.example/a/b?c=d%20e"))
    );
    let form = site.provider.forms().pop().unwrap();
    let form = setup::parameters(&format!("?{form}"));
    assert_eq!((&*form["grant_type"], &*form["code"]), ("authorization_code", "c/1"));
    assert_eq!(form["redirect_uri"], asked["redirect_uri"]);
    let challenge = setup::base64(&Sha256::digest(&form["code_verifier"]));
    assert_eq!(challenge, asked["code_challenge"]);
    // `gateway:s/cret` with both parts encoded like a form.
    assert_eq!(site.provider.credentials(), ["Basic Z2F0ZXdheTpzJTJGY3JldA=="]);

    let shown = browser.get(page, "X-User: root\r\nx_groups: root\r\nCookie: own=1\r\n");
    assert_eq!((shown.status, &*shown.body), (200, "user ada, groups ops, dev, cookies own=1"));
    assert_eq!(site.provider.forms().len(), 1, "the session needs no further requests to the provider");
}

#[test]
fn handler_knows_the_user_and_only_the_used_claims() {
    let site = Site::start(|_| {});
    let mut browser = site.logged_in();
    let shown = browser.page("/user");
    let (user, claims) = shown.body.split_once(": ").unwrap();
    assert_eq!(user, "ada of office");
    let claims: Value = serde_json::from_str(claims).unwrap();
    assert_eq!(claims, json!({ "groups": ["ops", "dev"], "name": "ada", "sub": "5" }));
}

#[test]
fn state_is_valid_once_and_only_in_its_browser() {
    let site = Site::start(|_| {});
    let mut browser = site.browser();
    let callback = browser.begin("/");
    site.provider.set_nonce(&browser.nonce_of(&callback));
    let refused = |response: setup::Received| {
        assert_eq!(response.status, 400, "{}", response.body);
        assert!(response.body.contains("has expired, is already complete, or began in another browser"));
        assert!(response.cookies().is_empty());
    };
    refused(site.browser().page(&callback));
    refused(browser.page("/oidc/callback?code=c&state=unknown"));
    refused(browser.page("/oidc/callback"));
    refused(browser.page(&format!("{callback}&state=second")));
    assert_eq!(browser.page(&callback).status, 303);
    refused(browser.page(&callback));
    assert_eq!(site.provider.forms().len(), 1);
    assert_eq!(browser.request("POST", &callback, "").status, 405);
}

#[test]
fn several_tabs_log_in_at_the_same_time_with_bounded_cookies() {
    let site = Site::start(|_| {});
    let mut browser = site.browser();
    let first = browser.begin("/first");
    let second = browser.begin("/second");
    for (callback, page) in [(first, "/first"), (second, "/second")] {
        // Each login has its own nonce.
        site.provider.set_nonce(&browser.nonce_of(&callback));
        let returned = browser.page(&callback);
        assert_eq!(returned.field("location"), Some(&*format!("https://shop.example{page}")));
    }
    let mut other = site.browser();
    for _ in 0..20 {
        other.begin("/");
    }
    assert_eq!(other.cookie_count(), 4);
}

#[test]
fn login_never_returns_to_another_site() {
    let site = Site::start(|_| {});
    for (page, location) in [
        ("//evil.example/", "https://shop.example//evil.example/"),
        ("/\\evil.example", "https://shop.example/\\evil.example"),
        ("/?to=https://evil.example", "https://shop.example/?to=https://evil.example"),
        (&*format!("/?{}", "x".repeat(3000)), "https://shop.example/"),
    ] {
        let mut browser = site.browser();
        let response = browser.page(page);
        if response.status == 400 {
            continue;
        }
        let callback = browser.callback(&response);
        site.provider.set_nonce(&browser.nonce_of(&callback));
        assert_eq!(browser.page(&callback).field("location"), Some(location), "{page}");
    }
}

#[test]
fn programs_get_401_instead_of_a_redirect() {
    let site = Site::start(|_| {});
    let mut browser = site.browser();
    let page = "Accept: text/html,*/*;q=0.8\r\n";
    for (method, lines) in [
        ("GET", "Accept: application/json\r\n".to_owned()),
        ("GET", "Accept: */*\r\n".to_owned()),
        ("GET", String::new()),
        ("POST", page.to_owned()),
        ("GET", format!("{page}X-Requested-With: XMLHttpRequest\r\n")),
        ("GET", format!("{page}Sec-Fetch-Mode: cors\r\n")),
    ] {
        let response = browser.request(method, "/", &lines);
        assert_eq!(response.status, 401, "{method} {lines}");
        assert_eq!(response.field("www-authenticate"), Some("Cookie realm=\"office\""));
        assert!(response.field("location").is_none() && response.cookies().is_empty());
    }
    assert_eq!(browser.request("GET", "/", &format!("{page}Sec-Fetch-Mode: navigate\r\n")).status, 303);
}

#[test]
fn conditions_admit_only_users_with_the_claims() {
    let condition = |claim: &str, value: &str| ClaimCondition {
        claim: claim.to_owned(),
        values: vec!["other".to_owned(), value.to_owned()],
    };
    let claims = |claims: Value| claims.as_object().unwrap().clone();
    for (claim, value, own, holds) in [
        ("groups", "ops", json!({ "groups": ["dev", "ops"] }), true),
        ("groups", "ops", json!({ "groups": "ops" }), true),
        ("groups", "ops", json!({ "groups": ["dev", "ops2", 5] }), false),
        ("groups", "ops", json!({ "groups": { "ops": true } }), false),
        ("groups", "ops", json!({}), false),
        ("email", "*@example.com", json!({ "email": "a@example.com" }), true),
        ("email", "*@example.com", json!({ "email": "a@example.com", "email_verified": true }), true),
        ("email", "*@example.com", json!({ "email": "a@example.com", "email_verified": false }), false),
        ("email", "*@example.com", json!({ "email": "a@example.com", "email_verified": "true" }), false),
        ("email", "*@example.com", json!({ "email": "@example.com" }), false),
        ("email", "*@example.com", json!({ "email": "a@example.com.evil" }), false),
    ] {
        assert_eq!(condition(claim, value).holds(&claims(own.clone())), holds, "{claim} {own}");
    }
    let site = Site::start(|config| config.conditions = vec![condition("groups", "admins")]);
    let refused = site.logged_in().page("/");
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("no access") && refused.body.contains("/oidc/logout"), "{}", refused.body);
    for (own, is_verified) in [
        (json!({}), true),
        (json!({ "email_verified": true }), true),
        (json!({ "email_verified": false }), false),
        (json!({ "email_verified": "true" }), false),
    ] {
        assert_eq!(is_email_verified(&claims(own.clone())), is_verified, "{own}");
    }
    let without_name = Site::start(|config| config.user_claim = "email".to_owned());
    assert_eq!(without_name.logged_in().page("/").status, 403);
}

#[test]
fn logout_removes_the_session_and_informs_the_provider() {
    let site = Site::start(|_| {});
    let mut browser = site.logged_in();
    let refused = browser.get("/oidc/logout", "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!((refused.status, browser.page("/").status), (403, 200));
    let end = browser.page("/oidc/logout");
    assert_eq!(end.status, 303);
    let location = end.field("location").unwrap();
    assert!(location.starts_with(&format!("{}/end?client_id=gateway&", site.provider.issuer)), "{location}");
    assert_eq!(setup::parameters(location)["post_logout_redirect_uri"], "https://shop.example/");
    assert_eq!(browser.cookie_count(), 0);
    assert_eq!(browser.page("/").status, 303);

    let site = Site::start(|_| {});
    site.provider.set(|answers| answers.metadata["end_session_endpoint"] = Value::Null);
    let mut browser = site.logged_in();
    let end = browser.page("/oidc/logout");
    assert_eq!((end.status, &*end.body, browser.cookie_count()), (200, "You are logged out.\n", 0));
}

#[test]
fn debug_output_and_description_contain_no_secrets() {
    let site = Site::start(|config| {
        config.conditions = vec![ClaimCondition {
            claim: "groups".to_owned(),
            values: vec!["ops".to_owned(), "dev".to_owned()],
        }];
    });
    let printed = format!("{:?} {:?}", site.config, Oidc::new("office".into(), site.config.clone()));
    assert!(!printed.contains("s/cret") && !printed.contains("ssssssss"), "{printed}");
    let description = format!("login at {}, groups is ops or dev", site.provider.issuer);
    assert_eq!(site.config.to_string(), description);
}
