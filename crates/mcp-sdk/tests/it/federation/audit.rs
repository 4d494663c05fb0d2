//! Audit events of gateways.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{
    AuditEvent, AuditLog, AuditOutcome, AuditSink, EraChoice, McpClient, McpGateway, McpServer, MemberState,
    Rule,
};
use thruway_net::LogTarget;

use super::callers::{TestCaller, guarded, rule};
use super::sites::{of_era, wait_for};
use crate::fixtures::{server, tool, with_hanging};
use crate::http::{Message, Site};

/// The members of an event that do not depend on time and size.
#[derive(Clone, PartialEq, Debug)]
struct Recorded {
    caller: Option<String>,
    session: Option<u64>,
    member: Option<String>,
    method: String,
    name: Option<String>,
    revision: String,
    outcome: AuditOutcome,
    bytes: (usize, usize),
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Recorded>>>);

impl AuditSink for Recorder {
    fn record(&self, event: &AuditEvent<'_>) {
        let text = |text: Option<&str>| text.map(str::to_owned);
        self.0.lock().unwrap().push(Recorded {
            caller: text(event.caller),
            session: event.session,
            member: text(event.member),
            method: event.method.to_owned(),
            name: text(event.name),
            revision: event.revision.as_str().to_owned(),
            outcome: event.outcome,
            bytes: (event.request_bytes, event.response_bytes),
        });
    }
}

