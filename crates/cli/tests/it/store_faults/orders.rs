//! Three gateway processes order one certificate, and the process that orders is killed.

use std::path::Path;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use thruway_testkit::acme::AcmeServer;

use super::fleet::KEY;
use super::servers::RedisServer;
use super::{ONE_AT_A_TIME, now, since};
use crate::admin::get_admin;
use crate::process::{Signal, Thruway};

/// A gateway process with a listener for each type of challenge.
struct Gateway {
    name: String,
    thruway: Thruway,
    secured: String,
    plain: String,
    admin: String,
    directory: TempDir,
}

impl Gateway {
    fn start(number: usize, redis: &RedisServer, acme: &AcmeServer) -> Self {
        let (name, directory) = (format!("gateway-{number}"), tempfile::tempdir().unwrap());
        let config = config(&name, &redis.url(), &acme.directory_url(), &acme.root());
        let mut thruway = Thruway::serve(directory.path(), &config);
        let (secured, plain) = (thruway.address(), thruway.address());
        let admin = thruway.admin_address();
        Self { name, thruway, secured, plain, admin, directory }
    }

    fn status(&self) -> Value {
        serde_json::from_str(get_admin(&self.admin, "/status").text()).unwrap()
    }

    /// Returns the name of the replica that orders, as this gateway knows it.
    fn holder(&self) -> Option<String> {
        let status = self.status();
        let replicas = status["fleet"]["replicas"].as_array().unwrap();
        let holder = replicas.iter().find(|replica| replica["holds_certificate_lock"] == true)?;
        Some(holder["name"].as_str().unwrap().to_owned())
    }

    /// Returns the file with the certificate that the gateway uses.
    fn certificate(&self) -> Option<String> {
        let status = self.status();
        let file = status["certificates"][0]["file"].as_str()?;
        std::fs::read_to_string(self.directory.path().join(file)).ok()
    }

    /// Makes the ACME server connect only to this gateway.
    fn validate(&self, acme: &AcmeServer) {
        let port = |url: &str| url.rsplit(':').next().unwrap().parse().unwrap();
        acme.set_validation_ports(port(&self.plain), port(&self.secured));
    }
}

fn config(name: &str, store: &str, acme: &str, root: &Path) -> String {
    let root = root.display();
    format!(
        "workers = 1\n[shared]\nstore = \"{store}\"\nkey = \"{KEY}\"\nreplica = \"{name}\"\n\
         [acme]\nterms_of_service_agreed = true\ndirectory = \"{acme}\"\nroots = [\"{root}\"]\n\
         challenge = \"http-01\"\nstore = \"acme\"\n\
         [[listeners]]\naddress = \"127.0.0.1:0\"\ntls.certificates = [{{ acme = [\"a.example\"] }}]\n\
         [[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [[routes]]\npath = \"/\"\nrespond.body = \"a\"\n"
    )
}

/// Waits until `find` returns a value.
fn wait_for<T>(what: &str, find: impl Fn() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(since(start) < LIMIT, "waited too long for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs redis-server"]
fn another_gateway_completes_the_order_of_a_killed_gateway() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (redis, acme) = (RedisServer::start(&[]), AcmeServer::start());
    let mut gateways: Vec<_> = (1..=3).map(|number| Gateway::start(number, &redis, &acme)).collect();
    // The ACME server keeps the order pending until it knows the address at which to validate the name.
    let holder = wait_for("an order", || {
        let has_stored_it =
            redis.cli(&["--raw", "keys", "*:acme:*"]).lines().any(|key| key.contains("challenge"));
        gateways[0].holder().filter(|_| acme.orders() == 1 && has_stored_it)
    });
    let killed = gateways.iter().position(|gateway| gateway.name == holder).unwrap();
    let killed = gateways.remove(killed);
    killed.thruway.signal(Signal::KILL);
    let begin = now();
    // Its record expires first. Then another replica has the lock.
    let next =
        wait_for("another gateway with the lock", || gateways[0].holder().filter(|name| *name != holder));
    let taken_over = since(begin);
    assert_eq!((acme.orders(), acme.issued()), (1, 0));
    // The gateway without the lock responds to the challenge.
    gateways.iter().find(|gateway| gateway.name != next).unwrap().validate(&acme);
    let certificate = wait_for("the certificate", || gateways[0].certificate());
    wait_for("the same certificate", || gateways[1].certificate().filter(|other| *other == certificate));
    assert_eq!((acme.orders(), acme.issued(), acme.accounts()), (1, 1, 1));
    println!("killed holder: lock taken over after {taken_over:.1?}, certificate after {:.1?}", since(begin));
    drop(killed);
}

/// Maximum time of a step. The lock expires 30 s after its holder was killed, and the record of the holder 15 s after
/// its last heartbeat.
const LIMIT: Duration = Duration::from_mins(2);
