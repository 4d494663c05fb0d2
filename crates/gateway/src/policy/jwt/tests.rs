use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD as STANDARD, BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};
use thruway_client::DocumentConfig;
use thruway_net::Clock;
use thruway_server::{Response, Router, RunningServer, Server, StatusCode};
use thruway_testkit::test_server::TestServer;

use super::*;
use crate::policy::scene::{ask, challenge, outcome, scene, scene_of};
use crate::policy::{Policy, PolicyConfig};

const SECRET: &str = "a secret of at least thirty-two bytes";

fn ed25519(seed: u8) -> EncodingKey {
    // An Ed25519 key in PKCS #8: a fixed header and 32 bytes.
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend([seed; 32]);
    EncodingKey::from_ed_der(&der)
}

fn key_set() -> String {
    let keys: Vec<_> = [(1, "one"), (2, "two")]
        .into_iter()
        .map(|(seed, id)| {
            let mut key = Jwk::from_encoding_key(&ed25519(seed), Algorithm::EdDSA).unwrap();
            key.common.key_id = Some(id.to_owned());
            key
        })
        .collect();
    json!({ "keys": keys }).to_string()
}

fn config(keys: JwtKeys) -> JwtConfig {
    JwtConfig {
        rules: JwtRules {
            issuer: Some("https://login.example".to_owned()),
            audience: vec!["api".to_owned()],
            required_claims: vec!["sub".to_owned()],
            ..JwtRules::default()
        },
        fields: vec![("X-User".to_owned(), "name".to_owned())],
        ..JwtConfig::new(keys)
    }
}

fn with_set() -> TestServer {
    scene(PolicyConfig::Jwt(config(JwtKeys::from_set(&key_set()).unwrap())))
}

fn claims() -> Value {
    let now = get_current_timestamp();
    json!({ "iss": "https://login.example", "aud": "api", "sub": "5", "name": "ada", "exp": now + 600 })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn header(id: &str) -> Header {
    Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::EdDSA) }
}

fn ask_with_token(scene: &TestServer, token: &str) -> String {
    ask(scene, &format!("X-User: root\r\nAuthorization: Bearer {token}\r\n"))
}

/// Status and user for a correctly signed token with these claims.
fn with_claims(claims: &Value) -> String {
    let token = encode(&header("two"), claims, &ed25519(2)).unwrap();
    let answer = ask_with_token(&with_set(), &token);
    let (status, content) = outcome(&answer);
    format!("{status} {}", content.trim_end())
}

