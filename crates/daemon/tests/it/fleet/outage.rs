//! Clients of three replicas, of which one is killed and one is shut down. Each client request goes to the next
//! replica, as with a load balancer without sticky sessions. The replicas, Redis and the child processes are real
//! processes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::{ResourceTemplate, Tool};
use thruway_mcp_sdk::{Context, McpServer, UriParameters};
use thruway_net::Clock;
use thruway_server::{ListenAddr, RunningServer};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::clients::Client;
use super::processes::{Process, Redis, start_replica};
use super::scene::{KEY, LegacyOnly, Message, ask, begin_session_on, response_on, serve, stream_on};
use crate::client::connect;

/// The parameters of a run.
struct Plan {
    sessions: usize,
    duration: Duration,
    /// Mean time between two operations of a client.
    pause: Duration,
}

#[test]
#[ignore = "takes five minutes and needs redis-server"]
fn five_minutes_with_500_sessions() {
    run(&Plan { sessions: 500, duration: Duration::from_mins(5), pause: Duration::from_secs(10) });
}

#[test]
#[ignore = "needs redis-server"]
fn sessions_survive_the_loss_of_other_replicas() {
    run(&Plan { sessions: 60, duration: Duration::from_secs(20), pause: Duration::from_secs(1) });
}

fn run(plan: &Plan) {
    let scene = Scene::start();
    let world = scene.world.clone();
    let mut replicas: Vec<_> = (0..3).map(|replica| Some(scene.replica(replica))).collect();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begin = Instant::now();
        let until = begin + plan.duration;
        let at = |percent: u32| sleep_until(begin + plan.duration * percent / 100);
        let mut clients = JoinSet::new();
        for number in 0..plan.sessions {
            let share =
                f64::from(u32::try_from(number).unwrap()) / f64::from(u32::try_from(plan.sessions).unwrap());
            let (world, pause) = (world.clone(), plan.pause);
            let first = begin + plan.duration.mul_f64(share * 0.1);
            clients.spawn(async move {
                sleep_until(first).await;
                Client::new(world, number).run(until, pause).await;
            });
        }
        at(30).await;
        world.begin_fault(0);
        replicas[0].as_mut().unwrap().kill();
        at(45).await;
        replicas[0] = Some(scene.replica(0));
        at(60).await;
        world.begin_fault(1);
        replicas[1].as_ref().unwrap().signal("TERM");
        let drained_at = Instant::now();
        while !replicas[1].as_mut().unwrap().has_ended() {
            assert!(drained_at.elapsed() < DRAIN_MAX, "the replica does not end");
            sleep(Duration::from_millis(50)).await;
        }
        let drained = drained_at.elapsed();
        at(80).await;
        replicas[1] = Some(scene.replica(1));
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        println!("the replica with SIGTERM ended after {drained:.1?}");
    });
    let report = world.report();
    println!("{report}");
    let results = world.results();
    let sum = |count: fn(&Counts) -> u64| results.values().map(count).sum::<u64>();
    assert_eq!(
        (sum(|counts| counts.lost), sum(|counts| counts.unclear), sum(|counts| counts.hung)),
        (0, 0, 0)
    );
    assert!(
        results.len() == 6 && results.values().all(|counts| counts.succeeded > 0),
        "every kind should occur"
    );
    assert!(sum(|counts| counts.clear) > 0, "some clients should lose their session");
    let slowest = results.values().map(|counts| counts.slowest).max().unwrap();
    assert!(slowest <= CLEAR_MAX, "{slowest:?}");
    drop(replicas);
    scene.end();
}

