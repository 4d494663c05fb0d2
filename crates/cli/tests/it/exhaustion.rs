//! Tests of resources that clients use up: connections, memory and file descriptors.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::process::{Resource, Rlimit, prlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::client::{Client, get};
use crate::process::{TIMEOUT, Thruway};

/// Connects without sending anything.
fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Waits until the server has closed all its connections.
fn wait_for_no_connection(thruway: &Thruway) {
    let tries = TIMEOUT.as_millis() / PAUSE.as_millis();
    let is_reached = |_| {
        thread::sleep(PAUSE);
        thruway.connections() == 0
    };
    assert!((0..tries).any(is_reached), "{} connections are open", thruway.connections());
}

/// Workers once wrote the log themselves. When the pipe was full, they blocked and the server hung.
#[test]
fn unread_log_pipe_does_not_block_requests() {
    let directory = tempfile::tempdir().unwrap();
    let config = "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[policies.none]\ndeny = [\"0.0.0.0/0\"]\n\
                  [[routes]]\npath = \"/\"\nrespond.status = 200\npolicies = [\"none\"]\n";
    fs::write(directory.path().join("thruway.toml"), config).unwrap();
    let arguments = ["serve", "thruway.toml"];
    let mut thruway = Thruway::start_with(directory.path(), &arguments, &[("THRUWAY_LOG", "debug")]);
    let mut client = Client::connect(&thruway.address());
    // Each request logs a line. All lines together exceed the capacity of a pipe many times.
    (0..5_000).for_each(|_| assert_eq!(client.get("/").status(), "403"));
    let line = thruway.wait_for_log("request rejected by a policy");
    assert!(line.len() * 5_000 > 4 * (64 << 10), "{line}");
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn ten_thousand_resets_leak_no_memory_or_connections() {
    let mut thruway = Thruway::demo(&["--workers", "2"]);
    let address = thruway.address();
    let inputs: [&[u8]; 5] =
        [b"", b"GET / HT", GET, b"GET /download?bytes=9999999 HTTP/1.1\r\nHost: a\r\n\r\n", UPLOAD];
    let round = || {
        let mut streams: Vec<TcpStream> = (0..500).map(|_| connect(&address)).collect();
        for (stream, input) in streams.iter_mut().zip(inputs.iter().cycle()) {
            stream.write_all(input).unwrap();
            set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        }
    };
    // Only later rounds are measured, because the first ones fill the buffer pools.
    (0..4).for_each(|_| round());
    wait_for_no_connection(&thruway);
    let before = thruway.resident_bytes();
    (0..20).for_each(|_| round());
    wait_for_no_connection(&thruway);
    let after = thruway.resident_bytes();
    assert!(after < before + GROWTH_BYTES_MAX, "memory grew from {before} to {after} bytes");
    assert_eq!(get(&address, "/ok").text(), "ok");
    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("cut_off=0"), "{}", ended.stderr);
}

#[test]
fn server_stops_reading_if_client_does_not_read_responses() {
    let mut thruway = Thruway::demo(&["--workers", "2"]);
    let address = thruway.address();
    get(&address, "/plaintext");
    let before = thruway.resident_bytes();
    let request = format!("GET /download?bytes=300 HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(200));
    let requests = request.repeat(PIPELINED).into_bytes();
    let mut stream = connect(&address);
    set_socket_recv_buffer_size(&stream, RECEIVE_BYTES).unwrap();
    let mut sent = 0;
    // The server stops reading when its responses are not read. Then the kernel accepts no more requests.
    stream.set_write_timeout(Some(STALL)).unwrap();
    while sent < requests.len() {
        match stream.write(&requests[sent..]) {
            Ok(taken) => sent += taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < requests.len(), "the server should have stopped reading");
    let after = thruway.resident_bytes();
    assert!(after < before + GROWTH_BYTES_MAX, "memory grew from {before} to {after} bytes");
    assert_eq!(get(&address, "/ok").text(), "ok");
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&requests[sent..]).unwrap());
    let expected = Client::connect(&address).get("/download?bytes=300");
    let mut bytes = vec![0; expected.head.len() + expected.content.len()];
    for _ in 0..PIPELINED {
        stream.read_exact(&mut bytes).unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200 ") && bytes.ends_with(&expected.content));
    }
    writing.join().unwrap();
}

/// When the kernel did not accept the last response, the server once stopped counting the connection and did
/// not cut it off in time.
#[test]
fn stalled_clients_are_disconnected_after_write_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let config = "workers = 1\ntimeouts = { write_stall = '200ms', idle = '300ms' }\nlisteners = [{ address = '127.0.0.1:0' }]\n\
                  [[routes]]\npath = '/'\ndemo = true\n";
    let mut thruway = Thruway::serve(directory.path(), config);
    let address = thruway.address();
    for last in ["Connection: close\r\n", ""] {
        let request = |pieces| request_without_reading(&address, pieces, last);
        let clients: Vec<TcpStream> = (1..=PIECES).map(request).collect();
        wait_for_no_connection(&thruway);
        drop(clients);
    }
}

