//! A relay process that is killed at the end of its test.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A running relay. Dropping it kills the process.
pub(crate) struct RelayProcess {
    child: Child,
    address: SocketAddr,
}

impl RelayProcess {
    /// Starts a relay on a free port.
    pub(crate) fn with_backend(backend: SocketAddr) -> Self {
        Self::run(command(), backend)
    }

    /// Starts a relay with at most `descriptors_max` file descriptors.
    pub(crate) fn with_descriptors(descriptors_max: u32, backend: SocketAddr) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n {descriptors_max}; exec \"$0\" \"$@\"")).arg(PROGRAM);
        Self::run(shell, backend)
    }

    fn run(mut command: Command, backend: SocketAddr) -> Self {
        command.args(["--listen", "127.0.0.1:0", "--backend", &backend.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }

    /// Connects a client with a read timeout.
    pub(crate) fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the exit status, if the relay has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        // The relay may already have ended.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Returns the command of the relay, without arguments.
pub(crate) fn command() -> Command {
    Command::new(PROGRAM)
}

/// Returns an address without a listener.
pub(crate) fn unused_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_bench-relay");
