//! Tests of records, and of watches with an archive in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp::Era;
use thruway_mcp::schema::methods;
use tokio::sync::watch;

use super::record::{Polled, shows_end};
use super::{ArchiveError, ArchiveFuture, AskTask, DurableTasks, TaskArchive, TaskRecord, is_error};

/// An archive in memory.
#[derive(Debug, Default)]
struct Memory {
    records: Mutex<HashMap<String, Vec<u8>>>,
    /// `true` if the archive fails.
    fails: Mutex<bool>,
    /// `true` if the other gateways have ended.
    is_alone: Mutex<bool>,
    puts: watch::Sender<usize>,
}

impl TaskArchive for Memory {
    fn replica(&self) -> String {
        "own".to_owned()
    }

    fn is_live<'a>(&'a self, replica: &'a str) -> ArchiveFuture<'a, bool> {
        let is_live = !*self.is_alone.lock().unwrap() && replica == "own";
        Box::pin(async move { is_live })
    }

    fn put<'a>(
        &'a self,
        id: &'a str,
        _: Option<&'a str>,
        record: Vec<u8>,
        _: Duration,
    ) -> ArchiveFuture<'a, Result<(), ArchiveError>> {
        let fails = *self.fails.lock().unwrap();
        if !fails {
            self.records.lock().unwrap().insert(id.to_owned(), record);
        }
        self.puts.send_modify(|puts| *puts += 1);
        Box::pin(async move { if fails { Err(ArchiveError) } else { Ok(()) } })
    }

    fn get<'a>(&'a self, id: &'a str) -> ArchiveFuture<'a, Result<Option<Vec<u8>>, ArchiveError>> {
        let record = self.records.lock().unwrap().get(id).cloned();
        Box::pin(async move { Ok(record) })
    }

    fn list<'a>(&'a self, _: &'a str) -> ArchiveFuture<'a, Result<Vec<Vec<u8>>, ArchiveError>> {
        let records = self.records.lock().unwrap().values().cloned().collect();
        Box::pin(async move { Ok(records) })
    }

    fn record_bytes_max(&self) -> usize {
        1000
    }
}

/// A member whose answer to each request is set.
struct Member(Mutex<Option<Value>>);

