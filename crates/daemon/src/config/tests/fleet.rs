//! Tests of the section `shared`.

use super::*;

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

fn with_shared(keys: &str) -> Result<Config, Failure> {
    resolved(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nrespond.status = 204\n\
         [shared]\n{keys}\n"
    ))
}

fn refused(keys: &str) -> String {
    with_shared(keys).err().unwrap_or_else(|| panic!("{keys}")).to_string()
}

#[test]
fn url_of_a_store_is_refused_with_its_reason() {
    for (url, message) in [
        ("localhost:6379", "the URL must begin with `redis://`"),
        ("redis://bob:sesame@a", "write `user` and `password`"),
        ("redis+sentinel://a", "the name of the master is missing"),
        ("redis://a,b", "use `redis+cluster://`"),
        ("redis://a?db=1", "remove the part from `?`"),
    ] {
        let failure = refused(&format!("store = \"{url}\"\nkey = \"{KEY}\""));
        assert!(failure.contains(message) && !failure.contains("sesame"), "{failure}");
    }
}

#[test]
fn a_shared_store_requires_a_key() {
    let failure = refused("store = \"redis://a\"");
    assert!(
        failure.contains("requires the key of the fleet") && failure.contains("openssl rand"),
        "{failure}"
    );
    let failure = refused("store = \"redis://a\"\nkey = \"c2VzYW1l\"");
    assert!(failure.contains("32 bytes in base64") && !failure.contains("c2VzYW1l"), "{failure}");
    let failure = refused("store = \"redis://a\"\nkey_file = \"absent\"");
    assert!(failure.contains("cannot read"), "{failure}");
    assert!(with_shared("store = \"memory\"").unwrap().shared.unwrap().store.is_none());
}

#[test]
fn settings_of_the_store_are_complete() {
    let keys = format!(
        "store = \"rediss://a:7000\"\nkey = \"{KEY}\"\nprefix = \"b\"\ntimeout = \"1s\"\nuser = \"c\"\n\
         password = \"sesame\"\nreplica = \"d\""
    );
    let shared = with_shared(&keys).unwrap().shared.unwrap();
    let store = shared.store.unwrap();
    assert_eq!((store.url.to_string(), store.prefix.as_str()), ("rediss://a:7000".to_owned(), "b"));
    assert_eq!((store.timeout.as_secs(), store.connections_max), (1, 4));
    assert_eq!(store.credentials.password.as_deref(), Some("sesame"));
    assert_eq!((store.identities.len(), shared.replica.as_deref()), (1, Some("d")));
}

#[test]
fn wrong_names_and_contradictions_are_refused() {
    for (keys, message) in [
        ("prefix = \"a:b\"", "this is not a prefix of keys"),
        ("replica = \"a b\"", "this is not a name of a gateway"),
        ("timeout = \"1ms\"", "the value must be from 10ms to 5s"),
        ("connections_max = 0", "the value must be from 1 to 64"),
        ("password = \"a\"\npassword_file = \"b\"", "both `password` and `password_file`"),
        ("key = \"a\"\nkey_file = \"b\"", "both `key` and `key_file`"),
        ("store = \"redis://a\"\nca_file = \"b\"", "this key requires TLS"),
    ] {
        let failure = refused(keys);
        assert!(failure.contains(message), "{failure}");
    }
}

#[test]
fn a_peer_listener_without_a_shared_store_gets_a_warning() {
    let warnings = |keys: &str| {
        let config = with_shared(&format!("key = \"{KEY}\"\npeer_listen = \"127.0.0.1:2\"\n{keys}")).unwrap();
        usage::unused(&config).iter().map(ToString::to_string).collect::<String>()
    };
    assert!(warnings("").contains("no other gateway finds this `peer_listen`"));
    assert_eq!(warnings("store = \"redis://a\""), "");
}

#[test]
fn a_change_of_the_store_needs_a_restart() {
    let config = |url: &str| with_shared(&format!("store = \"{url}\"\nkey = \"{KEY}\"")).unwrap();
    let changes = |one: &Config, other: &Config| one.fixed_changes(other).collect::<Vec<_>>();
    assert_eq!(changes(&config("redis://a"), &config("redis://a")), [""; 0]);
    assert_eq!(changes(&config("redis://a"), &config("redis://b")), ["shared"]);
    let memory = with_shared("store = \"memory\"").unwrap();
    assert_eq!(changes(&memory, &config("redis://a")), ["shared"]);
    assert_eq!(changes(&memory, &Config::default()), [""; 0]);
}

#[test]
fn mistakes_in_peer_keys_are_errors_with_a_hint() {
    for (keys, message, hint) in [
        ("peer_listen = \"127.0.0.1:1\"", "another listener has the address", "choose another address"),
        ("peer_listen = \"10.0.0.1:2\"", "there is no `peer_tls`", "add `peer_tls"),
        ("peer_listen = \"unix:/run/a\"", "cannot reach a Unix socket", "peer_listen = \"10.0.0.5:9300\""),
        ("peer_listen = \"0.0.0.0:2\"", "cannot connect to `0.0.0.0:2`", "peer_address"),
        ("peer_listen = \"127.0.0.1:2\"\npeer_address = \"a\"", "this is not `HOST:PORT`", "peer_address"),
        ("peer_address = \"a:1\"", "this key requires `peer_listen`", ""),
    ] {
        let failure = refused(&format!("key = \"{KEY}\"\n{keys}"));
        assert!(failure.contains(message) && failure.contains(hint), "{keys}: {failure}");
    }
    let failure = refused("peer_listen = \"127.0.0.1:2\"");
    assert!(failure.contains("requires the key of the fleet"), "{failure}");
    let keys = format!("key = \"{KEY}\"\npeer_listen = \"127.0.0.1:2\"\npeer_address = \"a:3\"");
    let peers = with_shared(&keys).unwrap().shared.unwrap().peers.unwrap();
    assert_eq!((peers.address.as_deref(), peers.tls), (Some("a:3"), None));
}
