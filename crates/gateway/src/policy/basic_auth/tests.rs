use std::sync::LazyLock;

use argon2::PasswordHasher as _;
use argon2::password_hash::SaltString;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thruway_testkit::test_server::TestServer;

use super::*;
use crate::policy::PolicyConfig;
use crate::policy::scene::{ask, challenge, outcome, scene};

/// Hash with the lowest cost, to keep the tests fast.
static BCRYPT: LazyLock<String> = LazyLock::new(|| bcrypt::hash("open sesame", 4).unwrap());
static ARGON2: LazyLock<String> = LazyLock::new(|| {
    let params = argon2::Params::new(8, 1, 1, None).unwrap();
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    argon2
        .hash_password("pä:ss".as_bytes(), &SaltString::from_b64("c2FsdHNhbHQ").unwrap())
        .unwrap()
        .to_string()
});

fn config() -> BasicAuthConfig {
    let users = [("ali", &BCRYPT), ("zoë", &ARGON2)];
    let users = users.map(|(name, hash)| (name.to_owned(), hash.parse().unwrap()));
    BasicAuthConfig { realm: None, users: users.to_vec(), user_field: Some("X-User".to_owned()) }
}

fn users() -> TestServer {
    scene(PolicyConfig::BasicAuth(config()))
}

fn login(credentials: impl AsRef<[u8]>) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(credentials))
}

#[test]
fn authenticated_user_is_passed_to_handler() {
    let scene = users();
    for _ in 0..2 {
        assert_eq!(outcome(&ask(&scene, &login("ali:open sesame"))), ("200", "user ali"));
        let lines = format!("X-User: root\r\n{}", login("zoë:pä:ss"));
        assert_eq!(outcome(&ask(&scene, &lines)), ("200", "user zoë"));
    }
}

#[test]
fn invalid_credentials_get_401_with_challenge() {
    let scene = users();
    assert_eq!(outcome(&ask(&scene, &login("ali:open sesame"))).0, "200");
    let challenge_of = |lines: &str| {
        let answer = ask(&scene, lines);
        assert_eq!(outcome(&answer), ("401", "401 Unauthorized\n"), "{lines}");
        challenge(&answer).unwrap_or_default().to_owned()
    };
    let twice = login("ali:open sesame").repeat(2);
    let long = login("x".repeat(6000));
    let wrong =
        ["ali:open", "ali:", ":open sesame", "bob:open sesame", "ali", "", "ALI:open sesame"].map(login);
    let others =
        ["", "Authorization: Bearer x\r\n", "Authorization: Basic\r\n", "Authorization: Basic %%\r\n"];
    for lines in wrong.iter().map(String::as_str).chain(others).chain([&*twice, &*long]) {
        assert_eq!(challenge_of(lines), "Basic realm=\"office\", charset=\"UTF-8\"");
    }
    challenge_of(&login(b"ali:\xff\xfe"));
    challenge_of(&login("ali:open sesame\0ali:open sesame"));
}

#[test]
fn only_correct_passwords_are_cached() {
    let key = DigestKey::random();
    let users = Arc::new(Users::new(config().users));
    let checked = |password: &str| {
        let digest = key.digest(&[b"ali", password.as_bytes()]);
        let job = state::Job::new(users.clone(), "ali", password, digest);
        let is_right = users.check(&job).is_some();
        (is_right, users.verified("ali", &digest))
    };
    assert_eq!(checked("wrong"), (false, None));
    assert_eq!(checked("open sesame"), (true, Some("ali")));
    assert_eq!(checked("wrong"), (false, None));
    assert_eq!(users.verified("zoë", &key.digest(&[b"ali", b"open sesame"])), None);
}

#[test]
fn pending_password_checks_are_bounded() {
    let checker = Checker::new();
    let users = Arc::new(Users::new(config().users));
    let check = || {
        let job = state::Job::new(users.clone(), "ali", "x", [0; 32]);
        checker.check(job, Refusal::Busy)
    };
    let waiting: Vec<_> = (0..state::PLACES).map(|_| check().unwrap()).collect();
    assert!(check().is_none());
    drop(waiting);
    assert!(check().is_some());
}

