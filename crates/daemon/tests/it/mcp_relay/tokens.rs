//! Tests of servers that need an access token for each caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use thruway_server::{Request, Response, RunningServer, Server};
use thruway_testkit::JwtIssuer;

use super::scene::{Post, Scene, claims, fast};

/// Starts an authorization server. Returns it with the number of its tokens. The first token is `issued-1`.
fn issuer() -> (RunningServer, Arc<AtomicUsize>) {
    let issued = Arc::<AtomicUsize>::default();
    let count = issued.clone();
    let answer = move |_: &Request| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let token = format!("issued-{number}");
        Response::json(&json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}))
    };
    let server = Server::new(answer).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    (server, issued)
}

fn start(keys: &JwtIssuer, issuer: &RunningServer, grant: &str) -> Scene {
    let issuer = format!(
        "[mcp.issuers.corp]\ntoken_url = \"http://{}/token\"\nclient_id = \"a\"\nclient_secret = \"b\"\n",
        issuer.addresses()[0]
    );
    Scene::start_with_tokens(keys, &format!("auth = {{ {grant} = \"corp\" }}\n"), &issuer)
}

/// Calls `hello` with a token of the caller.
fn call(scene: &Scene, token: &str) {
    let (_, response) = scene.post(&Post { token, ..Post::new(fast("web__hello")) });
    assert_eq!(response["result"]["content"][0]["text"], "hello", "{response}");
}

/// Returns the tokens of all relayed calls.
fn relayed_tokens(scene: &Scene) -> Vec<String> {
    let token = |head: &String| {
        let line = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("authorization: ").map(str::to_owned));
        line.unwrap_or_else(|| panic!("{head}"))
    };
    scene.relayed().iter().map(token).collect()
}

#[test]
fn relayed_call_has_the_exchanged_token_of_its_caller() {
    let (keys, (login, issued)) = (JwtIssuer::new("key"), issuer());
    let scene = start(&keys, &login, "exchange");
    let callers = ["ada", "bob"].map(|subject| keys.token(&claims(subject)));
    let mut tokens = Vec::new();
    for caller in &callers {
        // The first call of a caller obtains its token on the slow path.
        call(&scene, caller);
        assert_eq!(relayed_tokens(&scene), tokens);
        let of_caller = format!("bearer issued-{}", issued.load(Ordering::Relaxed));
        for _ in 0..2 {
            call(&scene, caller);
            tokens.push(of_caller.clone());
        }
        assert_eq!(relayed_tokens(&scene), tokens);
    }
    assert_ne!(tokens[0], tokens[2], "each caller has its own token");
    call(&scene, &callers[0]);
    assert_eq!(relayed_tokens(&scene)[4], tokens[0]);
    let heads = scene.heads.lock().unwrap().concat();
    assert!(callers.iter().all(|caller| !heads.contains(&caller[..20])), "{heads}");
    scene.end();
    login.drain();
    login.join();
}

#[test]
fn relayed_call_has_the_token_of_the_gateway() {
    let (keys, (login, issued)) = (JwtIssuer::new("key"), issuer());
    let scene = start(&keys, &login, "client_credentials");
    let before = issued.load(Ordering::Relaxed);
    for subject in ["ada", "bob"] {
        call(&scene, &keys.token(&claims(subject)));
    }
    assert_eq!(relayed_tokens(&scene), ["bearer issued-1", "bearer issued-1"]);
    assert_eq!(issued.load(Ordering::Relaxed), before);
    scene.end();
    login.drain();
    login.join();
}

#[test]
fn refused_token_is_replaced_and_the_call_is_counted_once() {
    let (keys, (login, issued)) = (JwtIssuer::new("key"), issuer());
    let scene = start(&keys, &login, "exchange");
    let ada = keys.token(&claims("ada"));
    let calls = || -> Value {
        scene.daemon.handle().status()["mcp_endpoints"][0]["servers"][0]["calls"]["total"].clone()
    };
    call(&scene, &ada);
    let number = issued.load(Ordering::Relaxed);
    let before = calls().as_u64().unwrap();
    *scene.refused_token.lock().unwrap() = Some(format!("Bearer issued-{number}"));
    call(&scene, &ada);
    assert_eq!(relayed_tokens(&scene), [format!("bearer issued-{number}")]);
    assert_eq!(issued.load(Ordering::Relaxed), number + 1);
    call(&scene, &ada);
    assert_eq!(relayed_tokens(&scene)[1], format!("bearer issued-{}", number + 1));
    assert_eq!(calls(), before + 2);
    scene.end();
    login.drain();
    login.join();
}
