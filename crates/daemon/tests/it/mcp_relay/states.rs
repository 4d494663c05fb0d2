//! Tests of calls with several rounds: the client sends the `requestState` back with its answers.

use serde_json::{Value, json};
use thruway_testkit::JwtIssuer;

use super::scene::{Post, Scene, claims, fast, slow};

/// Returns the parameters of a retry with the state in `asked` and with an answer to the question `key`.
fn retry(mut params: Value, asked: &Value, key: &str, name: &str) -> Value {
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({key: {"action": "accept", "content": {"name": name}}});
    params
}

#[test]
fn call_can_change_between_the_paths_in_each_round() {
    let scene = Scene::start("");
    let paths = [fast as fn(&str) -> Value, slow];
    for rounds in 0..8_usize {
        let path = |round: usize| paths[(rounds >> round) & 1]("web__ask");
        let relayed = scene.relayed().len();
        let (_, first) = scene.call("web__ask", &path(0));
        assert_eq!(first["result"]["resultType"], "input_required", "{first}");
        assert!(first["result"]["inputRequests"]["first"].is_object(), "{first}");
        let (_, second) = scene.call("web__ask", &retry(path(1), &first, "first", "Ada"));
        assert!(second["result"]["inputRequests"]["second"].is_object(), "{second}");
        let (_, done) = scene.call("web__ask", &retry(path(2), &second, "second", "Bob"));
        assert_eq!(done["result"]["content"][0]["text"], "Ada and Bob", "{done}");
        let fast_rounds = 3 - rounds.count_ones() as usize;
        assert_eq!(scene.relayed().len(), relayed + fast_rounds, "{rounds:b}");
    }
    scene.end();
}

#[test]
fn state_that_arrives_in_pieces_is_signed() {
    let scene = Scene::start("");
    for form in ["json", "events"] {
        let mut params = fast("web__pieces");
        params["arguments"] = json!({"form": form});
        let relayed = scene.relayed().len();
        let (_, asked) = scene.call("web__pieces", &params);
        let state = asked["result"]["requestState"].as_str().unwrap();
        assert!(state.len() > 40 && !state.contains('"'), "{asked}");
        let (_, done) = scene.call("web__pieces", &retry(params, &asked, "a", "b"));
        assert_eq!(done["result"]["content"][0]["text"], "continued", "{done}");
        assert_eq!(scene.relayed().len(), relayed + 2);
    }
    scene.end();
}

/// A signature costs time, so a server must not get any number of them.
#[test]
fn only_the_first_state_of_a_response_is_signed() {
    let scene = Scene::start("");
    let mut params = fast("web__broken");
    let result = r#"{"resultType":"input_required","requestState":"first","requestState":"second"}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#);
    params["arguments"] = json!({"status": 200, "mediaType": "application/json", "body": body});
    let response = scene.response(&Post { name: "web__broken", ..Post::new(params) });
    assert!(!response.contains("\"first\"") && response.contains("\"second\""), "{response}");
    assert_eq!(response.matches("requestState").count(), 2, "{response}");
    assert_eq!(scene.relayed().len(), 1);
    scene.end();
}

#[test]
fn forged_states_and_states_of_other_calls_are_refused() {
    let scene = Scene::start("");
    let (_, asked) = scene.call("web__ask", &fast("web__ask"));
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    let relayed = scene.relayed().len();
    let mut other_arguments = retry(fast("web__ask"), &asked, "first", "Ada");
    other_arguments["arguments"] = json!({"a": 1});
    let other_tool = retry(fast("web__hello"), &asked, "first", "Ada");
    let with_state = |state: &str| {
        let mut params = retry(fast("web__ask"), &asked, "first", "Ada");
        params["requestState"] = json!(state);
        ("web__ask", params)
    };
    // The state without its signature has the form of a state of the server.
    let unsigned = state.split_once('.').unwrap().0;
    for (name, params) in [
        ("web__ask", other_arguments),
        ("web__hello", other_tool),
        with_state(""),
        with_state("forged"),
        with_state(unsigned),
        with_state(&format!("{unsigned}.{}", "A".repeat(43))),
        with_state(&state[1..]),
    ] {
        let (status, refused) = scene.call(name, &params);
        assert_eq!((status.as_str(), &refused["error"]["code"]), ("200", &json!(-32602)), "{params}");
    }
    assert_eq!(scene.relayed().len(), relayed);
    scene.end();
}

#[test]
fn state_of_another_caller_is_refused() {
    let keys = JwtIssuer::new("key");
    let scene = Scene::start_with_tokens(&keys, "", "");
    let (of_ada, of_eve) = (keys.token(&claims("ada")), keys.token(&claims("eve")));
    let call =
        |params: Value, token: &str| scene.post(&Post { name: "web__ask", token, ..Post::new(params) }).1;
    let asked = call(fast("web__ask"), &of_ada);
    let relayed = scene.relayed().len();
    let refused = call(retry(fast("web__ask"), &asked, "first", "Eve"), &of_eve);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(scene.relayed().len(), relayed);
    let continued = call(retry(fast("web__ask"), &asked, "first", "Ada"), &of_ada);
    assert!(continued["result"]["inputRequests"]["second"].is_object(), "{continued}");
    assert_eq!(scene.relayed().len(), relayed + 1);
    scene.end();
}
