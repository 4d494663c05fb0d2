//! Three gateway processes with one store, and a load that measures the longest request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::servers::endless_upstream;
use super::{now, since, until};
use crate::client::Client;
use crate::process::Thruway;

/// The operator key of the fleet.
pub(super) const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// The operator key of another fleet.
pub(super) const OTHER_KEY: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

/// Requests in each second, for each rate limit of the fleet.
pub(super) const RATE: usize = 50;

/// Requests in each month, for each quota of the fleet.
pub(super) const QUOTA: usize = 90;

/// Concurrent requests, for each limit of the fleet.
pub(super) const SLOTS: usize = 6;

/// The failure policies. Each has a route for each kind of limit, such as `/rate/deny`.
const POLICIES: [&str; 3] = ["local", "allow", "deny"];

/// Returns a config with a route `/free` without limits, and routes for all limits and failure policies. `upstream` is
/// the server behind `/slots`.
pub(super) fn config(shared: &str, upstream: &str) -> String {
    let mut routes = Vec::new();
    let mut add = |path: &str, kind: &str, limit: &str, action: &str, failure: &str| {
        let name = path.replace('/', "-");
        routes.push(format!(
            "[[routes]]\npath = \"/{path}\"\npolicies = [\"{name}\"]\n{action}\n[policies.{name}]\n\
             {kind} = {{ {limit}, shared = true, on_store_failure = \"{failure}\" }}\n"
        ));
    };
    let answer = "respond.body = \"a\"";
    for failure in POLICIES {
        let rate = format!("requests = {RATE}, by = \"all\"");
        add(&format!("rate/{failure}"), "rate_limit", &rate, answer, failure);
        let quota = format!("requests = {QUOTA}, per = \"month\", by = \"all\"");
        add(&format!("quota/{failure}"), "quota", &quota, answer, failure);
        let slots = format!("requests_max = {SLOTS}, by = \"all\"");
        add(&format!("slots/{failure}"), "concurrency", &slots, "upstream = \"endless\"", failure);
    }
    // Limits with a counter for each caller. The tables are small, so they soon have their final size.
    let by = "by = { header = \"X-Key\" }";
    add("keys/rate", "rate_limit", &format!("requests = 9, keys_max = 512, {by}"), answer, "local");
    add("keys/quota", "quota", &format!("requests = 9, keys_max = 512, {by}"), answer, "local");
    add("keys/slots", "concurrency", &format!("requests_max = 9, {by}"), answer, "deny");
    format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [shared]\n{shared}\n[upstreams.endless]\nservers = [\"{upstream}\"]\n\
         [[routes]]\npath = \"/free\"\nrespond.body = \"a\"\n{}",
        routes.concat()
    )
}

/// Three gateways with one store.
pub(super) struct Fleet {
    gateways: Vec<Gateway>,
}

/// A gateway process.
pub(super) struct Gateway {
    pub(super) thruway: Thruway,
    pub(super) address: String,
    pub(super) admin: String,
    _directory: TempDir,
}