impl AskTask for Member {
    fn ask<'a>(&'a self, _: &'static str, _: &'a str) -> ArchiveFuture<'a, Option<Vec<u8>>> {
        let answer = self.0.lock().unwrap().as_ref().map(|answer| answer.to_string().into_bytes());
        Box::pin(async move { answer })
    }

    fn own_id(&self, _: &str) -> Option<String> {
        None
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn modern() -> Vec<u8> {
    bytes(&json!({"result": {"resultType": "task", "taskId": "m.1", "status": "working", "ttlMs": 60_000}}))
}

fn completed(text: &str) -> Value {
    json!({"result": {"resultType": "complete", "taskId": "m.1", "status": "completed",
        "result": {"text": text}, "_meta": {}}})
}

#[test]
fn only_answers_with_tasks_begin_records() {
    let begun = |answer: &Value, era| TaskRecord::begun(&bytes(answer), era, None, "own".to_owned());
    let legacy = json!({"result": {"task": {"taskId": "m.2", "status": "working", "ttl": null}}});
    assert_eq!(begun(&legacy, Era::Legacy).unwrap().id, "m.2");
    assert_eq!(begun(&legacy, Era::Legacy).unwrap().ttl(), Duration::from_hours(24));
    assert!(begun(&legacy, Era::Modern).is_none());
    for answer in [
        completed(""),
        json!({"result": {"content": [], "taskId": 1}}),
        json!({"error": {"code": 1, "message": "\"taskId\""}}),
        json!({"result": {"task": {"taskId": 5}}}),
    ] {
        assert!(begun(&answer, Era::Modern).is_none() && begun(&answer, Era::Legacy).is_none(), "{answer}");
    }
    assert!(TaskRecord::begun(b"{\"taskId\"", Era::Modern, None, String::new()).is_none());
}

#[test]
fn result_above_the_maximum_is_cut() {
    let mut record = TaskRecord::begun(&modern(), Era::Modern, None, "own".to_owned()).unwrap();
    assert_eq!(record.poll(&bytes(&completed(&"x".repeat(2000)))), Polled::Over);
    let stored = record.to_bytes(1000);
    assert!(stored.len() <= 1000);
    let mut record = TaskRecord::parse(&stored).unwrap();
    assert!(record.is_over());
    record.fail_if_cut();
    assert_eq!(record.state()["status"], "failed");
    assert!(record.state()["statusMessage"].as_str().unwrap().contains("too large"));
}

#[test]
fn errors_and_ends_are_recognized() {
    assert!(is_error(br#"{"id":1,"error":{"code":-32602,"message":""}}"#));
    assert!(!is_error(br#"{"id":1,"result":{"error":{}}}"#));
    assert!(shows_end(methods::TASKS_GET, &bytes(&completed(""))));
    assert!(!shows_end(methods::TASKS_GET, &modern()));
}

#[tokio::test(start_paused = true)]
async fn finished_task_is_found_only_by_its_caller_and_in_its_era() {
    let archive = Arc::new(Memory::default());
    let durable = DurableTasks::new(archive.clone(), None);
    let member = Arc::new(Member(Mutex::new(Some(completed("done")))));
    durable.begin(&modern(), Era::Modern, Some("ada".to_owned()), member).await;
    durable.settle("m.1").await;
    let other = DurableTasks::new(archive, None);
    let record = other.find("m.1", Era::Modern, Some("ada")).await.unwrap();
    assert_eq!(record.state()["result"]["text"], "done");
    assert!(other.find("m.1", Era::Modern, Some("bob")).await.is_none());
    assert!(other.find("m.1", Era::Modern, None).await.is_none());
    assert!(other.find("m.1", Era::Legacy, Some("ada")).await.is_none());
    assert!(other.find("m.2", Era::Modern, Some("ada")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn unfinished_task_fails_when_its_gateway_has_ended() {
    let archive = Arc::new(Memory::default());
    let durable = DurableTasks::new(archive.clone(), None);
    let working = json!({"result": {"taskId": "m.1", "status": "working"}});
    durable.begin(&modern(), Era::Modern, None, Arc::new(Member(Mutex::new(Some(working))))).await;
    let status = |record: TaskRecord| record.state()["status"].as_str().unwrap().to_owned();
    assert_eq!(status(durable.find("m.1", Era::Modern, None).await.unwrap()), "working");
    *archive.is_alone.lock().unwrap() = true;
    let record = durable.find("m.1", Era::Modern, None).await.unwrap();
    assert!(record.state()["error"]["message"].as_str().unwrap().contains("gateway"));
    assert_eq!(status(record), "failed");
}

#[tokio::test(start_paused = true)]
async fn result_is_stored_after_the_store_has_recovered() {
    let archive = Arc::new(Memory::default());
    *archive.fails.lock().unwrap() = true;
    let durable = DurableTasks::new(archive.clone(), None);
    let member = Arc::new(Member(Mutex::new(Some(completed("done")))));
    durable.begin(&modern(), Era::Modern, None, member).await;
    let mut puts = archive.puts.subscribe();
    puts.wait_for(|puts| *puts > 3).await.unwrap();
    assert!(durable.find("m.1", Era::Modern, None).await.is_none());
    *archive.fails.lock().unwrap() = false;
    let before = *puts.borrow();
    puts.wait_for(|puts| *puts > before).await.unwrap();
    assert_eq!(durable.find("m.1", Era::Modern, None).await.unwrap().state()["result"]["text"], "done");
}

#[tokio::test(start_paused = true)]
async fn task_of_an_exited_process_or_session_ends() {
    let archive = Arc::new(Memory::default());
    let durable = DurableTasks::new(archive.clone(), None);
    let unknown = json!({"error": {"code": -32602, "message": "no such task"}});
    for (answer, expected) in [(Some(unknown), "failed"), (None, "cancelled")] {
        durable.begin(&modern(), Era::Modern, None, Arc::new(Member(Mutex::new(answer)))).await;
        durable.settle("m.1").await;
        assert_eq!(durable.find("m.1", Era::Modern, None).await.unwrap().state()["status"], expected);
    }
}
