//! The shared store is lost, or loses its values.

use std::future::pending;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::{fs, thread};

use thruway_certificates::acme::ChallengeKind;
use thruway_store::{Store, StoreConfig, StoreState};
use tokio::runtime::Builder;

use crate::fleet::{Fleet, Replica, wait_until};
use crate::scene::{Scene, TIMEOUT, is_issued};

/// Returns a port at which no server listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Connects to Redis at this port, in a thread of its own.
fn store_at(port: u16) -> Store {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let url = format!("redis://127.0.0.1:{port}").parse().unwrap();
            sender.send(Store::connect(StoreConfig::new(url))).unwrap();
            pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

#[test]
fn certificate_stays_in_use_and_renewal_waits_while_the_store_is_lost() {
    let fleet = Fleet::with_store(1, ChallengeKind::Http01, store_at(free_port()));
    let old = Scene::new(ChallengeKind::Http01).put_old_certificate();
    fleet.replicas[0].put_pem(&old);
    let acme = fleet.replicas[0].start();
    let waits = |error: &Option<String>| {
        error.as_ref().is_some_and(|error| error.starts_with("renewal waits for the shared store: "))
    };
    assert!(acme.wait_until(TIMEOUT, |all| all.iter().any(|status| waits(&status.last_error))));
    assert_eq!(fleet.replicas[0].acceptor.refresh(), Ok(true));
    assert_eq!(fleet.replicas[0].acceptor.served().len(), 1);
    assert_eq!((fleet.pem(), fleet.server.requests()), (old, 0));
}

/// A Redis server without a password. Dropping it kills the server.
struct Redis(Child);

impl Redis {
    fn start(port: u16, directory: &Path) -> Self {
        let mut command = thruway_testkit::redis_server();
        command.args(["--bind", "127.0.0.1", "--save", "", "--rdbcompression", "no", "--port"]);
        command.arg(port.to_string()).arg("--dir").arg(directory).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs a command of Redis, and returns its lines.
fn redis(port: u16, command: &[&str]) -> Vec<String> {
    let port = port.to_string();
    let output = Command::new("redis-cli").args(["--raw", "-p", &port]).args(command).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs redis-server"]
fn replicas_restore_the_certificate_after_redis_has_lost_it() {
    let (port, directory) = (free_port(), tempfile::tempdir().unwrap());
    let server = Redis::start(port, directory.path());
    let store = store_at(port);
    wait_until(|| store.health().state == StoreState::Connected);
    let mut fleet = Fleet::with_store(3, ChallengeKind::TlsAlpn01, store);
    let last = fleet.replicas.pop().unwrap();
    fleet.validate_at(1);
    let clients = fleet.issue();
    assert_eq!((fleet.server.orders(), fleet.server.issued(), fleet.server.accounts()), (1, 1, 1));
    let pem = fleet.pem();
    // The store contains no secret in clear text, and each key expires.
    let keys = redis(port, &["keys", "*"]);
    assert!(keys.iter().any(|key| key.contains("certificate")), "{keys:?}");
    for key in &keys {
        assert_ne!(redis(port, &["pttl", key]), ["-1"], "{key} does not expire");
    }
    assert_eq!(redis(port, &["save"]), ["OK"]);
    let dump = fs::read(directory.path().join("dump.rdb")).unwrap();
    assert!(dump.len() > 2000, "{}", dump.len());
    for secret in ["PRIVATE KEY", "BEGIN CERT", "key_pkcs8", "https://"] {
        assert!(!dump.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret}");
    }
    fs::remove_file(directory.path().join("dump.rdb")).unwrap();
    drop(server);
    wait_until(|| fleet.store.health().state == StoreState::Disconnected);
    // The new server is empty. The replicas copy their certificate, and a new replica does not order.
    let _server = Redis::start(port, directory.path());
    wait_until(|| redis(port, &["keys", "*"]).iter().any(|key| key.contains("certificate")));
    let joined = Replica::start(&last);
    assert!(joined.wait_until(TIMEOUT, is_issued), "{:?}", joined.statuses());
    assert_eq!((last.pem(), fleet.server.orders()), (pem, 1));
    drop(clients);
}