impl Gateway {
    pub(super) fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut thruway = Thruway::serve(directory.path(), config);
        let address = thruway.address();
        let admin = thruway.admin_address();
        Self { thruway, address, admin, _directory: directory }
    }

    /// Returns the resident memory of the process in bytes.
    fn memory(&self) -> u64 {
        let file = format!("/proc/{}/status", self.thruway.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(file).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub(super) fn status(&self) -> Value {
        let mut client = Client::connect(&self.admin);
        client.send("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = client.response(false);
        serde_json::from_str(response.text()).unwrap()
    }
}

impl Fleet {
    /// Starts three gateways with the store at `url`, and waits until each of them divides its limits by three.
    pub(super) fn start(url: &str) -> Self {
        let upstream = endless_upstream();
        let start = |number| {
            let shared = format!("store = \"{url}\"\nkey = \"{KEY}\"\nreplica = \"gateway-{number}\"");
            Gateway::start(&config(&shared, &upstream))
        };
        let fleet = Self { gateways: (1..=3).map(start).collect() };
        let knows_all = |gateway: &Gateway| gateway.status()["fleet"]["limits"]["replicas"] == 3;
        until(|| fleet.gateways.iter().all(knows_all));
        fleet
    }

    /// Opens a connection to each gateway.
    pub(super) fn connect(&self) -> Vec<Client> {
        self.gateways.iter().map(|gateway| Client::connect(&gateway.address)).collect()
    }

    /// Calls `request` with a new connection to each gateway. Returns the three statuses.
    pub(super) fn each(&self, request: impl Fn(&mut Client) -> crate::client::Response) -> Vec<String> {
        let request = |mut client: Client| request(&mut client).status().to_owned();
        self.connect().into_iter().map(request).collect()
    }

    /// Returns `true` if all gateways respond to `target` with `status`.
    pub(super) fn all(&self, target: &str, status: &str) -> bool {
        self.each(|client| client.get(target)).iter().all(|other| other == status)
    }

    pub(super) fn memory(&self) -> Vec<u64> {
        self.gateways.iter().map(Gateway::memory).collect()
    }

    /// Sends requests to all gateways in turn for the time `time`. Returns the number of admitted requests.
    pub(super) fn admitted(&self, target: &str, time: Duration) -> usize {
        let (mut clients, start, mut admitted) = (self.connect(), now(), 0);
        while since(start) < time {
            for client in &mut clients {
                admitted += usize::from(client.get(target).status() == "200");
            }
            // The load must not slow down the gateways on a small machine.
            thread::sleep(Duration::from_millis(2));
        }
        admitted
    }

    /// Returns the median time of requests to the first gateway.
    pub(super) fn median(&self, target: &str) -> Duration {
        let mut client = Client::connect(&self.gateways[0].address);
        let mut times: Vec<_> = (0..1000)
            .map(|_| {
                let start = now();
                assert_eq!(client.get(target).status(), "200");
                since(start)
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    }

    /// Begins up to `max` requests that do not end, at all gateways in turn, until all gateways refuse further requests
    /// for the time `time`.
    pub(super) fn occupied(&self, target: &str, max: usize, time: Duration) -> Vec<Client> {
        let (mut held, mut last) = (Vec::new(), now());
        while held.len() < max && since(last) < time {
            for gateway in &self.gateways {
                let mut client = Client::connect(&gateway.address);
                client.send(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
                if client.head().starts_with("http/1.1 200") {
                    held.push(client);
                    last = now();
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        held
    }

    /// Starts a load on all routes of each gateway.
    pub(super) fn load(&self) -> Load {
        let shared = Arc::<Measured>::default();
        let start = |gateway: &Gateway| {
            let (address, shared) = (gateway.address.clone(), shared.clone());
            thread::spawn(move || shared.send(&address))
        };
        Load { threads: self.gateways.iter().map(start).collect(), shared }
    }
}

/// A load in background threads. Each gateway gets about 1,000 requests per second at most.
pub(super) struct Load {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Measured>,
}

#[derive(Default)]
struct Measured {
    is_ending: AtomicBool,
    requests: AtomicU64,
    /// Duration of the longest request, in microseconds.
    longest: AtomicU64,
}

impl Measured {
    fn send(&self, address: &str) {
        let mut client = Client::connect(address);
        for number in 0.. {
            if self.is_ending.load(Ordering::Relaxed) {
                return;
            }
            let target = TARGETS[number % TARGETS.len()];
            let start = now();
            client.request(&format!("GET {target}"), &format!("X-Key: {number}\r\n"));
            let time = u64::try_from(since(start).as_micros()).unwrap();
            self.longest.fetch_max(time, Ordering::Relaxed);
            self.requests.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Load {
    pub(super) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Ends the load. Returns the duration of the longest request.
    pub(super) fn end(self) -> Duration {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        Duration::from_micros(self.shared.longest.load(Ordering::Relaxed))
    }
}

/// Targets of the load. Each value of `X-Key` is new.
const TARGETS: [&str; 6] = ["/free", "/rate/deny", "/keys/rate", "/free", "/keys/quota", "/keys/slots"];

/// The figures of a fault.
pub(super) struct Figures {
    pub(super) fault: &'static str,
    /// Time from the fault until all gateways apply their failure policies.
    pub(super) detected: Duration,
    /// Time from the recovery of the store until the limit is correct.
    pub(super) recovered: Duration,
    pub(super) longest: Duration,
    pub(super) requests: u64,
    /// Admitted requests of the rate limit `local` in [`super::WINDOW`], during the fault and after it.
    pub(super) admitted: [usize; 2],
    /// Growth of the memory of the gateways in kB.
    pub(super) growth: Vec<i64>,
    /// Connections that the server accepted in the ten seconds after its recovery.
    pub(super) connections: u64,
    /// Commands in the ten seconds before the fault, and in the ten seconds after it.
    pub(super) commands: [u64; 2],
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, detected, recovered, longest, requests, admitted, growth, connections, commands } =
            self;
        write!(
            f,
            "| {fault} | {} ms | {:.1} s | {} ms of {requests} | {} / {} | {growth:?} kB | {connections} | {} / {} |",
            detected.as_millis(),
            recovered.as_secs_f64(),
            longest.as_millis(),
            admitted[0],
            admitted[1],
            commands[0],
            commands[1],
        )
    }
}
