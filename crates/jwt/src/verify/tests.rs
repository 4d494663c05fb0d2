use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

use super::*;

const SECRET: &str = "a secret of at least thirty-two bytes";
const NOW: Duration = Duration::from_secs(1_000_000_000);

fn keys() -> JwtKeys {
    JwtKeys::from_secret(SECRET).unwrap()
}

fn sign(header: &Header, claims: &Value) -> String {
    encode(header, claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

fn claims() -> Value {
    json!({ "iss": "https://login.example", "aud": "api", "exp": NOW.as_secs() + 60 })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

/// Returns the token with the texts `header` and `claims`, and a valid signature.
fn sign_text(header: &str, claims: &str) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    format!("{message}.{}", jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap())
}

fn is_valid(rules: &JwtRules, claims: &Value) -> bool {
    rules.verify(sign(&Header::default(), claims).as_bytes(), &keys(), NOW).is_ok()
}

#[test]
fn rfc_7515_example_tokens_are_valid_until_they_expire() {
    // RFC 7515 §A.2 and §A.3.
    for (key, token) in [(RSA_KEY, RSA_TOKEN), (EC_KEY, EC_TOKEN)] {
        let keys = JwtKeys::from_set(&format!("{{\"keys\":[{key}]}}")).unwrap();
        let rules = JwtRules { issuer: Some("joe".to_owned()), ..JwtRules::default() };
        let at = |seconds| rules.verify(token.as_bytes(), &keys, Duration::from_secs(seconds));
        assert_eq!(at(1_300_819_380).unwrap()["http://example.com/is_root"], true);
        assert_eq!(at(1_300_819_380 + 30), Err(JwtError::Invalid));
        let (message, _) = token.rsplit_once('.').unwrap();
        let forged = format!("{message}.{}", "A".repeat(86));
        assert_eq!(rules.verify(forged.as_bytes(), &keys, Duration::ZERO), Err(JwtError::Invalid));
    }
}

/// The MCP SDK ignored `crit`, so that it accepted tokens with conditions that it does not know.
#[test]
fn token_with_critical_extensions_is_rejected() {
    let text = claims().to_string();
    let verify = |header: &str| {
        JwtRules::default().verify(sign_text(header, &text).as_bytes(), &keys(), NOW).map(|_| ())
    };
    assert_eq!(verify("{\"alg\":\"HS256\"}"), Ok(()));
    for crit in ["[\"b64\"]", "[\"exp\"]", "[]", "null", "\"b64\"", "{}"] {
        let header = format!("{{\"alg\":\"HS256\",\"crit\":{crit}}}");
        assert_eq!(verify(&header), Err(JwtError::Invalid), "{header}");
    }
}

#[test]
fn malformed_or_ambiguous_token_header_is_rejected() {
    let text = claims().to_string();
    for header in [
        "{\"alg\":\"none\"}",
        "{\"alg\":\"hs256\"}",
        "{\"alg\":[\"HS256\"]}",
        "{\"alg\":\"HS256\",\"alg\":\"none\"}",
        "{\"alg\":\"HS256\",\"kid\":1}",
        "{\"alg\":\"HS256\",\"typ\":[\"JWT\"]}",
        "{\"alg\":\"HS256\",\"typ\":null}",
        "{\"typ\":\"JWT\"}",
        "[]",
        "",
    ] {
        let token = sign_text(header, &text);
        assert_eq!(
            JwtRules::default().verify(token.as_bytes(), &keys(), NOW),
            Err(JwtError::Invalid),
            "{header}"
        );
    }
}

#[test]
fn malformed_token_is_rejected() {
    let token = sign(&Header::default(), &claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    for text in [
        String::new(),
        "..".to_owned(),
        message.to_owned(),
        format!("{message}."),
        format!("{message}.{signature}."),
        format!("{message}.{signature}="),
        format!(".{message}.{signature}"),
        format!("{message}.A{signature}"),
        "\u{fe}.\u{fe}.\u{fe}".to_owned(),
        sign_text("{\"alg\":\"HS256\"}", "[]"),
        sign_text("{\"alg\":\"HS256\"}", &"[".repeat(5_000)),
        sign(&Header::default(), &with("padding", json!("x".repeat(TOKEN_BYTES_MAX)))),
    ] {
        assert_eq!(
            JwtRules::default().verify(text.as_bytes(), &keys(), NOW),
            Err(JwtError::Invalid),
            "{text}"
        );
    }
}

/// A public key must not verify a signature as a secret key: anyone can make such a signature.
#[test]
fn public_key_does_not_verify_hmac_signature() {
    let set = format!("{{\"keys\":[{RSA_KEY}]}}");
    let keys = JwtKeys::from_set(&set).unwrap();
    let jwk: Value = serde_json::from_str(RSA_KEY).unwrap();
    let modulus = jwk["n"].as_str().unwrap();
    for secret in [modulus.as_bytes(), &URL_SAFE_NO_PAD.decode(modulus).unwrap(), set.as_bytes()] {
        let token = encode(&Header::default(), &claims(), &EncodingKey::from_secret(secret)).unwrap();
        assert_eq!(JwtRules::default().verify(token.as_bytes(), &keys, NOW), Err(JwtError::Invalid));
    }
}

#[test]
fn token_is_valid_between_nbf_and_exp_with_leeway() {
    let now = NOW.as_secs();
    let rules = JwtRules::default();
    for (name, value, expected) in [
        ("exp", json!(now + 1), true),
        ("exp", json!(now - 29), true),
        ("exp", json!(now - 30), false),
        ("exp", json!(1_000_000_000.5), true),
        ("exp", json!(-1), false),
        ("exp", json!("2000000000"), false),
        ("exp", Value::Null, false),
        ("nbf", json!(now + 30), true),
        ("nbf", json!(now + 31), false),
        ("nbf", json!("0"), false),
        ("nbf", Value::Null, false),
    ] {
        assert_eq!(is_valid(&rules, &with(name, value.clone())), expected, "{name} {value}");
    }
    let exact = JwtRules { leeway: Duration::ZERO, ..JwtRules::default() };
    assert!(!is_valid(&exact, &with("exp", json!(now))), "RFC 7519 §4.1.4: the time must be before `exp`");
    let mut endless = claims();
    endless.as_object_mut().unwrap().remove("exp");
    assert!(!is_valid(&rules, &endless));
}

#[test]
fn issuer_audience_and_required_claims_are_checked() {
    let rules = JwtRules {
        issuer: Some("https://login.example".to_owned()),
        audience: vec!["api".to_owned(), "web".to_owned()],
        required_claims: vec!["jti".to_owned()],
        ..JwtRules::default()
    };
    assert!(!is_valid(&rules, &claims()), "a required claim is missing");
    let rules = JwtRules { required_claims: Vec::new(), ..rules };
    for (name, value, expected) in [
        ("aud", json!("web"), true),
        ("aud", json!(["other", "api"]), true),
        ("aud", json!("other"), false),
        ("aud", json!([]), false),
        ("aud", json!(["api", 1]), false),
        ("aud", Value::Null, false),
        ("iss", json!("https://login.example.evil"), false),
        // An issuer is one text. An identity cannot contain a list.
        ("iss", json!(["https://login.example"]), false),
        ("iss", Value::Null, false),
    ] {
        assert_eq!(is_valid(&rules, &with(name, value.clone())), expected, "{name} {value}");
    }
    let only = JwtRules { algorithms: vec![Algorithm::HS512], ..JwtRules::default() };
    assert!(!is_valid(&only, &claims()));
}

/// `typ` was ignored, so a token for another purpose gave access.
#[test]
fn token_with_unexpected_typ_is_rejected() {
    let text = claims().to_string();
    let is_valid = |types: &[&str], token_type: Option<&str>| {
        let header = match token_type {
            Some(token_type) => json!({ "alg": "HS256", "typ": token_type }),
            None => json!({ "alg": "HS256" }),
        };
        let types = types.iter().map(|&name| name.to_owned()).collect();
        let rules = JwtRules { types, ..JwtRules::default() };
        rules.verify(sign_text(&header.to_string(), &text).as_bytes(), &keys(), NOW).is_ok()
    };
    for usual in ["JWT", "jwt", "JOSE", "at+jwt", "AT+JWT", "application/at+jwt", "Application/JWT"] {
        assert!(is_valid(&[], Some(usual)), "{usual}");
    }
    for other in
        ["logout+jwt", "dpop+jwt", "id_token", "secevent+jwt", "oauth-authz-req+jwt", "ID", "", " JWT"]
    {
        assert!(!is_valid(&[], Some(other)), "{other}");
        assert!(is_valid(&["x", other], Some(other)), "{other}");
    }
    for other in ["text/jwt", "application/", "application/at+jwt/x", "application/application/jwt", "ação"]
    {
        assert!(!is_valid(&[], Some(other)), "{other}");
    }
    assert!(is_valid(&[], None));
    for strict in ["at+jwt", "application/AT+JWT"] {
        assert!(is_valid(&[strict], Some("at+jwt")) && is_valid(&[strict], Some("application/at+jwt")));
        assert!(!is_valid(&[strict], Some("JWT")) && !is_valid(&[strict], None));
    }
}

/// The MCP SDK accepted ID tokens and logout tokens for access.
#[test]
fn id_tokens_and_logout_tokens_are_recognized_by_their_claims() {
    let all = JwtRules::default();
    let access = JwtRules { allow_id_tokens: false, ..JwtRules::default() };
    for (name, value) in [
        ("at_hash", json!("x")),
        ("c_hash", json!("x")),
        ("s_hash", json!("x")),
        ("token_use", json!("id")),
        ("typ", json!("ID")),
    ] {
        assert!(is_valid(&all, &with(name, value.clone())), "{name}");
        assert!(!is_valid(&access, &with(name, value)), "{name}");
    }
    for (name, value) in [
        ("nonce", json!("x")),
        ("token_use", json!("access")),
        ("typ", json!("Bearer")),
        ("events", json!("http://schemas.openid.net/event/backchannel-logout")),
        ("events", json!({ "x": {} })),
    ] {
        assert!(is_valid(&access, &with(name, value)), "{name}");
    }
    let logout = with("events", json!({ "http://schemas.openid.net/event/backchannel-logout": {} }));
    assert!(!is_valid(&all, &logout) && !is_valid(&access, &logout));
}

/// `cnf` was ignored, so a stolen token worked without the key that it is bound to.
#[test]
fn certificate_bound_token_needs_matching_client_certificate() {
    let rules = JwtRules::default();
    let digest = [0xab; 32];
    let thumbprint = URL_SAFE_NO_PAD.encode(digest);
    let certificate = "ab".repeat(32);
    let verify = |confirmation: &Value, certificate: Option<&str>| {
        let token = sign(&Header::default(), &with("cnf", confirmation.clone()));
        rules.verify_from(token.as_bytes(), &keys(), NOW, certificate).is_ok()
    };
    let bound = json!({ "x5t#S256": thumbprint });
    assert!(verify(&bound, Some(&certificate)));
    assert!(!is_valid(&rules, &with("cnf", bound.clone())));
    for other in [Some("cd".repeat(32)), Some("ab".repeat(31)), Some(String::new()), None] {
        assert!(!verify(&bound, other.as_deref()), "{other:?}");
    }
    for confirmation in [
        json!({ "jkt": thumbprint }),
        json!({ "jwk": {} }),
        json!({ "x5t#S256": thumbprint, "jkt": thumbprint }),
        json!({ "x5t#S256": certificate }),
        json!({ "x5t#S256": [thumbprint] }),
        json!({ "x5t#S256": "" }),
        json!({}),
        json!([]),
        json!(thumbprint),
        Value::Null,
    ] {
        for certificate in [Some(certificate.as_str()), Some(""), None] {
            assert!(!verify(&confirmation, certificate), "{confirmation} {certificate:?}");
        }
    }
}

#[test]
fn token_signed_with_unknown_key_has_its_own_error() {
    let key = |id: &str| {
        let mut jwk: Value = serde_json::from_str(EC_KEY).unwrap();
        jwk["kid"] = json!(id);
        jwk
    };
    let keys = JwtKeys::from_set(&json!({ "keys": [key("a"), key("b")] }).to_string()).unwrap();
    let verify = |keys: &JwtKeys, kid: Option<&str>| {
        let header = Header { kid: kid.map(str::to_owned), ..Header::default() };
        JwtRules::default().verify(sign(&header, &claims()).as_bytes(), keys, NOW).unwrap_err()
    };
    assert_eq!(verify(&keys, Some("c")), JwtError::UnknownKey);
    assert_eq!(verify(&keys, Some("a")), JwtError::Invalid);
    assert_eq!(verify(&keys, None), JwtError::Invalid);
    let none = JwtKeys::from_issuer("{\"keys\":[]}").unwrap();
    assert_eq!(verify(&none, None), JwtError::UnknownKey);
}

const EC_KEY: &str = "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\
                      \"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}";

const EC_TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv\
                        bS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJ\
                        qPP3-Kg6NU1Q";

const RSA_KEY: &str = "{\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw\
                       -4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-b\
                       Sf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_\
                       I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\",\"e\":\"AQAB\"}";

const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmN\
                         vbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4B\
                         h-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArL\
                         IARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnv\
                         Wh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
