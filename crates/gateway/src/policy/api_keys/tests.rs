use thruway_testkit::test_server::TestServer;

use super::*;
use crate::policy::PolicyConfig;
use crate::policy::scene::{ask, ask_for, challenge, outcome, scene};

fn digest_of(key: &str) -> KeyDigest {
    KeyDigest(Sha256::digest(key).into())
}

fn keys(place: KeyPlace) -> TestServer {
    let keys =
        [("ada", "k1"), ("ada", "k2"), ("bob", "k3 ")].map(|(name, key)| (name.to_owned(), digest_of(key)));
    let user_field = Some("X-User".to_owned());
    scene(PolicyConfig::ApiKeys(ApiKeysConfig { place, keys: keys.to_vec(), user_field }))
}

fn in_header() -> TestServer {
    keys(KeyPlace::Header("X-Api-Key".to_owned()))
}

#[test]
fn valid_key_identifies_its_user() {
    let scene = in_header();
    assert_eq!(outcome(&ask(&scene, "X-Api-Key: k1\r\n")), ("200", "user ada"));
    assert_eq!(outcome(&ask(&scene, "x-api-key: k2\r\nX-User: root\r\n")), ("200", "user ada"));
    let bearer = keys(KeyPlace::Bearer);
    assert_eq!(outcome(&ask(&bearer, "Authorization: bearer  k1\r\n")), ("200", "user ada"));
    let query = keys(KeyPlace::Query("api key".to_owned()));
    assert_eq!(outcome(&ask_for(&query, "/?a&api%20key=%6b3%20&b", "")), ("200", "user bob"));
}

#[test]
fn missing_or_invalid_key_gets_401() {
    let scene = in_header();
    let long = format!("X-Api-Key: {}\r\n", "k".repeat(5000));
    for lines in
        ["", "X-Api-Key: \r\n", "X-Api-Key: k3\r\n", "X-Api-Key: K1\r\n", "X-Api-Key: \u{fe}\r\n", &long]
    {
        let answer = ask(&scene, lines);
        assert_eq!(outcome(&answer), ("401", "401 Unauthorized\n"), "{lines}");
        assert_eq!(challenge(&answer), Some("ApiKey realm=\"office\""));
    }
    let several = "X-Api-Key: k1\r\nX-Api-Key: k1\r\n";
    assert_eq!(outcome(&ask(&scene, several)).0, "401", "an upstream server might use the other key");
    let query = keys(KeyPlace::Query("key".to_owned()));
    for target in ["/", "/?key", "/?key=k1&key=k1", "/?KEY=k1", "/?key=%zz"] {
        assert_eq!(outcome(&ask_for(&query, target, "")).0, "401", "{target}");
    }
    let bearer = keys(KeyPlace::Bearer);
    let wrong = ask(&bearer, "Authorization: Bearer k9\r\n");
    assert_eq!(challenge(&wrong), Some("Bearer realm=\"office\", error=\"invalid_token\""));
    assert_eq!(challenge(&ask(&bearer, "Authorization: Bearerk1\r\n")), Some("Bearer realm=\"office\""));
}

#[test]
fn key_digest_must_be_sha256_and_64_hex_digits() {
    let digits = "0123456789abcdefABCDEF0123456789".repeat(2);
    assert!(format!("sha256:{digits}").parse::<KeyDigest>().is_ok());
    for text in
        [&digits, "sha256:", &format!("sha256:{}", &digits[1..]), &format!("sha256:{}g", &digits[1..]), "k1"]
    {
        assert_eq!(text.parse::<KeyDigest>(), Err(InvalidKeyDigest), "{text}");
    }
    assert_eq!(format!("{:?}", digest_of("k1")), "KeyDigest");
}
