use jsonwebtoken::{Algorithm, Header, encode, get_current_timestamp};
use serde_json::{Value, json};
use thruway_testkit::JwtIssuer;

use super::*;
use crate::testing::field_lines;

const ISSUER: &str = "https://login.example";
const RESOURCE: &str = "https://mcp.example/mcp";

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": RESOURCE, "sub": "ada", "scope": "mcp:use mcp:admin",
        "exp": get_current_timestamp() + 600,
    })
}

fn identify(authorization: &Authorization, fields: &[(&str, &str)]) -> Result<Identity, String> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    authorization
        .identify(field_lines(fields, &mut bytes, &mut spans))
        .map(|identity| (*identity).clone())
        .map_err(|challenge| {
            let response = challenge.into_response();
            let value = response.field_lines.field("www-authenticate").unwrap().as_str().unwrap().to_owned();
            format!("{} {value}", response.status)
        })
}

fn authorization(issuer: &JwtIssuer) -> (Authorization, JwtVerifier) {
    let verifier = JwtVerifier::new(ISSUER, RESOURCE, &issuer.keys()).unwrap();
    (Authorization::new(RESOURCE, [ISSUER], verifier.clone()).with_scopes(["mcp:use"]), verifier)
}

#[test]
fn valid_token_yields_caller_identity() {
    let issuer = JwtIssuer::new("one");
    let (authorization, _) = authorization(&issuer);
    for scheme in ["Bearer", "bearer"] {
        let value = format!("{scheme} {}", issuer.token(&claims()));
        let identity = identify(&authorization, &[("Authorization", &value)]).unwrap();
        assert_eq!((identity.subject.as_str(), identity.issuer.as_str()), ("ada", ISSUER));
        assert!(identity.has_scope("mcp:admin") && !identity.has_scope("mcp"));
    }
}

#[test]
fn missing_token_gets_401_with_metadata_url() {
    let (authorization, _) = authorization(&JwtIssuer::new("one"));
    let metadata = "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\"";
    let expected = format!("401 Bearer {metadata}, scope=\"mcp:use\"");
    assert_eq!(identify(&authorization, &[]), Err(expected.clone()));
    assert_eq!(identify(&authorization, &[("Authorization", "Basic eA==")]), Err(expected));
    assert_eq!(authorization.metadata_path(), "/.well-known/oauth-protected-resource/mcp");
}

#[test]
fn tokens_with_wrong_claims_or_signature_are_rejected() {
    let issuer = JwtIssuer::new("one");
    let (authorization, _) = authorization(&issuer);
    let changed = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        issuer.token(&claims)
    };
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        issuer.token(&claims)
    };
    let now = get_current_timestamp();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", issuer.token(&claims()).split('.').nth(1).unwrap());
    let tokens = [
        changed("aud", json!("https://other.example/mcp")),
        changed("iss", json!("https://evil.example")),
        changed("exp", json!(now - 60)),
        changed("nbf", json!(now + 600)),
        without("exp"),
        without("aud"),
        without("iss"),
        without("sub"),
        JwtIssuer::new("two").token(&claims()),
        unsigned,
        "nonsense".to_owned(),
    ];
    for token in tokens {
        let refusal = identify(&authorization, &[("Authorization", &format!("Bearer {token}"))]).unwrap_err();
        assert!(refusal.starts_with("401 ") && refusal.contains("error=\"invalid_token\""), "{refusal}");
    }
}

#[test]
fn missing_scope_gets_403_that_names_the_scope() {
    let issuer = JwtIssuer::new("one");
    let (authorization, _) = authorization(&issuer);
    let mut claims = claims();
    claims["scope"] = json!("other");
    let value = format!("Bearer {}", issuer.token(&claims));
    let refusal = identify(&authorization, &[("Authorization", &value)]).unwrap_err();
    assert!(
        refusal.starts_with("403 ") && refusal.ends_with("error=\"insufficient_scope\", scope=\"mcp:use\"")
    );
}

#[test]
fn replace_keys_switches_to_the_new_keys() {
    let (old, new) = (JwtIssuer::new("one"), JwtIssuer::new("two"));
    let (authorization, verifier) = authorization(&old);
    let accepts = |issuer: &JwtIssuer| {
        let value = format!("Bearer {}", issuer.token(&claims()));
        identify(&authorization, &[("Authorization", &value)]).is_ok()
    };
    assert!(accepts(&old) && !accepts(&new));
    assert_eq!(verifier.replace_keys("{}"), Err(InvalidKeys));
    assert!(accepts(&old));
    verifier.replace_keys(&new.keys()).unwrap();
    assert!(accepts(&new) && !accepts(&old));
}

