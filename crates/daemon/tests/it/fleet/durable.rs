//! Tests of tasks and events that survive their replica.

use std::net::TcpStream;

use serde_json::{Value, json};
use thruway_daemon::check;
use thruway_net::Clock;
use thruway_testkit::JwtIssuer;

use super::processes::{Redis, start_replica};
use super::scene::{Fleet, KEY, Message, response_on};
use super::{call, text};
use crate::client::{TIMEOUT, file_answering};

const DURABLE: &str = "durable = true\n";

fn get(id: &str) -> Message {
    Message::modern("tasks/get", id, &json!({"taskId": id}))
}

/// Begins a task with a tool. Returns its id.
fn begin(send: impl Fn(&Message) -> Value, tool: &str) -> String {
    let task = send(&Message::modern("tools/call", tool, &call(tool)));
    task["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned()
}

/// Waits until a task has ended, and returns its state. It does not end before its owner leaves the list of replicas.
fn ended(send: impl Fn(&Message) -> Value, id: &str) -> Value {
    let begin = Clock::system().now_exact();
    loop {
        let task = send(&get(id));
        if task["result"]["status"] != "working" {
            return task;
        }
        assert!(Clock::system().now_exact().saturating_sub(begin) < TIMEOUT, "{task}");
        std::thread::yield_now();
    }
}

#[test]
fn tasks_survive_their_replica() {
    let mut fleet = Fleet::start_with(DURABLE, "");
    let send = |message: &Message| fleet.request(0, message).1;
    let (working, done) = (begin(send, "jobs__work"), begin(send, "jobs__done"));
    assert_eq!(send(&get(&done))["result"]["status"], "completed");
    fleet.end_replica(0);
    for replica in [1, 2] {
        let (status, task) = fleet.request(replica, &get(&done));
        assert_eq!((&*status, &task["result"]["taskId"]), ("200", &json!(done)), "{task}");
        assert_eq!(task["result"]["result"]["content"][0]["text"], "finished", "{task}");
        assert_eq!(task["result"]["resultType"], "complete", "{task}");
        let task = ended(|message| fleet.request(replica, message).1, &working);
        assert_eq!(task["result"]["status"], "failed", "{task}");
        assert!(task["result"]["error"]["message"].as_str().unwrap().contains("gateway"), "{task}");
        let cancel = Message::modern("tasks/cancel", &working, &json!({"taskId": working}));
        assert_eq!(fleet.request(replica, &cancel).1["result"]["resultType"], "complete");
    }
    // An id with a changed signature is unknown, although the archive could contain anything.
    let other = if working.ends_with('A') { 'E' } else { 'A' };
    let forged = format!("{}{other}", &working[..working.len() - 1]);
    assert_eq!(fleet.request(1, &get(&forged)).1["error"]["code"], -32602);
    fleet.end();
}

#[test]
fn legacy_tasks_continue_at_their_server_for_their_caller() {
    let keys = JwtIssuer::new("key");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, keys.keys()).unwrap();
    let policy = format!("{DURABLE}[policies.tokens.jwt]\nkeys_file = \"{}\"\n", file.display());
    let mut fleet = Fleet::start_with(&policy, "policies = [\"tokens\"]\n");
    let token = |name: &str| {
        let claims = json!({"iss": "https://login.example", "sub": name, "exp": 4_000_000_000_u64});
        format!("Authorization: Bearer {}\r\n", keys.token(&claims))
    };
    let session = fleet.begin_session_as(0, &token("ada"));
    let mut params = call("past__job");
    params["task"] = json!({"ttl": 60_000});
    let request = Message::legacy(&session, "tools/call", &params).with_lines(&token("ada"));
    let (_, task) = fleet.request(0, &request);
    let id = task["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    fleet.end_replica(0);
    let (ada, bob) = (fleet.begin_session_as(1, &token("ada")), fleet.begin_session_as(1, &token("bob")));
    let ask = |session: &str, name: &str, method: &str, params: &Value| {
        fleet.request(2, &Message::legacy(session, method, params).with_lines(&token(name))).1
    };
    let of_task = json!({"taskId": id});
    let task = ask(&ada, "ada", "tasks/get", &of_task);
    assert_eq!(
        (&task["result"]["status"], &task["result"]["taskId"]),
        (&json!("working"), &json!(id)),
        "{task}"
    );
    assert_eq!(ask(&bob, "bob", "tasks/get", &of_task)["error"]["code"], -32602);
    let ids = |list: &Value| list["result"]["tasks"].as_array().unwrap().len();
    assert_eq!(ids(&ask(&ada, "ada", "tasks/list", &json!({}))), 1);
    assert_eq!(ids(&ask(&bob, "bob", "tasks/list", &json!({}))), 0);
    fleet.finish_past();
    // The other replicas ask the server when the owner has left the list of replicas.
    let begin = Clock::system().now_exact();
    while ask(&ada, "ada", "tasks/get", &of_task)["result"]["status"] != "completed" {
        assert!(Clock::system().now_exact().saturating_sub(begin) < TIMEOUT);
        std::thread::yield_now();
    }
    let result = ask(&ada, "ada", "tasks/result", &of_task);
    assert_eq!(text(&result), "past result");
    let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(related, &json!(id), "{result}");
    assert_eq!(ask(&ada, "ada", "tasks/cancel", &of_task)["error"]["code"], -32602);
    fleet.end();
}

#[test]
fn events_survive_their_replica() {
    let mut fleet = Fleet::start_with(DURABLE, "");
    let session = fleet.begin_session(0);
    let mut stream = fleet.stream(1, &Message::legacy(&session, "tools/call", &call("old__ask")));
    assert_eq!(stream.next()["method"], "elicitation/create");
    let lines = |id: &str| format!("Last-Event-ID: {id}\r\n");
    let (stream_number, _) = stream.last_id.split_once('-').unwrap();
    let before = lines(&format!("{stream_number}-0"));
    drop(stream);
    // The event can still be on its way to the store.
    let begin = Clock::system().now_exact();
    while fleet.daemon(0).handle().status()["fleet"]["durable_events"] == 0 {
        assert!(Clock::system().now_exact().saturating_sub(begin) < TIMEOUT);
        std::thread::yield_now();
    }
    fleet.end_replica(0);
    let mut resumed = fleet.stream(2, &Message::empty("GET", &session, &before));
    assert_eq!(resumed.next()["method"], "elicitation/create");
    let end = resumed.next();
    assert!(end["error"]["message"].as_str().unwrap().contains("session"), "{end}");
    assert_eq!(end["id"], 7);
    let after = lines(&resumed.last_id);
    resumed.end();
    let (status, _, body) = fleet.response(1, &Message::empty("GET", &session, &after));
    assert_eq!(status, "404", "{body}");
    assert!(body.contains("initialize"), "{body}");
    // Without durable events of this session, the answer is the same.
    let unknown = lines("9-1");
    assert_eq!(fleet.response(1, &Message::empty("GET", &session, &unknown)).0, "404");
    let session = fleet.begin_session(1);
    let (_, answer) = fleet.request(2, &Message::legacy(&session, "tools/call", &call("web__hello")));
    assert_eq!(text(&answer), "hello");
    fleet.end();
}

#[test]
fn durable_requires_a_peer_listener_and_warns_without_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let write = |shared: &str| std::fs::write(&file, file_answering("", shared)).unwrap();
    write("[shared]\ndurable = true\n");
    let failure = check(&file, true).unwrap_err().to_string();
    assert!(failure.contains("durable tasks and events require a peer listener"), "{failure}");
    write(&format!("[shared]\nkey = \"{KEY}\"\npeer_listen = \"127.0.0.1:0\"\ndurable = true\n"));
    let warnings = check(&file, true).unwrap().warnings.unwrap().to_string();
    assert!(warnings.contains("`durable` has no effect"), "{warnings}");
    write("[shared]\ndurable = false\n");
    assert!(check(&file, true).unwrap().warnings.is_none());
}

