//! The states of a task.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use thruway_mcp::schema::CallToolResult;

use super::{Task, TaskOptions, Tasks};
use crate::ask::Question;
use crate::authorization::Caller;
use crate::handlers::HandlerError;

/// Returns a working task.
fn working() -> Arc<Task> {
    let task = Tasks::new(TaskOptions::default(), None).prepare(&Caller::Local);
    task.begin();
    task
}

fn question() -> Question {
    Question { method: "roots/list", params: json!({}) }
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the task as clients see it.
fn client_view(task: &Task) -> Value {
    task.show(None, |task| serde_json::to_value(task).unwrap())
}

/// Ends a task.
type End = fn(&Task);

#[test]
fn ended_task_does_not_change() {
    let ends: [(&str, End); 3] = [
        ("cancelled", Task::cancel),
        ("completed", |task| task.settle(Ok(CallToolResult::text("done")))),
        ("failed", |task| task.settle(Err(HandlerError::failed("why")))),
    ];
    for (status, end) in ends {
        let task = working();
        end(&task);
        let ended = client_view(&task);
        assert_eq!(ended["status"], status);
        for (_, later) in ends {
            later(&task);
        }
        task.report(1.0, None, Some("too late"));
        assert!(matches!(poll(task.ask("late", question())), Poll::Ready(Err(_))));
        assert_eq!((client_view(&task), task.is_over()), (ended, true));
    }
}

#[test]
fn dropped_input_request_is_withdrawn_and_its_name_not_reused() {
    let task = working();
    for name in ["key", "key-2", "key-3"] {
        let mut asking = Box::pin(task.ask("key", question()));
        assert!(poll(asking.as_mut()).is_pending());
        let task_view = client_view(&task);
        assert_eq!(task_view["status"], "input_required");
        assert_eq!(task_view["inputRequests"], json!({name: {"method": "roots/list", "params": {}}}));
        drop(asking);
        assert_eq!(
            (&client_view(&task)["status"], client_view(&task).get("inputRequests")),
            (&json!("working"), None)
        );
    }
}

#[test]
fn number_of_input_requests_per_task_is_limited() {
    let task = working();
    for n in 0..32 {
        let mut asking = Box::pin(task.ask("key", question()));
        assert!(poll(asking.as_mut()).is_pending(), "question {n}");
        let name = client_view(&task)["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        task.answer(BTreeMap::from([(name, json!(n)), ("unknown".to_owned(), json!(null))]));
        assert_eq!(poll(asking.as_mut()), Poll::Ready(Ok(json!(n))));
    }
    assert!(matches!(poll(task.ask("key", question())), Poll::Ready(Err(_))));
}

#[test]
fn call_becomes_task_only_after_begin() {
    let task = Tasks::new(TaskOptions::default(), None).prepare(&Caller::Local);
    let (mut wants, mut driver) = (Box::pin(task.wait_to_begin()), Box::pin(task.beginning()));
    assert!(poll(driver.as_mut()).is_pending());
    assert!(poll(wants.as_mut()).is_pending() && !task.has_begun());
    assert!(poll(driver.as_mut()).is_ready());
    task.begin();
    assert!(poll(wants.as_mut()).is_ready() && task.has_begun());
}

#[test]
fn status_message_is_bounded_and_task_ids_differ() {
    let (task, other) = (working(), working());
    task.report(1.0, None, Some(&"ä".repeat(1000)));
    assert_eq!(client_view(&task)["statusMessage"], "ä".repeat(500));
    task.report(2.0, Some(4.0), None);
    assert_eq!(client_view(&task)["statusMessage"], "2 of 4");
    assert_eq!((task.id.len(), task.id == other.id), (32, false));
}
