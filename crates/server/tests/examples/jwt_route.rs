use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::json;

use crate::programs::jwt_route::{Claims, app};
use crate::site::{Reply, Site};

const SECRET: &str = "a secret for tests, at least 32 bytes";

fn me(site: &Site, authorization: &str) -> Reply {
    site.request("GET", "/me", &format!("Authorization: {authorization}\r\n"), b"")
}

fn token(algorithm: Algorithm, secret: &str, exp: u64) -> String {
    let claims = Claims { sub: "ada".to_owned(), exp };
    encode(&Header::new(algorithm), &claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

#[test]
fn login_returns_token_that_grants_access() {
    let site = Site::start(app(SECRET).unwrap());
    let login = site.json("POST", "/token", r#"{"name": "ada", "password": "enchantress"}"#);
    assert_eq!((login.status, login.field("Cache-Control")), (200, Some("no-store")));
    for scheme in ["Bearer", "bearer"] {
        let reply = me(&site, &format!("{scheme} {}", login.text()));
        assert_eq!((reply.status, reply.json()), (200, json!({ "name": "ada" })));
    }
    let login = site.json("POST", "/token", r#"{"name": "ada", "password": "guessed"}"#);
    assert_eq!(login.status, 403);
}

#[test]
fn request_without_token_gets_401_with_bearer_challenge() {
    let site = Site::start(app(SECRET).unwrap());
    for reply in [site.get("/me"), me(&site, "Basic YWRhOng="), me(&site, "Bearer")] {
        assert_eq!((reply.status, reply.field("WWW-Authenticate")), (401, Some("Bearer")));
    }
}

#[test]
fn invalid_tokens_are_rejected() {
    let site = Site::start(app(SECRET).unwrap());
    let now = get_current_timestamp();
    let good = token(Algorithm::HS256, SECRET, now + 60);
    assert_eq!(me(&site, &format!("Bearer {good}")).status, 200);

    let (signed, signature) = good.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let other = token(Algorithm::HS256, SECRET, now + 61);
    // The example once ignored `crit` and accepted tokens with conditions that it does not know.
    let critical = Header { crit: Some(vec!["x".to_owned()]), ..Header::new(Algorithm::HS256) };
    let claims = Claims { sub: "ada".to_owned(), exp: now + 60 };
    let critical = encode(&critical, &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
    // `{"alg":"none"}`
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", good.split('.').nth(1).unwrap());
    for (case, token) in [
        ("a wrong signature", format!("{signed}.{first}{}", &signature[1..])),
        ("the signature of another token", format!("{}.{signature}", other.rsplit_once('.').unwrap().0)),
        ("no signature", format!("{signed}.")),
        ("unsigned", unsigned),
        ("another secret", token(Algorithm::HS256, "guessed", now + 60)),
        ("another algorithm", token(Algorithm::HS512, SECRET, now + 60)),
        ("a critical extension", critical),
        ("not a token", "x".to_owned()),
    ] {
        let reply = me(&site, &format!("Bearer {token}"));
        let challenge = reply.field("WWW-Authenticate").unwrap_or_default();
        assert_eq!(reply.status, 401, "{case}");
        assert!(challenge.starts_with(r#"Bearer error="invalid_token""#), "{case}: {challenge}");
        assert!(
            challenge.contains("the token is invalid or has expired") && reply.text().is_empty(),
            "{case}: {challenge}"
        );
    }
}

#[test]
fn expired_token_is_rejected() {
    let site = Site::start(app(SECRET).unwrap());
    let token = token(Algorithm::HS256, SECRET, get_current_timestamp() - 1);
    let reply = me(&site, &format!("Bearer {token}"));
    assert_eq!(reply.status, 401);
    let challenge =
        r#"Bearer error="invalid_token", error_description="the token is invalid or has expired""#;
    assert_eq!(reply.field("WWW-Authenticate"), Some(challenge));
}