/// Pipelines requests with growing delays. `last` is an additional header line of the last request.
fn request_without_reading(address: &str, pieces: usize, last: &str) -> TcpStream {
    let mut stream = connect(address);
    set_socket_recv_buffer_size(&stream, 4 << 10).unwrap();
    for piece in 1..=pieces {
        let last = if piece == pieces { last } else { "" };
        let delay = 10 * piece;
        write!(stream, "GET /download?bytes=9000&delay={delay} HTTP/1.1\r\nHost: a\r\n{last}\r\n").unwrap();
    }
    stream
}

/// This test was once unreliable on a busy machine. It counted descriptors while the server was still
/// starting, and it measured a shorter time than its attempts needed.
#[test]
fn server_accepts_again_when_file_descriptors_are_free() {
    let mut thruway = Thruway::demo_with_log_level("debug", &["--workers", "1"]);
    let address = thruway.address();
    // A response shows that the worker is running.
    assert_eq!(get(&address, "/ok").text(), "ok");
    let (cpu, began) = (thruway.cpu(), now());
    let limit = Some(thruway.descriptors() as u64 + 20);
    prlimit(Some(thruway.pid()), Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    // The server accepts connections in the order in which their first bytes arrive.
    let client = |_| {
        let mut client = Client::connect(&address);
        client.send("GET /ok HTTP/1.1\r\n");
        client
    };
    let clients: Vec<Client> = (0..60).map(client).collect();
    thruway.wait_for_log("cannot accept connections, retrying");
    let mut tries = 1;
    while now() < began + WATCHED {
        thruway.wait_for_log("still cannot accept connections");
        tries += 1;
    }
    let (cpu, watched) = (thruway.cpu().saturating_sub(cpu), now().saturating_sub(began));
    assert!(cpu < watched / 4, "the process used {cpu:?} of CPU time in {watched:?}");
    assert!(watched >= tries * TRY_EVERY_MIN, "{tries} tries in {watched:?}");
    // The server has accepted the first connections. Each frees a descriptor after its response.
    for mut client in clients {
        client.send("Host: test\r\n\r\n");
        assert_eq!(client.response(false).text(), "ok");
    }
    assert_eq!(get(&address, "/ok").text(), "ok");
    wait_for_no_connection(&thruway);
}

impl Thruway {
    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        self.open().count()
    }

    /// Number of open TCP sockets, without the listening ones.
    fn connections(&self) -> usize {
        let links = self.open().filter_map(|link| link.into_os_string().into_string().ok());
        let sockets: Vec<String> = links.filter(|link| link.starts_with("socket:")).collect();
        // Sockets to exclude: listeners (state 0A of proc_pid_net(5)), and the sockets that signal handlers
        // write to.
        let table = |name: &str| fs::read_to_string(self.proc().join("net").join(name)).unwrap_or_default();
        let (tcp, unix) = (table("tcp") + &table("tcp6"), table("unix"));
        let listeners = tcp
            .lines()
            .map(str::split_whitespace)
            .filter_map(|mut fields| (fields.nth(3) == Some("0A")).then(|| fields.nth(5)).flatten());
        let others = unix.lines().filter_map(|line| line.split_whitespace().nth(6));
        let others: HashSet<String> =
            listeners.chain(others).map(|inode| format!("socket:[{inode}]")).collect();
        sockets.iter().filter(|socket| !others.contains(*socket)).count()
    }

    fn open(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(self.proc().join("fd")).unwrap();
        entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok())
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(self.proc().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// Returns the CPU time of the process, in steps of a hundredth of a second.
    fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(self.proc().join("stat")).unwrap();
        // Fields 14 and 15 of proc_pid_stat(5) are `utime` and `stime`. Field 2, the name, may contain
        // spaces.
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 1000 / TICKS_A_SECOND)
    }

    fn proc(&self) -> PathBuf {
        Path::new("/proc").join(self.pid().as_raw_nonzero().to_string())
    }
}

fn now() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap()
}

const GET: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";
const UPLOAD: &[u8] = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx";

/// Number of pipelined requests. Requests and responses far exceed the kernel's socket buffers.
const PIPELINED: usize = 100_000;

/// Number of responses of 9000 bytes each. Together they exceed the kernel's socket buffers.
const PIECES: usize = 40;

/// Size of the receive buffer. Without a fixed size, the kernel chooses one depending on its memory.
const RECEIVE_BYTES: usize = 64 << 10;

/// Time to wait for the kernel to accept data. After this time, the server has stopped reading.
const STALL: Duration = Duration::from_millis(500);

/// Memory that pools and the allocator may keep.
const GROWTH_BYTES_MAX: u64 = 4 << 20;

/// `USER_HZ`, which is 100 on all Linux platforms in use.
const TICKS_A_SECOND: u64 = 100;

/// Minimum time to watch a server without free descriptors.
const WATCHED: Duration = Duration::from_millis(500);

/// Minimum time between two attempts. The server pauses twice as long.
const TRY_EVERY_MIN: Duration = Duration::from_millis(25);

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(5);
