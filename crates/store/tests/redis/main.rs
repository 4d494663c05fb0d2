//! Tests with real servers of Redis, Sentinel and Redis Cluster. `cargo xtask interop --redis` runs them.

#[path = "../contract/mod.rs"]
mod contract;
mod failures;
mod foreign;
mod inspections;
mod server;

use std::process::Command;

use server::{Server, config, connect};
use thruway_store::{Store, StoreCredentials, StoreError, StoreKey, StoreTls};
use thruway_testkit::CertificateAuthority;

/// Calls each function of the contract.
macro_rules! run {
    (($store:expr) $($module:ident: $($name:ident),* ;)*) => {
        $($(contract::$module::$name($store.clone()).await;)*)*
    };
}

async fn passes_the_contract(store: &Store) {
    contract::with_all!(run(store));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_single_server_passes_the_contract() {
    let server = Server::start(&[]).await;
    let store = connect(config(&server.url())).await;
    passes_the_contract(&store).await;
    let health = store.health();
    assert!(health.latency.is_some() && health.operations.succeeded > 1000, "{health:?}");
    assert_eq!((health.operations.timed_out, health.reconnects), (0, 0), "{health:?}");
    // Every key has the prefix and expires.
    let keys = server.cli(&["--raw", "keys", "*"]);
    assert!(keys.lines().count() > 10);
    for key in keys.lines() {
        assert!(key.starts_with("fleet:v1:"), "{key}");
        let ttl: i64 = server.cli(&["--raw", "pttl", key]).trim().parse().unwrap();
        assert!(ttl != -1, "{key} does not expire");
    }
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_user_with_few_permissions_passes_the_contract_over_tls() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["localhost"]);
    let client = authority.issue_client("client", "gateway");
    let (root, path) = (authority.root(), |path: &std::path::Path| path.display().to_string());
    let server = Server::start(&[
        "--tls-port",
        "{port}",
        "--port",
        "0",
        "--tls-auth-clients",
        "yes",
        "--tls-cert-file",
        &path(&files.chain),
        "--tls-key-file",
        &path(&files.key),
        "--tls-ca-cert-file",
        &path(&root),
        "--user",
        "default",
        "off",
        "--user",
        "gateway",
        "on",
        ">open-sesame",
        "~fleet:*",
        "&fleet:*",
        "+@all",
        "-@dangerous",
        "+info",
        "+role",
    ])
    .await;
    let mut good = config(&format!("rediss://localhost:{}", server.port));
    let read = |path: &std::path::Path| std::fs::read(path).unwrap();
    good.tls =
        StoreTls { roots: Some(read(&root)), identity: Some((read(&client.chain), read(&client.key))) };
    let password =
        |text: &str| StoreCredentials { user: Some("gateway".into()), password: Some(text.into()) };
    good.credentials = password("open-sesame");
    passes_the_contract(&connect(good.clone()).await).await;
    thruway_store::inspect(good.clone()).await.unwrap();

    let mut wrong = good.clone();
    wrong.credentials = password("close-sesame");
    let error = thruway_store::inspect(wrong.clone()).await.unwrap_err().to_string();
    assert!(error.contains("check `user` and `password`") && !error.contains("sesame"), "{error}");
    assert!(!format!("{wrong:?}").contains("sesame"));
    let mut unknown = good.clone();
    unknown.tls.roots = None;
    let error = thruway_store::inspect(unknown).await.unwrap_err().to_string();
    assert!(error.contains("check `ca_file`"), "{error}");
    let mut plain = good.clone();
    plain.url = format!("redis://localhost:{}", server.port).parse().unwrap();
    let error = thruway_store::inspect(plain).await.unwrap_err().to_string();
    assert!(error.contains("rediss://"), "{error}");
    let mut other = good;
    other.prefix = "other".to_owned();
    other.identities.clear();
    let error = connect(other).await.get(&StoreKey::new("value", "a")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Rejected(reason) if reason.contains("NOPERM")), "{error:?}");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_cluster_passes_the_contract() {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
    let nodes = [Server::start(&options).await, Server::start(&options).await, Server::start(&options).await];
    let addresses = nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.port));
    let mut create = Command::new("redis-cli");
    let created =
        create.args(["--cluster", "create"]).args(&addresses).args(["--cluster-yes"]).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let store = connect(config(&format!("redis+cluster://{}", addresses.join(",")))).await;
    passes_the_contract(&store).await;
    thruway_store::inspect(config(&format!("redis+cluster://{}", addresses[1]))).await.unwrap();
    let error = thruway_store::inspect(config(&nodes[0].url())).await.unwrap_err().to_string();
    assert!(error.contains("use `redis+cluster://`"), "{error}");
}