#[test]
fn valid_token_passes_claims_as_headers() {
    assert_eq!(with_claims(&claims()), "200 user ada");
    assert_eq!(with_claims(&with("name", json!(["a", "b"]))), "200 user a, b");
    assert_eq!(with_claims(&with("name", json!("a, b"))), "200 user a, b", "a string, not a list");
    assert_eq!(with_claims(&with("name", json!(5))), "200 user 5");
    assert_eq!(with_claims(&with("name", Value::Null)), "200 user");
    let secret = scene(PolicyConfig::Jwt(config(JwtKeys::from_secret(SECRET).unwrap())));
    let token = encode(&Header::default(), &claims(), &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
    assert_eq!(outcome(&ask_with_token(&secret, &token)), ("200", "user ada"));
}

#[test]
fn token_with_invalid_claims_gets_401() {
    let now = get_current_timestamp();
    let mut without_subject = claims();
    without_subject.as_object_mut().unwrap().remove("sub");
    let mut without_end = claims();
    without_end.as_object_mut().unwrap().remove("exp");
    for claims in [
        with("exp", json!(now - 31)),
        with("exp", json!("soon")),
        with("nbf", json!(now + 60)),
        with("iss", json!("https://login.example.evil")),
        with("aud", json!("other")),
        with("name", json!("ada\r\nX-Admin: yes")),
        with("name", json!(" ada")),
        with("name", json!({ "name": "ada" })),
        with("name", json!(["a,b"])),
        without_subject,
        without_end,
    ] {
        assert_eq!(with_claims(&claims), "401 401 Unauthorized", "{claims}");
    }
    assert_eq!(with_claims(&with("exp", json!(now - 20))), "200 user ada", "clocks may differ by 30 seconds");
}

#[test]
fn token_with_invalid_signature_gets_401() {
    let scene = with_set();
    let good = encode(&header("one"), &claims(), &ed25519(1)).unwrap();
    assert_eq!(outcome(&ask_with_token(&scene, &good)).0, "200");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let public: Value = serde_json::from_str(&key_set()).unwrap();
    let public = public["keys"][0]["x"].as_str().unwrap().to_owned();
    let as_secret = EncodingKey::from_secret(public.as_bytes());
    let critical = Header { crit: Some(vec!["x".to_owned()]), ..header("one") };
    for token in [
        // The header is `{"alg":"none"}`.
        format!("eyJhbGciOiJub25lIn0.{}.", signed.split('.').nth(1).unwrap()),
        format!("{signed}."),
        format!("{signed}.{}{signature}", "A"),
        encode(&header("one"), &claims(), &ed25519(2)).unwrap(),
        encode(&header("three"), &claims(), &ed25519(1)).unwrap(),
        encode(&Header::new(Algorithm::EdDSA), &claims(), &ed25519(3)).unwrap(),
        // The public key, used as a shared secret.
        encode(&Header::new(Algorithm::HS256), &claims(), &as_secret).unwrap(),
        encode(&critical, &claims(), &ed25519(1)).unwrap(),
        "..".to_owned(),
        "x".repeat(10_000),
        "\u{fe}.\u{fe}.\u{fe}".to_owned(),
    ] {
        let answer = ask_with_token(&scene, &token);
        assert_eq!(outcome(&answer).0, "401", "{token}");
        assert_eq!(challenge(&answer), Some("Bearer realm=\"office\", error=\"invalid_token\""));
    }
    let twice = format!("Authorization: Bearer {good}\r\n").repeat(2);
    assert_eq!(outcome(&ask(&scene, &twice)).0, "401");
    assert_eq!(challenge(&ask(&scene, "")), Some("Bearer realm=\"office\""));
}

#[test]
fn policy_can_restrict_the_algorithms_of_its_keys() {
    let keys = JwtKeys::from_secret(SECRET).unwrap();
    assert!(keys.are_for(Algorithm::HS512) && !keys.are_for(Algorithm::RS256));
    let mut only = config(keys);
    only.rules.algorithms = vec![Algorithm::HS512];
    let scene = scene(PolicyConfig::Jwt(only));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = |algorithm| encode(&Header::new(algorithm), &claims(), &key).unwrap();
    assert_eq!(outcome(&ask_with_token(&scene, &token(Algorithm::HS512))).0, "200");
    assert_eq!(outcome(&ask_with_token(&scene, &token(Algorithm::HS256))).0, "401");
}

/// `SubjectPublicKeyInfo` of an Ed25519 key (RFC 8410 §4) in PEM.
fn ed25519_pem(seed: u8) -> String {
    let jwk = Jwk::from_encoding_key(&ed25519(seed), Algorithm::EdDSA).unwrap();
    let point = serde_json::to_value(&jwk).unwrap()["x"].as_str().unwrap().to_owned();
    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend(URL_SAFE_NO_PAD.decode(point).unwrap());
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

#[test]
fn tokens_are_verified_with_pem_keys() {
    let text = format!("the first\n{}and the next\n{}", ed25519_pem(1), ed25519_pem(2));
    let keys = JwtKeys::from_file(&text).unwrap();
    let scene = scene(PolicyConfig::Jwt(config(keys)));
    for (seed, status) in [(1, "200"), (2, "200"), (3, "401")] {
        let token = encode(&Header::new(Algorithm::EdDSA), &claims(), &ed25519(seed)).unwrap();
        let response = ask(&scene, &format!("Authorization: Bearer {token}\r\n"));
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{seed}: {response}");
    }
}

/// An issuer that serves its keys at a URL and can change them.
struct Issuer {
    url: String,
    /// The key set to answer with. `None` answers with an error.
    keys: Arc<Mutex<Option<String>>>,
    fetches: Arc<AtomicUsize>,
    _server: RunningServer,
}

impl Issuer {
    fn start(keys: Option<String>) -> Self {
        let (keys, fetches) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
        let (current, count) = (keys.clone(), fetches.clone());
        let answer = move || {
            count.fetch_add(1, Ordering::SeqCst);
            match current.lock().unwrap().clone() {
                Some(keys) => Response::text(keys),
                None => Response::text("").with_status(StatusCode::INTERNAL_SERVER_ERROR),
            }
        };
        let server = Server::new(Router::new().get("/jwks", answer)).workers(1).listen("127.0.0.1:0");
        let server = server.unwrap().start().unwrap();
        let url = format!("http://{}/jwks", server.addresses()[0]);
        Self { url, keys, fetches, _server: server }
    }

    fn publish(&self, keys: Option<String>) {
        *self.keys.lock().unwrap() = keys;
    }

    fn scene(&self, interval: Duration) -> TestServer {
        scene(PolicyConfig::Jwt(self.config(interval)))
    }

    fn config(&self, interval: Duration) -> JwtConfig {
        let document =
            DocumentConfig { refresh_interval_min: interval, ..DocumentConfig::new(&self.url).unwrap() };
        let keys = JwtKeySource::from(document);
        JwtConfig { fields: vec![("X-User".to_owned(), "name".to_owned())], ..JwtConfig::new(keys) }
    }
}

fn only(id: &str, seed: u8) -> String {
    let mut key = Jwk::from_encoding_key(&ed25519(seed), Algorithm::EdDSA).unwrap();
    key.common.key_id = Some(id.to_owned());
    json!({ "keys": [key] }).to_string()
}

fn signed(id: &str, seed: u8) -> String {
    encode(&header(id), &claims(), &ed25519(seed)).unwrap()
}

/// Repeats the request until the status is `status`, or until a generous time limit.
fn ask_until(scene: &TestServer, token: &str, status: &str) -> String {
    let end = Clock::system().now_exact() + Duration::from_secs(20);
    loop {
        let answer = ask_with_token(scene, token);
        if outcome(&answer).0 == status {
            return answer;
        }
        assert!(Clock::system().now_exact() < end, "{answer}");
    }
}

#[test]
fn keys_from_url_follow_changes_of_the_issuer() {
    let issuer = Issuer::start(Some(only("one", 1)));
    let scene = issuer.scene(Duration::from_millis(5));
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 0, "keys are fetched when the first token arrives");
    // The first request waits until the keys are fetched.
    assert_eq!(outcome(&ask_with_token(&scene, &signed("one", 1))), ("200", "user ada"));
    assert_eq!(outcome(&ask_with_token(&scene, &signed("one", 2))).0, "401", "signed with an unknown key");
    issuer.publish(Some(only("two", 2)));
    ask_until(&scene, &signed("two", 2), "200");
    assert_eq!(outcome(&ask_with_token(&scene, &signed("two", 1))).0, "401");
    // Withdrawn keys are rejected.
    ask_until(&scene, &signed("one", 1), "401");
}

#[test]
fn failed_fetch_keeps_previous_keys() {
    let issuer = Issuer::start(Some(only("one", 1)));
    let scene = issuer.scene(Duration::from_millis(1));
    ask_until(&scene, &signed("one", 1), "200");
    for invalid in [None, Some(String::new()), Some("{}".to_owned()), Some("x".repeat(2 << 20))] {
        let fetches = issuer.fetches.load(Ordering::SeqCst);
        issuer.publish(invalid);
        while issuer.fetches.load(Ordering::SeqCst) < fetches + 2 {
            assert_eq!(outcome(&ask_with_token(&scene, &signed("two", 2))).0, "401");
        }
        assert_eq!(outcome(&ask_with_token(&scene, &signed("one", 1))).0, "200");
    }
}

/// Regression test: an empty key set counted as a failed fetch and left the previous keys in place. An issuer
/// could not withdraw its last key.
#[test]
fn empty_key_set_withdraws_all_keys() {
    let issuer = Issuer::start(Some(only("one", 1)));
    let scene = issuer.scene(Duration::from_millis(1));
    ask_until(&scene, &signed("one", 1), "200");
    issuer.publish(Some("{\"keys\":[]}".to_owned()));
    // A token with an unknown key triggers a fetch.
    until_fetched_again(&issuer, &scene);
    ask_until(&scene, &signed("one", 1), "401");
    issuer.publish(Some(only("one", 1)));
    ask_until(&scene, &signed("one", 1), "200");
}

/// Sends tokens with an unknown key until the policy fetches the keys again.
fn until_fetched_again(issuer: &Issuer, scene: &TestServer) {
    let fetches = issuer.fetches.load(Ordering::SeqCst);
    while issuer.fetches.load(Ordering::SeqCst) == fetches {
        assert_eq!(outcome(&ask_with_token(scene, &signed("unknown", 2))).0, "401");
    }
}

/// Regression test: while fetches failed, old keys stayed valid without a limit. Now requests get 503 after
/// the keys have expired, also after a reload.
#[test]
fn expired_keys_get_503_until_the_next_fetch() {
    let issuer = Issuer::start(Some(only("one", 1)));
    let interval = Duration::from_millis(1);
    let config = issuer.config(interval);
    let first = Arc::new(Policy::new("office", PolicyConfig::Jwt(config.clone())));
    ask_until(&scene_of(first.clone()), &signed("one", 1), "200");
    issuer.publish(None);
    let mut short = config;
    if let JwtKeySource::Url(document) = &mut short.keys {
        document.age_max = Duration::from_millis(100);
    }
    let policy = Policy::new("office", PolicyConfig::Jwt(short)).in_place_of(&first);
    let scene = scene_of(Arc::new(policy));
    ask_until(&scene, &signed("one", 1), "503");
    issuer.publish(Some(only("one", 1)));
    ask_until(&scene, &signed("one", 1), "200");
}

/// Regression test: a policy started without keys after a change of its config. If the issuer was not
/// reachable at that moment, all requests got 503.
#[test]
fn changed_policy_keeps_keys_fetched_from_same_url() {
    let issuer = Issuer::start(Some(only("one", 1)));
    let interval = Duration::from_millis(1);
    let config = issuer.config(interval);
    let first = Arc::new(Policy::new("office", PolicyConfig::Jwt(config.clone())));
    ask_until(&scene_of(first.clone()), &signed("one", 1), "200");
    issuer.publish(None);
    let after = |config: JwtConfig, before: &Policy| {
        let policy = Arc::new(Policy::new("office", PolicyConfig::Jwt(config)).in_place_of(before));
        (outcome(&ask_with_token(&scene_of(policy.clone()), &signed("one", 1))).0.to_owned(), policy)
    };
    let (status, second) = after(
        JwtConfig { rules: JwtRules { leeway: Duration::ZERO, ..config.rules.clone() }, ..config.clone() },
        &first,
    );
    assert_eq!(status, "200");
    let (status, third) = after(issuer.config(2 * interval), &second);
    assert_eq!(status, "200");
    // A policy that has received no token also hands over the keys.
    let idle = Policy::new("office", PolicyConfig::Jwt(issuer.config(3 * interval))).in_place_of(&third);
    assert_eq!(after(issuer.config(4 * interval), &idle).0, "200");
    let elsewhere = Issuer::start(None);
    assert_eq!(after(elsewhere.config(interval), &third).0, "503", "keys from another URL are not kept");
}

#[test]
fn token_gets_503_without_challenge_until_keys_are_fetched() {
    let issuer = Issuer::start(None);
    let scene = issuer.scene(Duration::from_millis(5));
    let answer = ask_with_token(&scene, &signed("one", 1));
    assert_eq!(outcome(&answer).0, "503");
    assert!(answer.contains("Retry-After: 1") && challenge(&answer).is_none(), "{answer}");
    assert_eq!(challenge(&ask(&scene, "")), Some("Bearer realm=\"office\""));
    issuer.publish(Some(only("one", 1)));
    ask_until(&scene, &signed("one", 1), "200");
}

#[test]
fn unknown_key_ids_do_not_cause_repeated_fetches() {
    let issuer = Issuer::start(Some(only("one", 1)));
    let scene = issuer.scene(Duration::from_mins(10));
    ask_until(&scene, &signed("one", 1), "200");
    for n in 0..100 {
        assert_eq!(outcome(&ask_with_token(&scene, &signed(&format!("unknown {n}"), 1))).0, "401");
    }
    assert_eq!(issuer.fetches.load(Ordering::SeqCst), 1);
}

#[test]
fn shared_secrets_from_url_are_not_used() {
    let url = JwtKeySource::from(DocumentConfig::new("https://login.example/jwks").unwrap());
    assert!(url.may_be_for(Algorithm::ES256) && !url.may_be_for(Algorithm::HS256));
    let secret = URL_SAFE_NO_PAD.encode(SECRET);
    let issuer =
        Issuer::start(Some(json!({ "keys": [{ "kty": "oct", "k": secret, "kid": "one" }] }).to_string()));
    let scene = issuer.scene(Duration::from_mins(10));
    let header = Header { kid: Some("one".to_owned()), ..Header::default() };
    let token = encode(&header, &claims(), &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
    // The issuer publishes no usable key.
    assert_eq!(outcome(&ask_with_token(&scene, &token)).0, "401");
}
