//! Real servers of Redis, and a proxy between the gateways and a server.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use super::{until, within};
use crate::process::Signal;

/// A process of Redis. Dropping it ends the process.
pub(super) struct RedisServer {
    pub(super) port: u16,
    child: RefCell<Child>,
    options: Vec<String>,
    directory: TempDir,
}

impl RedisServer {
    /// Starts a server that saves nothing. Each item of `options` is an option or a value.
    pub(super) fn start(options: &[&str]) -> Self {
        let port = free_port();
        let number = port.to_string();
        let all = ["--port", &number, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        Self::run(
            port,
            all.iter().chain(options).map(ToString::to_string).collect(),
            tempfile::tempdir().unwrap(),
        )
    }

    /// Starts Sentinel for the master `main` at the port `master`. It fails over only after `sentinel set` with a shorter
    /// time, so that a test can check the policies before.
    pub(super) fn sentinel(master: u16) -> Self {
        let (port, directory) = (free_port(), tempfile::tempdir().unwrap());
        let file = directory.path().join("sentinel.conf");
        let config = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds main 60000\nsentinel failover-timeout main 3000\n"
        );
        fs::write(&file, config).unwrap();
        Self::run(port, vec![file.display().to_string(), "--sentinel".to_owned()], directory)
    }

    fn run(port: u16, options: Vec<String>, directory: TempDir) -> Self {
        let child = RefCell::new(spawn(&options, directory.path()));
        let server = Self { port, child, options, directory };
        server.until_it_answers();
        server
    }

    fn until_it_answers(&self) {
        let answers = || {
            let ping =
                Command::new("redis-cli").args(["-p", &self.port.to_string(), "ping"]).output().unwrap();
            // A server with a password answers with an error.
            !ping.stdout.is_empty()
        };
        within("the server answers", answers);
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn kill(&self) {
        let mut child = self.child.borrow_mut();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts the process again, with the same port and without data.
    pub(super) fn restart(&self) {
        *self.child.borrow_mut() = spawn(&self.options, self.directory.path());
        self.until_it_answers();
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.borrow()), signal).unwrap();
    }

    /// Runs `redis-cli` and returns its output.
    pub(super) fn cli(&self, arguments: &[&str]) -> String {
        self.try_cli(arguments).unwrap_or_else(|output| panic!("{output:?}"))
    }

    fn try_cli(&self, arguments: &[&str]) -> Result<String, Output> {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(arguments).output();
        let output = output.unwrap();
        if output.status.success() { Ok(String::from_utf8(output.stdout).unwrap()) } else { Err(output) }
    }

    /// Returns `true` if the server is a master. While it becomes one, it closes its connections.
    pub(super) fn is_master(&self) -> bool {
        self.try_cli(&["role"]).is_ok_and(|role| role.starts_with("master"))
    }

    /// Returns a number of `INFO`.
    pub(super) fn info(&self, name: &str) -> u64 {
        let info = self.cli(&["info", "all"]);
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.parse().ok()).expect(name)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(options: &[String], directory: &Path) -> Child {
    let log = fs::File::create(directory.join("log")).unwrap();
    let mut command = thruway_testkit::redis_server();
    command.args(options).current_dir(directory).stdin(Stdio::null()).stdout(log);
    command.spawn().expect("install redis-server")
}

/// Returns a port for which `port + 10000`, the port of the bus of a cluster, is valid too.
pub(super) fn free_port() -> u16 {
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::iter::repeat_with(port).find(|port| *port < 55_000).unwrap()
}

/// Changes the bytes of a direction of a connection.
type Rewrite = fn(Vec<u8>) -> Vec<u8>;

/// A proxy in front of a server. It runs until the end of the test process.
pub(super) struct Proxy {
    pub(super) port: u16,
    is_partitioned: Arc<AtomicBool>,
}

impl Proxy {
    pub(super) fn start(server: u16) -> Self {
        Self::rewriting(server, |bytes| bytes)
    }

    /// Starts a proxy that changes the responses of the server.
    pub(super) fn rewriting(server: u16, rewrite: Rewrite) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, is_partitioned) = (listener.local_addr().unwrap().port(), Arc::<AtomicBool>::default());
        let flag = is_partitioned.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", server))) else {
                    continue;
                };
                let lost = Arc::<AtomicBool>::default();
                for (from, to, rewrite) in [(&client, &server, None), (&server, &client, Some(rewrite))] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (flag, lost) = (flag.clone(), lost.clone());
                    thread::spawn(move || copy(from, to, rewrite, &flag, &lost));
                }
            }
        });
        Self { port, is_partitioned }
    }

    /// Begins or ends a partition: the proxy accepts connections and bytes, but forwards nothing.
    pub(super) fn set_partitioned(&self, is_partitioned: bool) {
        self.is_partitioned.store(is_partitioned, Ordering::SeqCst);
    }
}

/// Copies bytes until the end of `from`. A connection that has lost bytes never forwards bytes again.
fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    rewrite: Option<Rewrite>,
    is_partitioned: &AtomicBool,
    lost: &AtomicBool,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if is_partitioned.load(Ordering::SeqCst) {
            lost.store(true, Ordering::SeqCst);
        }
        let read = bytes[..read].to_vec();
        let written = rewrite.map_or_else(|| read.clone(), |rewrite| rewrite(read.clone()));
        if !lost.load(Ordering::SeqCst) && to.write_all(&written).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Starts an upstream server that sends the start of a response, and never its end. It runs until the end of the test
/// process. Returns its address.
pub(super) fn endless_upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = Vec::new();
                let mut bytes = [0; 1024];
                while let Ok(read @ 1..) = connection.read(&mut bytes) {
                    head.extend_from_slice(&bytes[..read]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n";
                        let _ = connection.write_all(start);
                    }
                }
            });
        }
    });
    address
}

/// A cluster of three masters without replicas, in which each node may serve a part of the keys without the others.
pub(super) fn cluster_nodes(options: &[&str]) -> [RedisServer; 3] {
    let all: Vec<_> = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
        .iter()
        .chain(&["--cluster-require-full-coverage", "no"])
        .chain(options)
        .copied()
        .collect();
    [(); 3].map(|()| RedisServer::start(&all))
}

/// Connects the nodes to a cluster.
pub(super) fn create_cluster(nodes: &[RedisServer; 3]) {
    let addresses = nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.port));
    let mut create = Command::new("redis-cli");
    let created =
        create.args(["--cluster", "create"]).args(&addresses).arg("--cluster-yes").output().unwrap();
    assert!(created.status.success(), "{created:?}");
    within("the cluster works", || {
        nodes.iter().all(|node| node.cli(&["cluster", "info"]).contains("state:ok"))
    });
}

/// Waits until Sentinel knows the replica at `port`, and the replica has a copy.
pub(super) fn until_replicated(sentinel: &RedisServer, replica: &RedisServer) {
    let port = replica.port.to_string();
    until(|| sentinel.cli(&["sentinel", "replicas", "main"]).contains(&port));
    until(|| replica.cli(&["info", "replication"]).contains("master_link_status:up"));
}