impl Recorder {
    /// Removes and returns the only event.
    #[track_caller]
    fn only(&self) -> Recorded {
        let mut events = std::mem::take(&mut *self.0.lock().unwrap());
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Waits until there is an event.
    async fn wait(&self) -> Recorded {
        while self.count() == 0 {
            Site::settle().await;
        }
        self.only()
    }
}

async fn audited(server: &McpServer, sink: impl AuditSink) -> McpGateway {
    let rules = vec![Rule {
        resources: vec!["*".to_owned()],
        prompts: vec!["*".to_owned()],
        ..rule(&[], &["far__echo", "far__fail", "far__hang", "far__ask"])
    }];
    let member = of_era("far", server, EraChoice::Modern);
    let builder = McpGateway::builder("gateway", "1.0").member(member).rules(rules).audit(sink);
    let gateway = builder.build().unwrap();
    wait_for(&gateway, "far", MemberState::Connected).await;
    gateway
}

#[tokio::test(start_paused = true)]
async fn each_call_causes_one_event() {
    let recorder = Recorder::default();
    let gateway = audited(&server(), recorder.clone()).await;
    let site = guarded(&gateway);
    let error = |code| AuditOutcome::Error(ErrorCode(code));
    for caller in TestCaller::in_both_eras(&site, Some("ada:eng")).await {
        let unknown_resource = error(if caller.is_legacy() { -32002 } else { -32602 });
        let echo = json!({"name": "far__echo", "arguments": {"message": "secret"}});
        for (method, params, has_member, outcome) in [
            ("tools/call", echo, true, AuditOutcome::Ok),
            ("tools/call", json!({"name": "far__fail", "arguments": {}}), true, AuditOutcome::ToolError),
            ("tools/call", json!({"name": "far__log"}), false, error(-32602)),
            ("tools/call", json!({"name": "nothing"}), false, error(-32602)),
            ("tools/call", json!({}), false, error(-32602)),
            (
                "prompts/get",
                json!({"name": "far__greeting", "arguments": {"message": "x"}}),
                true,
                AuditOutcome::Ok,
            ),
            ("resources/read", json!({"uri": "test://text"}), true, AuditOutcome::Ok),
            ("resources/read", json!({"uri": "test://../text"}), true, unknown_resource),
        ] {
            if !caller.is_legacy() && params == json!({}) {
                continue;
            }
            let answer = caller.request(method, params.clone()).await;
            let event = recorder.only();
            let name = params["name"].as_str().or(params["uri"].as_str());
            let expected = Recorded {
                caller: Some("https://login.example ada".to_owned()),
                session: caller.is_legacy().then_some(1),
                member: has_member.then(|| "far".to_owned()),
                method: method.to_owned(),
                name: name.map(str::to_owned),
                revision: if caller.is_legacy() { "2025-11-25" } else { "2026-07-28" }.to_owned(),
                outcome,
                bytes: event.bytes,
            };
            assert_eq!(event, expected, "{answer}");
            assert!(event.bytes.0 >= params.to_string().len(), "{event:?}");
            // The text of the answer may have other spaces or escapes.
            assert!(event.bytes.1.abs_diff(answer.to_string().len()) < 10, "{event:?} {answer}");
        }
        for method in ["tools/list", "prompts/list", "resources/list"] {
            caller.request(method, json!({})).await;
        }
        assert_eq!(recorder.count(), 0, "lists cause no events");
    }
}

#[tokio::test(start_paused = true)]
async fn questions_of_a_member_are_an_outcome() {
    let recorder = Recorder::default();
    let gateway = audited(&server(), recorder.clone()).await;
    let site = Site::new(&gateway);
    let ask = json!({"name": "far__ask", "arguments": {}});
    let call = Message::modern_with("tools/call", ask, &json!({"elicitation": {"form": {}}}));
    let answer = site.send(&call).await.message();
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let event = recorder.only();
    assert_eq!((event.outcome, event.caller), (AuditOutcome::InputRequired, None));
}

#[tokio::test(start_paused = true)]
async fn canceled_call_causes_an_event() {
    let (server, running) = with_hanging(server());
    let recorder = Recorder::default();
    let gateway = audited(&server, recorder.clone()).await;
    let site = Site::new(&gateway);
    let [legacy, modern] = TestCaller::in_both_eras(&site, None).await;
    let hang = tool("far__hang");
    let begun = async |caller: &TestCaller<'_>| {
        let call = site.open(&caller.message("tools/call", hang.clone()));
        while running.count() == 0 {
            Site::settle().await;
        }
        assert_eq!(recorder.count(), 0);
        call
    };
    let expect_canceled = async || {
        let event = recorder.wait().await;
        assert_eq!((event.outcome, event.bytes.1), (AuditOutcome::Canceled, 0), "{event:?}");
        assert_eq!((event.member.as_deref(), event.name.as_deref()), (Some("far"), Some("far__hang")));
        while running.count() > 0 {
            Site::settle().await;
        }
    };
    begun(&modern).await.leave();
    expect_canceled().await;
    let call = begun(&legacy).await;
    assert_eq!(site.send(&legacy.cancellation()).await.status, 202);
    expect_canceled().await;
    drop(call);
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl LogTarget for Memory {
    fn write(&mut self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }

    fn report_dropped(&mut self, lines: u64) {
        panic!("{lines} lines were dropped");
    }
}

#[tokio::test]
async fn log_has_one_line_per_call_without_arguments_and_results() {
    let memory = Memory::default();
    let log = AuditLog::start(memory.clone()).unwrap();
    let server = McpServer::new("far", "1.0").tool(Tool::new("echo"), || "confidential");
    let gateway = audited(&server, log.clone()).await;
    let client = McpClient::builder().server(&gateway);
    for _ in 0..3 {
        client.call_tool("far__echo", json!({"text": "confidential"})).await.unwrap();
    }
    assert_eq!(log.finish(), 0);
    let written = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
    assert!(!written.contains("confidential"), "{written}");
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{written}");
    for line in lines {
        assert_eq!((&line["server"], &line["name"]), (&json!("far"), &json!("far__echo")), "{line}");
        assert_eq!((&line["method"], &line["outcome"]), (&json!("tools/call"), &json!("ok")), "{line}");
        assert!(line["duration_seconds"].is_f64() && line["response_bytes"].is_u64(), "{line}");
    }
}
