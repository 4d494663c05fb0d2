//! A test with the provider `oidc-provider` of npm.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::setup::{Browser, start};
use super::*;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Logs in as `ada` at the provider, and returns the target of the callback.
fn log_in(provider: &mut Browser, issuer: &str, location: &str) -> String {
    let mut target = location.to_owned();
    for _ in 0..10 {
        if let Some(callback) = target.strip_prefix("https://shop.example") {
            return callback.to_owned();
        }
        let path = target.strip_prefix(issuer).unwrap_or(&target).to_owned();
        let page = provider.page(&path);
        let next = match page.status {
            200 if page.body.contains("value=\"login\"") => {
                provider.post(&path, "prompt=login&login=ada&password=x")
            }
            200 => provider.post(&path, "prompt=consent"),
            _ => page,
        };
        assert!(matches!(next.status, 302 | 303), "{path}: {} {}", next.status, next.body);
        target = next.field("location").unwrap().to_owned();
    }
    panic!("the provider does not redirect to the gateway: {target}");
}

/// Run this test in a directory with the package: `npm install oidc-provider`, then
/// `OIDC_PROVIDER_DIRECTORY=$PWD cargo test -p thruway-gateway --lib real_provider -- --ignored`.
#[test]
#[ignore = "needs node and the package oidc-provider of npm"]
fn users_log_in_at_a_real_provider() {
    let directory = std::env::var_os("OIDC_PROVIDER_DIRECTORY").expect("OIDC_PROVIDER_DIRECTORY is set");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/policy/oidc/tests/provider.mjs");
    let command = Command::new("node").arg(script).current_dir(directory).stdout(Stdio::piped()).spawn();
    let mut process = Running(command.unwrap());
    // The provider fails if nothing reads its output any more.
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    let mut issuer = String::new();
    output.read_line(&mut issuer).unwrap();
    let issuer = issuer.trim();
    let secrets = OidcSecrets::from_lines(&"s".repeat(32)).unwrap();
    let origin = Url::for_request("https://shop.example").unwrap();
    let mut config = OidcConfig::new(issuer, "gateway", origin, secrets).unwrap();
    config.client_secret = Some(OidcClientSecret("s/cret".to_owned()));
    config.fields =
        [("X-User", "name"), ("X-Groups", "groups")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    // Each request refreshes the session.
    config.refresh_interval = Duration::ZERO;
    let server = start(&config);
    let mut browser = Browser::at(&server);
    let address = issuer.strip_prefix("http://").unwrap();
    let mut provider = Browser::of_host(address, address);
    let to_provider = browser.page("/a?b=c");
    let callback = log_in(&mut provider, issuer, to_provider.field("location").unwrap());
    let returned = browser.page(&callback);
    assert_eq!(returned.field("location"), Some("https://shop.example/a?b=c"), "{}", returned.body);
    for _ in 0..3 {
        let shown = browser.page("/a?b=c");
        assert_eq!((shown.status, &*shown.body), (200, "user ada, groups ops, dev, cookies "));
        assert_eq!(shown.cookies().len(), 1, "the session has been refreshed");
    }
    let end = browser.page("/oidc/logout");
    assert!(end.field("location").unwrap().starts_with(&format!("{issuer}/session/end?client_id=gateway&")));
    drop(output);
}
