//! Tests of policies: access and rate limits.

use std::fs;

use crate::client::{Client, get};
use crate::process::{RELOADED, Signal, Thruway};

const EXAMPLE: &str = include_str!("../../../daemon/examples/policies.toml");

const LOGIN: &str = "Authorization: Basic YWxpOm9wZW4gc2VzYW1l\r\n";

/// Returns the example config with `backend` as its upstream server, which echoes request headers.
fn example(backend: &str) -> String {
    EXAMPLE.replace("127.0.0.1:8080", "127.0.0.1:0").replace("127.0.0.1:9001", backend)
}

/// An upstream server might read these paths as `/admin/users`. Without this check, they would bypass the
/// password.
#[test]
fn ambiguous_path_cannot_bypass_policies() {
    let directory = tempfile::tempdir().unwrap();
    let mut backend = Thruway::demo(&[]);
    let closed = "[[routes]]\npath = \"/closed\"\nrespond.status = 403\n";
    let config = format!("{}\n{closed}", example(&backend.authority()));
    let mut gateway = Thruway::serve(directory.path(), &config);
    let address = gateway.address();
    for path in ["/admin%2Fusers", "/admin;x/users", "/admin%5Cusers", "/closed%2Fa"] {
        assert_eq!(get(&address, path).status(), "400", "{path}");
    }
    assert_eq!(get(&address, "/admin").status(), "401");
    gateway.reload(directory.path(), &format!("encoded_slashes = \"keep\"\n{config}"), RELOADED);
    assert_ne!(get(&address, "/admin%2Fusers").status(), "400");
    assert_eq!(get(&address, "/admin;x/users").status(), "400");
}

#[test]
fn policies_example_enforces_authentication_and_limits() {
    let directory = tempfile::tempdir().unwrap();
    let mut backend = Thruway::demo(&[]);
    let config = example(&backend.authority());
    let mut gateway = Thruway::serve(directory.path(), &config);
    let address = gateway.address();
    let mut client = Client::connect(&address);
    assert_eq!(client.get("/").text(), "public\n");

    let refused = client.get("/admin");
    assert_eq!(refused.status(), "401");
    assert!(refused.has("www-authenticate: basic realm=\"admins only\", charset=\"utf-8\""));
    assert_eq!(client.request("GET /admin", &LOGIN.replace("YWxp", "YWxq")).status(), "401");
    // The upstream has no such path. Its 404 shows that the request was forwarded.
    assert_eq!(client.request("GET /admin", LOGIN).status(), "404");
    assert_eq!(client.request("GET /admin", LOGIN).status(), "404");

    assert_eq!(client.get("/api").status(), "401");
    let with = |key: &str| format!("X-Api-Key: {key}\r\nX-User: {key}\r\n");
    let mut other = Client::connect(&address);
    let lines = format!("{}Content-Length: 1001\r\n", with("k1"));
    other.send(&format!("POST /api HTTP/1.1\r\nHost: a\r\n{lines}\r\n{}", "x".repeat(1001)));
    assert_eq!(other.response(false).status(), "413");
    let statuses: Vec<_> =
        (0..5).map(|_| client.request("GET /api", &with("k1")).status().to_owned()).collect();
    assert_eq!(statuses, ["404", "404", "404", "404", "429"], "the request that was too large counts too");
    let refused = client.request("GET /api", &with("k1"));
    assert!(refused.has("ratelimit-limit: 5") && refused.has("ratelimit-remaining: 0"));
    assert_eq!(client.request("GET /api", &with("k2")).status(), "404", "each key has its own limit");
}

