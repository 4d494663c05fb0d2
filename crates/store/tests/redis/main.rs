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
    let nodes = start_cluster(&[], &[]).await;
    let addresses = addresses_of(&nodes);
    let store = connect(config(&format!("redis+cluster://{}", addresses.join(",")))).await;
    passes_the_contract(&store).await;
    thruway_store::inspect(config(&format!("redis+cluster://{}", addresses[1]))).await.unwrap();
    let error = thruway_store::inspect(config(&nodes[0].url())).await.unwrap_err().to_string();
    assert!(error.contains("use `redis+cluster://`"), "{error}");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_cluster_passes_the_contract_over_tls() {
    let authority = CertificateAuthority::new();
    // The nodes announce their addresses, not their names.
    let files = authority.issue("server", &["127.0.0.1"]);
    let [chain, key, root] =
        [&files.chain, &files.key, &authority.root()].map(|path| path.display().to_string());
    let tls = ["--port", "0", "--tls-port", "{port}", "--tls-cluster", "yes", "--tls-replication", "yes"];
    let trust = ["--tls-cert-file", &chain, "--tls-key-file", &key, "--tls-ca-cert-file", &root];
    let options = [&tls[..], &trust[..], &["--tls-auth-clients", "no"]].concat();
    let nodes = start_cluster(&options, &["--tls", "--cacert", &root]).await;
    let mut good = config(&format!("rediss+cluster://{}", addresses_of(&nodes).join(",")));
    good.tls.roots = Some(std::fs::read(&root).unwrap());
    passes_the_contract(&connect(good.clone()).await).await;
    thruway_store::inspect(good.clone()).await.unwrap();

    let mut unknown = good.clone();
    unknown.tls.roots = None;
    let error = thruway_store::inspect(unknown).await.unwrap_err().to_string();
    assert!(error.contains("check `ca_file`"), "{error}");
    let mut plain = good;
    plain.url = format!("redis+cluster://127.0.0.1:{}", nodes[0].port).parse().unwrap();
    let error = thruway_store::inspect(plain).await.unwrap_err().to_string();
    assert!(error.contains("rediss"), "{error}");
}

/// Starts a cluster of three nodes. `redis-cli` connects to them with the options `client`.
async fn start_cluster(options: &[&str], client: &[&str]) -> [Server; 3] {
    let options = [&["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"], options].concat();
    let nodes = [Server::start(&options).await, Server::start(&options).await, Server::start(&options).await];
    let mut create = Command::new("redis-cli");
    create.args(client).args(["--cluster", "create"]).args(addresses_of(&nodes)).arg("--cluster-yes");
    let created = create.output().unwrap();
    assert!(created.status.success(), "{created:?}");
    nodes
}

fn addresses_of(nodes: &[Server; 3]) -> [String; 3] {
    nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.port))
}
