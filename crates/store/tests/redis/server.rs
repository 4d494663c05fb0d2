//! Servers of Redis for a test. Dropping a server ends its process.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use thruway_store::{Store, StoreConfig, StoreHealth, StoreState};
use tokio::time::{sleep, timeout};

/// A running server.
pub(crate) struct Server {
    pub(crate) port: u16,
    child: Child,
    options: Vec<String>,
    directory: TempDir,
}

impl Server {
    /// Starts a server that saves nothing.
    pub(crate) async fn start(options: &[&str]) -> Self {
        let port = free_port();
        let mut all: Vec<_> =
            ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"].map(str::to_owned).into();
        if !options.contains(&"--tls-port") {
            all.extend(["--port".to_owned(), port.to_string()]);
        }
        all.extend(options.iter().map(|option| option.replace("{port}", &port.to_string())));
        Self::run(port, all, None).await
    }

    /// Starts Sentinel with the file `config`.
    pub(crate) async fn sentinel(config: &str) -> Self {
        let port = free_port();
        let config = format!("port {port}\nbind 127.0.0.1\n{config}");
        Self::run(port, vec!["--sentinel".to_owned()], Some(config)).await
    }

    async fn run(port: u16, options: Vec<String>, config: Option<String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options;
        if let Some(config) = config {
            let file = directory.path().join("config");
            fs::write(&file, config).unwrap();
            options.insert(0, file.display().to_string());
        }
        let child = spawn(&options, directory.path());
        let server = Self { port, child, options, directory };
        server.until_it_listens().await;
        server
    }

    async fn until_it_listens(&self) {
        let address = ("127.0.0.1", self.port);
        let listens = async {
            while tokio::net::TcpStream::connect(address).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let log = || fs::read_to_string(self.directory.path().join("log"));
        assert!(timeout(LIMIT, listens).await.is_ok(), "the server does not listen: {:?}", log());
    }

    /// Ends the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the process again, with the same port.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(&self.options, self.directory.path());
        self.until_it_listens().await;
    }

    /// Stops or continues the process.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Runs `redis-cli` and returns its output.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(options: &[String], directory: &Path) -> Child {
    let log: PathBuf = directory.join("log");
    let mut command = thruway_testkit::redis_server();
    command.args(options).current_dir(directory).stdin(Stdio::null());
    command.stdout(fs::File::create(log).unwrap()).spawn().expect("install redis-server")
}

/// Returns a port for which `port + 10000`, the port of the bus of a cluster, is valid too.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if port < 55_000 {
            return port;
        }
    }
}

/// Returns settings for `url`.
pub(crate) fn config(url: &str) -> StoreConfig {
    StoreConfig {
        prefix: "fleet".to_owned(),
        identities: vec!["this fleet".to_owned()],
        ..StoreConfig::new(url.parse().unwrap())
    }
}

/// Connects, and waits for the first connection.
pub(crate) async fn connect(config: StoreConfig) -> Store {
    let store = Store::connect(config);
    until(&store, |health| health.state == StoreState::Connected).await;
    store
}

/// Waits until the health meets a condition. Returns the time that this took.
pub(crate) async fn until(store: &Store, is_met: impl Fn(&StoreHealth) -> bool) -> Duration {
    let start = tokio::time::Instant::now();
    let wait = async {
        while !is_met(&store.health()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(LIMIT, wait).await.is_ok(), "{:?}", store.health());
    start.elapsed()
}

/// Maximum time of a step.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
