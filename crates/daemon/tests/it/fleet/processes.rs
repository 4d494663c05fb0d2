//! Replicas and a Redis server as processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use thruway_daemon::Daemon;
use thruway_net::Clock;

use crate::client::{address_of, tcp};

/// A running process. Dropping it ends the process.
pub(super) struct Process(Child);

impl Process {
    /// Sends a signal, such as `TERM` or `STOP`.
    pub(super) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Ends the process at once, as after a crash.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Returns `true` if the process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis server that saves its data only after the command `SAVE`.
pub(super) struct Redis {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    /// Directory of the saved data.
    directory: TempDir,
}

impl Redis {
    pub(super) fn start() -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self { process: Self::process(address, directory.path()), address, directory }
    }

    /// Saves the data, and returns the bytes of the file.
    pub(super) fn saved_data(&self) -> Vec<u8> {
        let mut connection = TcpStream::connect(self.address).unwrap();
        connection.write_all(b"SAVE\r\n").unwrap();
        let mut response = String::new();
        BufReader::new(&connection).read_line(&mut response).unwrap();
        assert_eq!(response, "+OK\r\n");
        fs::read(self.directory.path().join("dump.rdb")).unwrap()
    }

    /// Starts the server again, with the same port.
    pub(super) fn restart(&mut self) {
        self.process = Self::process(self.address, self.directory.path());
    }

    fn process(address: SocketAddr, directory: &Path) -> Process {
        let port = address.port().to_string();
        let mut command = thruway_testkit::redis_server();
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port]);
        command.args(["--rdbcompression", "no"]).current_dir(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = Process(command.spawn().expect("install redis-server"));
        until("the Redis server listens", || TcpStream::connect(address).is_ok());
        process
    }
}

/// Starts a process that serves the config `config`. Returns its address.
pub(super) fn start_replica(config: &Path) -> (Process, SocketAddr) {
    let address_file = config.with_extension("address");
    let _ = fs::remove_file(&address_file);
    let log = fs::File::options().append(true).create(true).open(config.with_extension("log")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "fleet::processes::replica", "--ignored", "--nocapture"]);
    command.env(CONFIG, config).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let process = Process(command.spawn().unwrap());
    let mut address = None;
    until("the replica listens", || {
        address = fs::read_to_string(&address_file).ok().and_then(|text| text.parse().ok());
        address.is_some()
    });
    (process, address.unwrap())
}

/// Serves a config until a signal ends the process.
#[test]
#[ignore = "runs only as a process of other tests"]
fn replica() {
    let Some(config) = std::env::var_os(CONFIG).map(PathBuf::from) else { return };
    let daemon = Daemon::from_file(&config).unwrap();
    let address = config.with_extension("address");
    let unfinished = config.with_extension("unfinished");
    fs::write(&unfinished, tcp(&address_of(&daemon)).to_string()).unwrap();
    fs::rename(&unfinished, &address).unwrap();
    daemon.run().unwrap();
}

/// Waits until a condition holds.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Clock::system().now_exact();
    while !holds() {
        assert!(Clock::system().now_exact().saturating_sub(begin) < LONG, "waiting until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The environment variable with the config of a replica.
const CONFIG: &str = "THRUWAY_TEST_REPLICA";

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_mins(1);