#[test]
fn check_shows_policies_in_evaluation_order() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), EXAMPLE).unwrap();
    let check = |args: &[&str]| {
        let all: Vec<&str> = ["check", "a.toml"].iter().chain(args).copied().collect();
        Thruway::start_in(directory.path(), &all).end()
    };
    let checked = check(&[]);
    assert_eq!((checked.code, &*checked.stderr), (Some(0), ""));
    let line = "/admin and below: forwarded to backend; policies: inside, attempts, admins\n";
    assert!(checked.stdout.contains(line), "{}", checked.stdout);
    assert!(!checked.stdout.contains("$2y$") && !checked.stdout.contains("6ab9"), "{}", checked.stdout);
    let explained = check(&["--explain", "GET http://a/admin"]).stdout;
    let order = "\
GET http://a/admin: forwarded to backend

policies of this route, in the order of their evaluation:
  inside: clients from 127.0.0.1, ::1, 10.0.0.0/8, but not from 10.99.0.0/16
  attempts: 10 requests in 1s, 50 at once, by address
  admins: name and password of one of 1 users
";
    assert!(explained.starts_with(order), "{explained}");
}

/// Returns a config with a route that responds with `content` and has a limit of one request per hour.
fn once(burst: u32, content: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\npolicies = [\"once\"]\n\
         respond.body = \"{content}\"\n\
         [policies.once]\nrate_limit = {{ requests = 1, per = \"1h\", burst = {burst} }}\n"
    )
}

#[test]
fn rate_limit_count_survives_reload_unless_the_policy_changes() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &once(1, "one"));
    let address = thruway.address();
    assert_eq!(get(&address, "/").text(), "one");
    assert_eq!(get(&address, "/").status(), "429");
    thruway.reload(directory.path(), &once(1, "two"), RELOADED);
    assert_eq!(get(&address, "/").status(), "429");
    thruway.reload(directory.path(), &once(2, "three"), RELOADED);
    assert_eq!(get(&address, "/").text(), "three");
}

#[test]
fn reload_reads_key_files_again() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.txt");
    // Hash of the key `k1`.
    let line = |name: &str| {
        format!("{name}:sha256:6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0\n")
    };
    fs::write(&keys, format!("# keys\n{}", line("ada"))).unwrap();
    let config = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\npolicies = [\"keys\"]\n\
                  respond.body = \"in\"\n[policies.keys.api_keys]\nkeys_file = \"keys.txt\"\n";
    let mut thruway = Thruway::serve(directory.path(), config);
    let mut client = Client::connect(&thruway.address());
    assert_eq!(client.request("GET /", "X-Api-Key: k1\r\n").text(), "in");
    fs::write(&keys, line("ada").replace("6ab9", "6ab8")).unwrap();
    thruway.reload(directory.path(), config, RELOADED);
    assert_eq!(client.request("GET /", "X-Api-Key: k1\r\n").status(), "401");
    fs::write(&keys, "ada:k1").unwrap();
    thruway.signal(Signal::HUP);
    let line = thruway.wait_for_log("line 1 of `");
    assert!(!line.contains("k1"), "{line}");
    assert_eq!(client.request("GET /", "X-Api-Key: k1\r\n").status(), "401");
}

#[test]
fn jwt_policy_fetches_keys_from_its_keys_url() {
    let [directory, issuer_directory] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    // A key from RFC 8037.
    let keys = "{\\\"keys\\\":[{\\\"kty\\\":\\\"OKP\\\",\\\"crv\\\":\\\"Ed25519\\\",\
                \\\"x\\\":\\\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\\\"}]}";
    let (_issuer, issuer) = Thruway::answering(issuer_directory.path(), keys);
    let status = |url: &str| {
        let config = format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\npolicies = [\"tokens\"]\n\
             respond.body = \"in\"\n[policies.tokens.jwt]\nkeys_url = \"{url}\"\nkeys_refresh_interval = \"1m\"\n"
        );
        let mut thruway = Thruway::serve(directory.path(), &config);
        let mut client = Client::connect(&thruway.address());
        client.request("GET /", "Authorization: Bearer e30.e30.AA\r\n").status().to_owned()
    };
    assert_eq!(status(&format!("http://{issuer}/jwks.json")), "401");
    // No server listens at this address.
    assert_eq!(status("http://127.0.0.1:1/jwks.json"), "503");
}
