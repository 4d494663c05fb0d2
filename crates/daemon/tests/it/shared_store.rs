//! Gateways with a store that is absent, and gateways that exchange health news over a store.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use thruway_daemon::{ConfigSource, Daemon, check};
use thruway_net::Clock;
use thruway_store::Store;

use crate::client::{TIMEOUT, address_of, answering, end, file_answering, get, tcp};

/// Writes a config with a store at a port without a server.
fn config(directory: &Path) -> std::path::PathBuf {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let shared = format!(
        "[shared]\nstore = \"redis://127.0.0.1:{port}\"\nreplica = \"one\"\npassword = \"sesame\"\n\
         key = \"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\"\n[admin]\naddress = \"127.0.0.1:0\""
    );
    let file = directory.join("config.toml");
    std::fs::write(&file, file_answering("served", &shared)).unwrap();
    file
}

#[test]
fn requests_are_served_without_the_store_and_its_state_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::from_file(config(directory.path())).unwrap();
    assert_eq!(get(&address_of(&daemon), "/").1, "served");
    let started = Clock::system().now_exact();
    let store = loop {
        let store = daemon.handle().status()["shared_store"].clone();
        if store["state"] == "disconnected" {
            break store;
        }
        assert!(Clock::system().now_exact().saturating_sub(started) < TIMEOUT, "{store}");
        std::thread::yield_now();
    };
    assert_eq!((store["replica"].as_str(), store["kind"].as_str()), (Some("one"), Some("single")));
    let error = store["last_error"].as_str().unwrap();
    assert!(
        error.contains("check the host and the port") && !store.to_string().contains("sesame"),
        "{store}"
    );
    let metrics = daemon.handle().metrics();
    assert!(metrics.contains("\nthruway_store_connected 0\n"), "{metrics}");
    assert!(metrics.contains("thruway_store_operations_total{outcome=\"not_sent\"}"), "{metrics}");
    end(daemon);
}

#[test]
fn check_connects_to_the_store_unless_it_is_offline() {
    let directory = tempfile::tempdir().unwrap();
    let file = config(directory.path());
    let failure = check(&file, false).unwrap_err().to_string();
    assert!(
        failure.contains("the shared store cannot be used") && failure.contains("--offline"),
        "{failure}"
    );
    assert!(failure.contains("check the host and the port") && !failure.contains("sesame"), "{failure}");
    let checked = check(&file, true).unwrap();
    assert!(checked.description.contains("shared store: redis://127.0.0.1"), "{}", checked.description);
}

/// Starts a gateway that ejects servers after `failures` failures and exchanges health news over `store`.
fn gateway(store: &Store, servers: [SocketAddr; 2], failures: u32) -> Daemon {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let [one, two] = servers;
    let config = format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n\
         [upstreams.a]\nservers = [\"{one}\", \"{two}\"]\n\
         ejection = {{ failures = {failures}, time = \"1h\", time_max = \"1h\" }}\n\
         [shared]\nhealth = true\nkey = \"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\"\n\
         [admin]\naddress = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&file, config).unwrap();
    Daemon::with_store(ConfigSource::file(&file), store.clone()).unwrap()
}

#[test]
fn server_that_one_gateway_ejects_needs_one_failure_in_the_others() {
    let (store, backend) = (Store::memory(), Daemon::from_config(answering("served")).unwrap());
    let absent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let servers = [tcp(&address_of(&backend)), absent];
    let gateways = [2, 1000].map(|failures| gateway(&store, servers, failures));
    let started = Clock::system().now_exact();
    while !gateways[1].handle().status()["upstreams"].to_string().contains("\"ejected\"") {
        assert!(Clock::system().now_exact().saturating_sub(started) < TIMEOUT);
        for gateway in &gateways {
            assert_eq!(get(&address_of(gateway), "/").1, "served");
        }
    }
    gateways.into_iter().chain([backend]).for_each(end);
}