/// Regression test: the verifier treated an empty set as an error and kept the previous keys. So an issuer
/// could not withdraw its last key.
#[test]
fn key_set_without_usable_keys_withdraws_all_keys() {
    for set in [r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#] {
        let issuer = JwtIssuer::new("one");
        let (_, verifier) = authorization(&issuer);
        let token = issuer.token(&claims());
        assert!(verifier.verify(&token).is_ok());
        assert_eq!(verifier.replace_keys(set), Ok(()));
        assert_eq!(verifier.verify(&token), Err(InvalidToken));
        assert!(matches!(JwtVerifier::new(ISSUER, RESOURCE, set), Err(InvalidKeys)));
    }
}

/// Regression test: the verifier ignored `crit`, and accepted short RSA keys and keys that are not for
/// signatures. The gateway's verifier rejected all of them.
#[test]
fn crit_header_and_unsuitable_keys_are_rejected() {
    let issuer = JwtIssuer::new("one");
    let (_, verifier) = authorization(&issuer);
    let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::EdDSA) };
    assert!(verifier.verify(&encode(&header, &claims(), &issuer.key).unwrap()).is_ok());
    let critical = Header { crit: Some(vec!["x".to_owned()]), ..header };
    assert_eq!(verifier.verify(&encode(&critical, &claims(), &issuer.key).unwrap()), Err(InvalidToken));
    let with = |name: &str, value: Value| {
        let mut set: Value = serde_json::from_str(&issuer.keys()).unwrap();
        set["keys"][0][name] = value;
        JwtVerifier::new(ISSUER, RESOURCE, &set.to_string()).map(|_| ())
    };
    assert_eq!(with("use", json!("sig")), Ok(()));
    assert_eq!(with("key_ops", json!(["verify"])), Ok(()));
    assert_eq!(with("use", json!("enc")), Err(InvalidKeys));
    assert_eq!(with("key_ops", json!(["encrypt"])), Err(InvalidKeys));
    // An RSA key of 1024 bits.
    let short = json!({"keys": [{"kty": "RSA", "n": "q".repeat(170) + "g", "e": "AQAB"}]});
    assert!(matches!(JwtVerifier::new(ISSUER, RESOURCE, &short.to_string()), Err(InvalidKeys)));
}

/// Regression test: the verifier ignored the type of a token and the key that it is bound to. So it accepted
/// ID tokens, logout tokens, and stolen tokens without their keys.
#[test]
fn verifier_accepts_only_bearer_access_tokens() {
    let issuer = JwtIssuer::new("one");
    let (_, verifier) = authorization(&issuer);
    let strict = verifier.clone().at_jwt_only();
    let token = |typ: Option<&str>, name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        let header = Header {
            typ: typ.map(str::to_owned),
            kid: Some("one".to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        encode(&header, &claims, &issuer.key).unwrap()
    };
    for (typ, is_valid, is_strict) in [
        (Some("at+jwt"), true, true),
        (Some("JWT"), true, false),
        (None, true, false),
        (Some("logout+jwt"), false, false),
        (Some("dpop+jwt"), false, false),
    ] {
        let token = token(typ, "jti", json!("1"));
        assert_eq!((verifier.verify(&token).is_ok(), strict.verify(&token).is_ok()), (is_valid, is_strict));
    }
    for (name, value) in [
        ("at_hash", json!("x")),
        ("token_use", json!("id")),
        ("cnf", json!({ "jkt": "x" })),
        ("cnf", json!({ "x5t#S256": "x" })),
    ] {
        assert_eq!(verifier.verify(&token(None, name, value)), Err(InvalidToken), "{name}");
    }
}

#[test]
fn duplicate_authorization_header_is_rejected() {
    let issuer = JwtIssuer::new("one");
    let (authorization, _) = authorization(&issuer);
    let value = format!("Bearer {}", issuer.token(&claims()));
    let refusal =
        identify(&authorization, &[("Authorization", &value), ("Authorization", &value)]).unwrap_err();
    assert!(refusal.starts_with("400 "), "{refusal}");
}
