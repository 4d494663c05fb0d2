//! Tests of MCP messages over the pipes of child processes, most of them a line of shell.

use std::time::Duration;

use serde_json::json;
use thruway_bench::{
    ChildError, ChildServer, FailureKind, Limit, Load, McpRequests, Outcome, Pace, ProbeError, Revision,
    SessionUse, probe_child,
};

use crate::mcp_scene::{assert_all, load, operation};

/// Starts a child that answers each request with `answer`, in the syntax of `sed`. `\1` is the id of the
/// request.
fn answering(answer: &str) -> ChildServer {
    shell(&format!(r#"exec sed -u 's/.*"id":\([0-9]*\).*/{answer}/'"#))
}

fn shell(script: &str) -> ChildServer {
    ChildServer::start(&["sh".to_owned(), "-c".to_owned(), script.to_owned()]).unwrap()
}

/// A load with four concurrent requests.
fn window() -> Load {
    let list = operation("tools/list", json!({}), 1);
    let requests = McpRequests::new(Revision::R20250618, SessionUse::None, &[list], None).unwrap();
    let mut load = load(requests, Vec::new());
    load.connection_options.pipeline = 4;
    load
}

fn run(child: &ChildServer, load: &Load) -> Outcome {
    load.run_child(child, &mut |_| {}).unwrap()
}

#[test]
fn requests_are_answered_with_any_concurrency_and_pace() {
    let good = answering(r#"{"jsonrpc":"2.0","id":\1,"result":{}}"#);
    for (pipeline, pace) in [(1, Pace::Closed), (32, Pace::Closed), (4, Pace::Constant { rate: 400.0 })] {
        let mut load = Load { pace, ..window() };
        load.connection_options.pipeline = pipeline;
        load.server = Some(good.id());
        let outcome = run(&good, &load);
        let failures: Vec<_> = outcome.record.failures().collect();
        assert_eq!((outcome.record.answered, outcome.record.failed()), (40, 0), "{failures:?}");
        assert!(!outcome.record.is_given_up && outcome.record.statuses().is_empty());
        assert!(outcome.server.is_some());
    }
}

#[test]
fn responses_may_be_out_of_order_and_mixed_with_notifications() {
    // Reads two requests at a time and answers the second one first.
    let script = r#"exec sed -u -n 'N;s/.*"id":\([0-9]*\).*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\2,"result":{}}\n\n{"jsonrpc":"2.0","method":"notifications\/message","params":{}}\n{"id":\1,"jsonrpc":"2.0","result":{}}/;p'"#;
    let outcome = run(&shell(script), &window());
    assert_eq!((outcome.record.answered, outcome.record.failed()), (40, 0));
}

#[test]
fn bad_responses_are_counted_by_failure_kind() {
    for (answer, kind) in [
        (r#"{"jsonrpc":"2.0","id":\10,"result":{}}"#, FailureKind::WrongId),
        (r#"{"jsonrpc":"2.0","id":"\1","result":{}}"#, FailureKind::WrongId),
        (r#"{"jsonrpc":"2.0","id":\1,"error":{"code":-32601,"message":"no"}}"#, FailureKind::RpcError),
        (r#"{"jsonrpc":"2.0","id":\1,"result":{"isError":true}}"#, FailureKind::ToolError),
        ("listening", FailureKind::NotAResponse),
    ] {
        let mut load = window();
        // With ten requests or more, an id with one more digit could belong to another request.
        load.limit = Limit::Requests(9);
        load.connection_options.pipeline = 1;
        assert_all(&run(&answering(answer), &load).record, kind);
    }
}

#[test]
fn duplicate_response_fails_at_most_one_request() {
    let script = r#"exec sed -u 's/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":{}}/;5p'"#;
    let record = run(&shell(script), &window()).record;
    // The second response may arrive while no request is pending.
    assert!(record.failed() <= 1 && record.failed() == record.failed_as(FailureKind::WrongId));
    assert_eq!(record.answered + record.failed(), 40);
}

#[test]
fn load_ends_if_the_child_process_exits() {
    let script = r#"exec sed -u 's/.*"id":\([0-9]*\).*/{"jsonrpc":"2.0","id":\1,"result":{}}/;8q'"#;
    let mut load = window();
    for limit in [Limit::Requests(1_000_000), Limit::Duration(Duration::from_hours(1))] {
        load.limit = limit;
        let outcome = run(&shell(script), &load);
        let record = &outcome.record;
        assert_eq!((record.answered, record.failed_as(FailureKind::Closed)), (8, record.failed()));
        assert!(record.is_given_up && outcome.elapsed < Duration::from_mins(1));
    }
    let outcome = run(&shell("read line; printf '{\"jsonrpc\"'"), &load);
    assert_eq!(outcome.record.failed_as(FailureKind::Incomplete), 1);
    assert!(outcome.record.is_given_up);
}

#[test]
fn load_gives_up_on_a_silent_child() {
    let mut load = Load { limit: Limit::Requests(1_000_000), ..window() };
    load.connection_options.timeout = Duration::from_millis(30);
    // The second child does not even read.
    for script in ["exec sed -n d", "exec sleep 60"] {
        let record = run(&shell(script), &load).record;
        let (timed_out, abandoned) =
            (record.failed_as(FailureKind::TimedOut), record.failed_as(FailureKind::Abandoned));
        assert!(record.is_given_up && timed_out >= 3 && timed_out + abandoned == record.failed());
    }
}

#[test]
fn load_gives_up_on_a_child_with_endless_output() {
    let mut load = Load { limit: Limit::Requests(1_000_000), ..window() };
    load.connection_options.timeout = Duration::from_millis(100);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    assert!(run(&shell(&format!("exec yes '{note}'")), &load).record.is_given_up);
    // An endless line.
    let endless = run(&shell("exec tr '\\0' x < /dev/zero"), &load).record;
    assert!(endless.is_given_up && endless.answered == 0);
}

#[test]
fn probe_finds_the_revision_and_tools_of_a_child() {
    let within = Duration::from_secs(20);
    let both = [Revision::LATEST, Revision::LATEST_LEGACY];
    let legacy = shell(
        r#"while read -r line; do case $line in
        *server/discover*) echo 'starting up'; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}';;
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26"}}';;
        *tools/list*) echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"a","inputSchema":{}}]}}';;
        esac; done"#,
    );
    let facts = probe_child(&legacy, &both, within).unwrap();
    assert_eq!((facts.revision, facts.tools.len()), (Revision::R20250326, 1));
    let dead = probe_child(&shell("exit 3"), &both, within).unwrap_err();
    assert!(matches!(dead, ProbeError::Closed), "{dead}");
    let silent = probe_child(&shell("exec sed -n d"), &both, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(silent, ProbeError::TimedOut), "{silent}");
}

#[test]
fn child_that_cannot_start_is_an_error() {
    assert!(matches!(ChildServer::start(&[]), Err(ChildError::CommandMissing)));
    let missing = ChildServer::start(&["/none/such".to_owned()]);
    assert!(matches!(missing, Err(ChildError::NotStarted(_))));
}

#[test]
fn dropped_child_server_is_terminated() {
    // The first child ends with its input, the second needs SIGTERM, and the third ignores that.
    for script in ["exec sed -n d", "exec sleep 60", "trap '' TERM; while :; do sleep 1; done"] {
        let child = shell(script);
        let id = child.id();
        drop(child);
        assert!(thruway_bench::usage(id).is_none(), "{script}");
    }
}