#[test]
#[ignore = "needs redis-server"]
fn tasks_survive_a_killed_process() {
    let redis = Redis::start();
    let shared = format!("durable = true\nstore = \"redis://{}\"\n", redis.address);
    let fleet = Fleet::without_replicas(&shared, "");
    let start = |name| start_replica(&fleet.write_config(name, KEY, "1m"));
    let mut replicas: Vec<_> = ["a", "b", "c"].map(start).into();
    let send = |address, message: &Message| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (_, _, body) = response_on(stream, message);
        serde_json::from_str::<Value>(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    };
    let (owner, first) = replicas.remove(0);
    let tasks = |tool: &str| (0..10).map(|_| begin(|message| send(first, message), tool)).collect::<Vec<_>>();
    let (working, done) = (tasks("jobs__work"), tasks("jobs__done"));
    // Redis writes its data to a file, which must not contain a result or an id.
    for id in &done {
        assert_eq!(send(replicas[0].1, &get(id))["result"]["status"], "completed");
    }
    let data = redis.saved_data();
    let contains = |text: &str| data.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(contains("mcp-task:") && !contains("finished") && !contains(&done[0]) && !contains("completed"));
    drop(owner);
    for (_, address) in &replicas {
        for id in &done {
            let task = send(*address, &get(id));
            assert_eq!(task["result"]["result"]["content"][0]["text"], "finished", "{task}");
        }
        for id in &working {
            let task = ended(|message| send(*address, message), id);
            assert_eq!(task["result"]["status"], "failed", "{task}");
        }
    }
    drop(replicas);
    fleet.end();
}
