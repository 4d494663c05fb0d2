//! What clients do without end comes to an end.

use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::BridgeOptions;

use super::sites::{FAR_ERAS, in_memory, options};
use crate::fixtures::server;
use crate::http::Site;

/// Nobody ever gave such a question up: its session, and the server that is there for it alone, were there for ever.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_session_is_not_waited_for_for_ever() {
    for far in FAR_ERAS {
        let options = BridgeOptions { question_wait: Duration::from_mins(1), ..options(far) };
        let bridge = in_memory(&server(), options).await;
        let site = Site::new(&bridge);
        let session = site.initialize_with("2025-06-18", &json!({"elicitation": {}})).await;
        let call = json!({"name": "ask", "arguments": {}});
        let mut exchange = site.open(&session.request(2, "tools/call", &call));
        let asked = exchange.next_message().await;
        assert_eq!(asked["method"], "elicitation/create", "{far:?}: {asked}");
        tokio::time::sleep(Duration::from_secs(61)).await;
        let answer = exchange.next_message().await;
        assert_eq!(answer["id"], 2, "{far:?}: {answer}");
        assert!(answer.to_string().contains("not answered in time"), "{far:?}: {answer}");
    }
}
