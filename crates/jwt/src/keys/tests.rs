use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD as STANDARD, BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "a secret of at least thirty-two octets";

fn ed25519(seed: u8) -> EncodingKey {
    // An Ed25519 key in PKCS #8: a fixed head, and 32 octets.
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

/// The MCP SDK used RSA keys of any length, keys for encryption, and keys whose operations do not include
/// `verify`. The gateway counted the digits of an RSA modulus, so zeros at its start made a short key look
/// long.
#[test]
fn keys_that_are_too_weak_or_not_for_signatures_are_skipped() {
    let set = |key: Value| JwtKeys::from_set(&json!({ "keys": [key] }).to_string());
    let short = json!({ "kty": "RSA", "n": "q".repeat(170) + "g", "e": "AQAB" });
    let secret = json!({ "kty": "oct", "k": "AAAA" });
    let rsa = |n: String| json!({ "kty": "RSA", "n": n, "e": "AQAB" });
    let point = |kty: &str, crv: &str, bytes: usize| {
        let [x, y] = [bytes, 32].map(|bytes| URL_SAFE_NO_PAD.encode(vec![7; bytes]));
        json!({ "kty": kty, "crv": crv, "x": x, "y": y })
    };
    for key in [
        short,
        secret,
        // 1024 bits behind zeros, 2047 bits, and more bits than any signature is worth.
        rsa("A".repeat(172) + &"q".repeat(170) + "g"),
        rsa("Qq".to_owned() + &"q".repeat(339) + "A"),
        rsa("q".repeat(1400)),
        rsa(String::new()),
        point("EC", "P-256", 31),
        point("EC", "P-384", 32),
        point("OKP", "P-256", 32),
        point("OKP", "Ed25519", 31),
        point("OKP", "X25519", 32),
        json!("no key"),
    ] {
        assert_eq!(set(key.clone()).unwrap_err(), InvalidJwtKeys::NoneOfUse, "{key}");
    }
    assert!(set(rsa("q".repeat(341) + "A")).is_ok());
    for (name, value, is_used) in [
        ("use", json!("sig"), true),
        ("use", json!("enc"), false),
        ("use", json!("other"), false),
        ("key_ops", json!(["verify"]), true),
        ("key_ops", json!(["encrypt", "verify"]), true),
        ("key_ops", json!(["encrypt"]), false),
        ("key_ops", json!([]), false),
        ("alg", json!("PS256"), true),
        ("alg", json!("RSA-OAEP"), false),
        ("alg", json!("HS256"), false),
        ("alg", json!("unknown"), false),
    ] {
        let mut key = rsa("q".repeat(341) + "A");
        key[name] = value.clone();
        assert_eq!(set(key).is_ok(), is_used, "{name} {value}");
    }
    assert_eq!(JwtKeys::from_set("[]").unwrap_err(), InvalidJwtKeys::Syntax);
    assert_eq!(JwtKeys::from_set("{}").unwrap_err(), InvalidJwtKeys::Syntax);
    assert_eq!(JwtKeys::from_secret("too short").unwrap_err(), InvalidJwtKeys::ShortSecret);
    assert!(!format!("{:?}", JwtKeys::from_secret(SECRET)).contains("secret of"));
}

#[test]
fn a_key_that_is_not_understood_does_not_hide_the_others() {
    // RFC 7517 §5.
    let mut set: Value = serde_json::from_str(&key_set()).unwrap();
    let keys = set["keys"].as_array_mut().unwrap();
    keys.extend([json!({ "kty": "new" }), json!({ "kty": 5, "use": [] }), json!(null)]);
    assert!(JwtKeys::from_set(&set.to_string()).unwrap().are_for(Algorithm::EdDSA));
}

#[test]
fn an_issuer_may_publish_no_keys() {
    for set in ["{\"keys\":[]}", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}"] {
        let keys = JwtKeys::from_issuer(set).unwrap();
        assert!(keys.is_empty() && keys.lack(None), "{set}");
        assert_eq!(JwtKeys::from_set(set), Err(InvalidJwtKeys::NoneOfUse));
    }
    for text in ["", "{}", "[]", "{\"keys\":{}}", "<html>"] {
        assert_eq!(JwtKeys::from_issuer(text), Err(InvalidJwtKeys::Syntax), "{text}");
    }
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
fn a_key_in_pem_is_for_what_its_kind_can() {
    let rsa = JwtKeys::from_file(RSA_2048).unwrap();
    assert!([Algorithm::RS256, Algorithm::PS512].into_iter().all(|algorithm| rsa.are_for(algorithm)));
    assert!(!rsa.are_for(Algorithm::EdDSA) && !rsa.are_for(Algorithm::HS256));
    let curve = JwtKeys::from_file(P_384).unwrap();
    assert!(curve.are_for(Algorithm::ES384) && !curve.are_for(Algorithm::ES256));
    let private = ed25519_pem(1).replace("PUBLIC", "PRIVATE");
    for none in [RSA_1024, &private, &ed25519_pem(1).replace("MCow", "MCoo"), "-----BEGIN PUBLIC KEY-----"] {
        assert_eq!(JwtKeys::from_file(none), Err(InvalidJwtKeys::NoneOfUse), "{none}");
    }
    assert_eq!(JwtKeys::from_file("neither"), Err(InvalidJwtKeys::Syntax));
    assert!(JwtKeys::from_file(&key_set()).is_ok());
}

const RSA_2048: &str = "\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAvzchCCNoOxwcJL5r95oS
3JCN5P2jzenpW3+lUJozlJ4G6USYn+gDAqEFD+j5+IPD2C93Mt+q5foHFIBoa53H
wcV2dRVgQEeIpr13TK+dCSWQOlgbjrjUmWfAGpUZ7gmk4tc1iOza3a8WXNUUAoPm
cftgbZcqoJWCKkf/VBrjBCUNB1WVP67buLceRorkGQF9wkhCPPSmYlEuqJIEiQAc
+NSvkCA8LEPMHvD3QKI2z8dUfurlukRYUyBfRGOLbXx7/fUWqh+ERUv3szVQE31n
TOtUshmzDNfqbdkfayOtsNuL756Mn39AA2lJX2Z7KqA8TfUZ9s1TaozFlMj4wV+E
swIDAQAB
-----END PUBLIC KEY-----
";

const RSA_1024: &str = "\
-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDYUbnKsM8FhqHG/8hqnd5L9dCQ
qS2hMJfnpVK0csEnIIVwLUBow9bH63jDwrrojqUJJyi7/qyS5W33G1AfJhbMEc8O
PhiN22MvTJ20hyeZoOpu9GbFtBsR9oe4ZFNTgusvpH0w4iToHUcXejkTkg/XPNlP
1OZd5sV2/2xMKp1x7wIDAQAB
-----END PUBLIC KEY-----
";

const P_384: &str = "\
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEKqyGcCjdQkwAJj+59LJk5dWRFD8ifEJ+
+Q/ozoFe0riVGIL7izD4cyX7hC4OpukWT3LJB2vROL4zWqYn2rl+RqrFjhUnPdTm
sDxRyf8sjwQgZvi02+uwpwE8vSyrWJR3
-----END PUBLIC KEY-----
";
