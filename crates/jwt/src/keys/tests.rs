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

#[test]
fn keys_that_cannot_be_trusted_are_none() {
    let set = |key: Value| JwtKeys::from_set(&json!({ "keys": [key] }).to_string());
    let short = json!({ "kty": "RSA", "n": "q".repeat(171), "e": "AQAB" });
    let secret = json!({ "kty": "oct", "k": "AAAA" });
    for key in [short, secret] {
        assert_eq!(set(key).unwrap_err(), InvalidJwtKeys::NoneOfUse);
    }
    assert!(set(json!({ "kty": "RSA", "n": "q".repeat(341) + "A", "e": "AQAB" })).is_ok());
    let encryption = json!({ "kty": "RSA", "n": "q".repeat(342), "e": "AQAB", "use": "enc" });
    assert_eq!(set(encryption).unwrap_err(), InvalidJwtKeys::NoneOfUse);
    assert_eq!(JwtKeys::from_set("[]").unwrap_err(), InvalidJwtKeys::Syntax);
    assert_eq!(JwtKeys::from_secret("too short").unwrap_err(), InvalidJwtKeys::ShortSecret);
    assert!(!format!("{:?}", JwtKeys::from_secret(SECRET)).contains("secret of"));
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