#[test]
fn unknown_damaged_or_too_costly_hash_is_an_error() {
    let bcrypt = BCRYPT.as_str();
    let argon2 = ARGON2.as_str();
    assert!(bcrypt.parse::<PasswordHash>().is_ok() && argon2.parse::<PasswordHash>().is_ok());
    for (text, error) in [
        ("open sesame", InvalidPasswordHash::Kind),
        ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", InvalidPasswordHash::Kind),
        ("$1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbbb.", InvalidPasswordHash::Kind),
        ("$apr1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbbbb", InvalidPasswordHash::Damaged),
        ("$apr1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbb.", InvalidPasswordHash::Damaged),
        ("$apr1$aaaaaaaaa$bbbbbbbbbbbbbbbbbbbbb.", InvalidPasswordHash::Damaged),
        ("$apr1$$bbbbbbbbbbbbbbbbbbbbb.", InvalidPasswordHash::Damaged),
        ("$apr1$a:$bbbbbbbbbbbbbbbbbbbbb.", InvalidPasswordHash::Damaged),
        ("$apr1$", InvalidPasswordHash::Damaged),
        (&bcrypt[..59], InvalidPasswordHash::Damaged),
        ("$2y$99$", InvalidPasswordHash::Damaged),
        (&bcrypt.replace("$04$", "$31$"), InvalidPasswordHash::Cost),
        (&argon2[..argon2.len() - 12], InvalidPasswordHash::Damaged),
        (&argon2.replace("m=8,", "m=2000000,"), InvalidPasswordHash::Cost),
        ("$argon2id$", InvalidPasswordHash::Damaged),
    ] {
        assert_eq!(text.parse::<PasswordHash>(), Err(error), "{text}");
    }
}

/// The hashes are the output of `openssl passwd -apr1`.
#[test]
fn apr1_hashes_of_openssl_verify_only_their_passwords() {
    let long = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456";
    for (password, hash) in [
        ("", "$apr1$sAlT./9z$G0sm4IFieLUlez5y3TXA6/"),
        ("a", "$apr1$sAlT./9z$P.OPLo/DtxIv6jnExUiJ5/"),
        ("open sesame", "$apr1$sAlT./9z$9Z7ENwmMUfnNmDadDZJuS."),
        ("pä:ss", "$apr1$sAlT./9z$GHpEyjo14DdhA3YnWpN2m/"),
        (long, "$apr1$sAlT./9z$yUO7cnaEzkVXXHLWJNUpv0"),
        ("open sesame", "$apr1$x$ro/6RlB/jB4ZRUA9qJm6A0"),
    ] {
        let hash: PasswordHash = hash.parse().unwrap();
        assert!(hash.is_weak() && hash.is_of(password), "{password}");
        for other in [&format!("{password}a"), "open", "Open sesame", "b"] {
            assert!(!hash.is_of(other), "{password} {other}");
        }
    }
    assert!(!BCRYPT.parse::<PasswordHash>().unwrap().is_weak());
}

#[test]
fn user_with_an_apr1_hash_can_log_in() {
    let hash = "$apr1$x$ro/6RlB/jB4ZRUA9qJm6A0".parse().unwrap();
    let config = BasicAuthConfig { users: vec![("eve".to_owned(), hash)], ..config() };
    let scene = scene(PolicyConfig::BasicAuth(config));
    assert_eq!(outcome(&ask(&scene, &login("eve:open sesame"))), ("200", "user eve"));
    assert_eq!(outcome(&ask(&scene, &login("eve:open"))).0, "401");
}

#[test]
fn debug_output_contains_no_password_hash() {
    let policy = crate::Policy::new("a", PolicyConfig::BasicAuth(config()));
    let printed = format!("{:?} {policy:?} {:?}", config(), config().users);
    assert!(!printed.contains("$2") && !printed.contains("$argon"), "{printed}");
}