/// A replica that is stopped keeps its connections open.
#[test]
#[ignore = "needs redis-server"]
fn clients_of_a_stopped_replica_get_a_clear_answer() {
    let scene = Scene::start();
    let replicas = [0, 1, 2].map(|replica| start_replica(&scene.config(replica)));
    let connect = |replica: usize| connect(&ListenAddr::Tcp(replicas[replica].1));
    let begin_session = |owner| begin_session_on(connect(owner), "");
    let ask = json!({"name": "old__ask", "arguments": {}});
    let sessions: Vec<_> = std::iter::repeat_with(|| {
        let session = begin_session(2);
        let idle = stream_on(connect(0), &Message::empty("GET", &session, ""));
        let mut asking = stream_on(connect(1), &Message::legacy(&session, "tools/call", &ask));
        assert_eq!(asking.next()["method"], "elicitation/create");
        (session, idle, asking)
    })
    .take(10)
    .collect();
    let other = begin_session(1);
    replicas[2].0.signal("STOP");
    let begin = Clock::system().now_exact();
    let passed = || Clock::system().now_exact().saturating_sub(begin);
    let status_of = |replica, message: &Message| response_on(connect(replica), message).0;
    let slowest = std::thread::scope(|scope| {
        let clients: Vec<_> = sessions
            .into_iter()
            .map(|(session, idle, asking)| {
                scope.spawn(move || {
                    assert_eq!(status_of(1, &Message::legacy(&session, "ping", &json!({}))), "404");
                    let of_request = passed();
                    let last = format!("Last-Event-ID: {}\r\n", asking.last_id);
                    asking.cut_off();
                    assert_eq!(status_of(0, &Message::empty("GET", &session, &last)), "404");
                    idle.cut_off();
                    assert_eq!(status_of(1, &Message::empty("GET", &session, "")), "404");
                    (of_request, passed())
                })
            })
            .collect();
        let times: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        (times.iter().map(|(of_request, _)| *of_request).max(), times.iter().map(|(_, all)| *all).max())
    });
    println!("404 of a request and of all streams after SIGSTOP, at the latest: {slowest:?}");
    assert!(slowest.1.unwrap() < 2 * CLEAR_MAX, "{slowest:?}");
    assert_eq!(status_of(0, &Message::legacy(&other, "ping", &json!({}))), "200");
    replicas[2].0.signal("CONT");
    drop(replicas);
    scene.end();
}

/// The servers behind the replicas, and their shared store.
struct Scene {
    world: Arc<World>,
    redis: Redis,
    server: RunningServer,
    directory: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("jobs.sh"), JOBS).unwrap();
        let server = serve(LegacyOnly(server().endpoint()));
        Self { world: Arc::default(), redis: Redis::start(), server, directory }
    }

    /// Starts a replica, and sends requests to it from now on.
    fn replica(&self, replica: usize) -> Process {
        let (process, address) = start_replica(&self.config(replica));
        self.world.add(replica, address);
        process
    }

    fn config(&self, replica: usize) -> PathBuf {
        let config = format!(
            "workers = 1\n[timeouts]\ndrain = \"10s\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
             [shared]\nstore = \"redis://{}\"\nkey = \"{KEY}\"\nreplica = \"{replica}\"\npeer_listen = \"127.0.0.1:0\"\n\
             [upstreams.old]\nservers = [\"{}\"]\n[mcp.servers.old]\nupstream = \"old\"\n\
             [mcp.servers.jobs]\ncommand = [\"sh\", \"{}\"]\n\
             [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n\
             [mcp.endpoints.dev]\nservers = [\"old\", \"jobs\"]\nlist_wait = \"1m\"\n",
            self.redis.address,
            self.server.addresses()[0],
            self.directory.path().join("jobs.sh").display(),
        );
        let file = self.directory.path().join(format!("{replica}.toml"));
        std::fs::write(&file, config).unwrap();
        file
    }

    fn end(self) {
        self.server.drain();
        self.server.join();
    }
}

fn server() -> McpServer {
    let server = McpServer::new("tools", "1.0")
        .tool(Tool::new("hello"), || "hello")
        .tool(Tool::new("count"), count)
        .tool(Tool::new("ask"), ask)
        .resource_template(ResourceTemplate::new("note://{number}", "note"), |parameters: UriParameters| {
            parameters.parameter("number").to_owned()
        });
    let changed = server.clone();
    server.tool(Tool::new("touch"), move |Number { number }: Number| {
        changed.resource_updated(&format!("note://{number}"));
        "touched"
    })
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    number: usize,
}

/// Reports progress five times.
async fn count(context: Context) -> &'static str {
    for number in 1..=5 {
        sleep(Duration::from_millis(100)).await;
        context.progress(f64::from(number), Some(5.0), None).await;
    }
    "counted"
}

/// The state that all clients share: the replicas, and the results.
#[derive(Default)]
pub(super) struct World {
    replicas: Mutex<Vec<(usize, SocketAddr)>>,
    next: AtomicUsize,
    /// The replicas that were killed or shut down, by their addresses. A replica that starts again has a new address.
    faults: Mutex<BTreeMap<SocketAddr, Instant>>,
    results: Mutex<BTreeMap<&'static str, Counts>>,
    details: Mutex<Vec<String>>,
}

/// The results of one kind of operation.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    sent: u64,
    succeeded: u64,
    /// The owner is gone, and the client got 404 or -32602.
    clear: u64,
    /// The longest time from the last request or the fault, whichever was later, to this answer.
    slowest: Duration,
    /// The operation failed, although its owner lives.
    lost: u64,
    /// The owner is gone, and the client got another answer.
    unclear: u64,
    hung: u64,
}

/// The end of an operation.
pub(super) enum Outcome {
    Done,
    /// 404 or -32602.
    Clear,
    Failed(String),
    Hung,
}

