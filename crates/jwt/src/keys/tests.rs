use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "a secret of at least thirty-two bytes";

/// The MCP SDK used RSA keys of any length, keys for encryption, and keys without the operation `verify`. The
/// gateway counted the digits of an RSA modulus, so zeros at its start made a short key look long.
#[test]
fn weak_keys_and_keys_for_other_uses_are_skipped() {
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
        // 1024 bits after zeros, 2047 bits, and more than 8192 bits.
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
fn unknown_key_type_does_not_hide_other_keys_of_the_set() {
    // RFC 7517 §5.
    let known: Value = serde_json::from_str(ED25519_JWK).unwrap();
    let set = json!({ "keys": [known, { "kty": "new" }, { "kty": 5, "use": [] }, null] });
    assert!(JwtKeys::from_set(&set.to_string()).unwrap().are_for(Algorithm::EdDSA));
}

#[test]
fn issuer_key_set_may_be_empty() {
    for set in ["{\"keys\":[]}", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}"] {
        let keys = JwtKeys::from_issuer(set).unwrap();
        assert!(keys.is_empty() && keys.lack(None), "{set}");
        assert_eq!(JwtKeys::from_set(set), Err(InvalidJwtKeys::NoneOfUse));
    }
    for text in ["", "{}", "[]", "{\"keys\":{}}", "<html>"] {
        assert_eq!(JwtKeys::from_issuer(text), Err(InvalidJwtKeys::Syntax), "{text}");
    }
}

#[test]
fn pem_key_allows_only_algorithms_of_its_key_type() {
    let rsa = JwtKeys::from_file(RSA_2048).unwrap();
    assert!([Algorithm::RS256, Algorithm::PS512].into_iter().all(|algorithm| rsa.are_for(algorithm)));
    assert!(!rsa.are_for(Algorithm::EdDSA) && !rsa.are_for(Algorithm::HS256));
    let curve = JwtKeys::from_file(P_384).unwrap();
    assert!(curve.are_for(Algorithm::ES384) && !curve.are_for(Algorithm::ES256));
    assert!(JwtKeys::from_file(ED25519).unwrap().are_for(Algorithm::EdDSA));
    let (private, torn) = (ED25519.replace("PUBLIC", "PRIVATE"), ED25519.replace("MCow", "MCoo"));
    for none in [RSA_1024, &private, &torn, "-----BEGIN PUBLIC KEY-----"] {
        assert_eq!(JwtKeys::from_file(none), Err(InvalidJwtKeys::NoneOfUse), "{none}");
    }
    assert_eq!(JwtKeys::from_file("neither"), Err(InvalidJwtKeys::Syntax));
    assert!(JwtKeys::from_file(&format!("{{\"keys\":[{ED25519_JWK}]}}")).is_ok());
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

/// RFC 8410 §10.1.
const ED25519: &str = "\
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

/// RFC 8037 §A.2.
const ED25519_JWK: &str =
    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}";