impl World {
    fn add(&self, replica: usize, address: SocketAddr) {
        let mut replicas = lock(&self.replicas);
        replicas.retain(|(other, _)| *other != replica);
        replicas.push((replica, address));
    }

    fn begin_fault(&self, replica: usize) {
        let address = lock(&self.replicas).iter().find(|(other, _)| *other == replica).unwrap().1;
        lock(&self.faults).insert(address, Instant::now());
    }

    /// Returns the address of the next replica. It may be gone, because a load balancer notices this later.
    pub(super) fn next_replica(&self) -> SocketAddr {
        self.next_replica_but(&[])
    }

    /// Returns the address of the next replica that is not in `failed`, if there is one.
    pub(super) fn next_replica_but(&self, failed: &[SocketAddr]) -> SocketAddr {
        let replicas = lock(&self.replicas);
        let mut candidates: Vec<_> = replicas.iter().map(|(_, address)| *address).collect();
        if candidates.iter().any(|address| !failed.contains(address)) {
            candidates.retain(|address| !failed.contains(address));
        }
        candidates[self.next.fetch_add(1, Ordering::Relaxed) % candidates.len()]
    }

    /// Counts an operation that began at `begin`. Its last request was sent at `sent`.
    pub(super) fn note(
        &self,
        kind: &'static str,
        owner: SocketAddr,
        (begin, sent): (Instant, Instant),
        outcome: &Outcome,
    ) {
        let fault = lock(&self.faults).get(&owner).copied();
        let mut results = lock(&self.results);
        let counts = results.entry(kind).or_default();
        counts.sent += 1;
        let detail = |text: &str| {
            let fault = fault.map(|fault| fault.elapsed());
            let text = format!("{kind}: {text} after {:?}, fault of the owner: {fault:?}", begin.elapsed());
            lock(&self.details).push(text);
        };
        match (outcome, fault) {
            (Outcome::Done, _) => counts.succeeded += 1,
            (Outcome::Clear, Some(fault)) => {
                counts.clear += 1;
                let time = sent.max(fault).elapsed();
                if time > CLEAR_MAX {
                    detail("slow");
                }
                counts.slowest = counts.slowest.max(time);
            }
            (Outcome::Clear, None) => {
                detail("lost");
                counts.lost += 1;
            }
            (Outcome::Failed(reason), None) => {
                detail(reason);
                counts.lost += 1;
            }
            (Outcome::Failed(reason), Some(_)) => {
                detail(reason);
                counts.unclear += 1;
            }
            (Outcome::Hung, _) => {
                detail("hung");
                counts.hung += 1;
            }
        }
    }

    fn results(&self) -> BTreeMap<&'static str, Counts> {
        lock(&self.results).clone()
    }

    /// Returns the results as a table, and the details of at most 20 failures.
    fn report(&self) -> String {
        let mut text = format!(
            "{:<16} {:>7} {:>9} {:>6} {:>8} {:>5} {:>8} {:>5}\n",
            "kind", "sent", "succeeded", "clear", "slowest", "lost", "unclear", "hung"
        );
        for (kind, counts) in self.results() {
            let Counts { sent, succeeded, clear, slowest, lost, unclear, hung } = counts;
            let slowest = format!("{:.2} s", slowest.as_secs_f64());
            let _ = writeln!(
                text,
                "{kind:<16} {sent:>7} {succeeded:>9} {clear:>6} {slowest:>8} {lost:>5} {unclear:>8} {hung:>5}"
            );
        }
        for detail in lock(&self.details).iter().take(20) {
            let _ = writeln!(text, "{detail}");
        }
        text
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bound for a clear answer.
const CLEAR_MAX: Duration = Duration::from_secs(2);

/// The bound for the end of a replica after SIGTERM: the drain time, and the time for child processes.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// A modern child process. Its tool `work` creates a task, which is complete at the third request for its state.
const JOBS: &str = r#"
next=0
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[!0-9]*}
    task=${line#*\"taskId\":\"}
    task=${task%%[!0-9]*}
    times='"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null'
    case "$line" in
        *\"server/discover\"*) result='"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}' ;;
        *\"tools/list\"*) result='"tools":[{"name":"work","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"' ;;
        *\"tools/call\"*)
            next=$((next + 1))
            echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"task\",\"taskId\":\"$next\",\"status\":\"working\",$times}}"
            continue ;;
        *\"tasks/get\"*)
            eval "polls=\$((polls_$task + 1)); polls_$task=\$polls"
            status=working
            outcome=
            if [ "$polls" -ge 3 ]; then
                status=completed
                outcome=",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"worked\"}]}"
            fi
            result="\"taskId\":\"$task\",\"status\":\"$status\",$times$outcome" ;;
        *\"id\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}"; continue ;;
        *) continue ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",$result}}"
done
"#;
