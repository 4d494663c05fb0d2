//! Logins with well-behaved servers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::oauth::{LoginFuture, OAuth, OAuthError, RegisteredClient, UserAgent};
use tokio::sync::Semaphore;

use super::world::{
    Browser, METADATA, RESOURCE_METADATA, World, accepted, call, document, insufficient, login, redirect,
    refusal, refused, unauthorized,
};

#[tokio::test]
async fn client_logs_in_after_401_and_sends_token() {
    let world = World::new().await;
    let client = world.client(login());
    call(&client).await.unwrap();
    call(&client).await.unwrap();
    let registration = world.issuer.seen_at("/register")[0].json();
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["grant_types"], json!(["authorization_code", "refresh_token"]));
    let authorization = &world.issuer.seen_at("/authorize")[0];
    let token = &world.issuer.seen_at("/token")[0];
    for seen in [authorization, token] {
        assert_eq!(seen.parameter("resource"), Some(world.url()));
        assert_eq!(seen.parameter("client_id").as_deref(), Some("registered"));
        assert_eq!(seen.parameter("redirect_uri").as_deref(), Some("http://127.0.0.1:1/callback"));
        assert_eq!(seen.token(), None);
    }
    assert_eq!(authorization.parameter("code_challenge_method").as_deref(), Some("S256"));
    assert_eq!(token.parameter("code").as_deref(), Some("code"));
    let calls = world.server.seen_at("/mcp");
    let tokens: Vec<_> = calls.iter().map(|seen| seen.token()).collect();
    assert_eq!(tokens, [None, Some("token-1"), Some("token-1")]);
    assert!(world.server.seen().iter().filter(|seen| seen.path != "/mcp").all(|seen| seen.token().is_none()));
}

#[tokio::test]
async fn concurrent_calls_share_one_login() {
    let world = World::new().await;
    let client = world.client(login());
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(world.logins(), 1);
}

/// Regression test: each client of a bridge required its own login, and a renewal by one client invalidated
/// the tokens of the others.
#[tokio::test]
async fn clients_with_clones_of_one_oauth_share_one_login() {
    let world = World::new().await;
    let oauth = login();
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let client = world.client(oauth.clone());
            tokio::spawn(async move { call(&client).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(world.logins(), 1);
}

/// A login that waits for a signal of the test.
struct SlowLogin(Arc<Semaphore>);

impl UserAgent for SlowLogin {
    fn redirect_uri(&self) -> io::Result<String> {
        Browser.redirect_uri()
    }

    fn log_in<'a>(&'a self, url: &'a str) -> LoginFuture<'a> {
        Box::pin(async move {
            let _turn = self.0.acquire().await.unwrap();
            Browser.log_in(url).await
        })
    }
}

#[tokio::test]
async fn login_time_does_not_count_toward_call_timeout() {
    let world = World::new().await;
    let turn = Arc::new(Semaphore::new(0));
    let client = world.patient_client(OAuth::login(SlowLogin(turn.clone())), Duration::from_millis(200));
    let called = tokio::spawn(async move { call(&client).await });
    // Much longer than the timeout of a call.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!called.is_finished());
    turn.add_permits(1);
    called.await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_waiting_for_login_share_its_timeout() {
    let world = World::new().await;
    let oauth =
        OAuth::login(SlowLogin(Arc::new(Semaphore::new(0)))).login_timeout(Duration::from_millis(200));
    let client = world.client(oauth);
    let (one, two) = tokio::join!(refused(&client), refused(&client));
    assert_eq!((one, two), (OAuthError::LoginTimedOut, OAuthError::LoginTimedOut));
    assert_eq!(world.issuer.seen_at(METADATA).len(), 1, "the second call has not started its own login");
}

#[tokio::test]
async fn denied_login_is_not_repeated_for_the_call() {
    let world = World::new().await;
    let url = world.issuer.url.clone();
    world.issuer.on("/authorize", move |seen| {
        let state = seen.parameter("state").unwrap();
        redirect(&format!("http://127.0.0.1:1/callback?error=access_denied&state={state}&iss={url}"))
    });
    let refused = refused(&world.client(login())).await;
    assert_eq!(refused, OAuthError::Refused { error: "access_denied".into(), description: None });
    assert_eq!((world.logins(), world.issuer.seen_at("/token").len()), (1, 0));
}

#[tokio::test]
async fn requested_scopes_follow_server_and_grow_on_demand() {
    let world = World::new().await;
    let mut resource = world.resource();
    resource["scopes_supported"] = json!(["general"]);
    world.server.on(RESOURCE_METADATA, move |_| document(&resource));
    let mut metadata = World::metadata(&world.issuer);
    metadata["scopes_supported"] = json!(["offline_access"]);
    world.issuer.on(METADATA, move |_| document(&metadata));
    call(&world.client(login())).await.unwrap();
    call(&world.client(login().scopes(["mine"]))).await.unwrap();
    world.server.on("/mcp", |seen| match seen.token() {
        None => unauthorized("Bearer scope=\"read\""),
        Some("token-3") => insufficient("write"),
        Some(_) => accepted(seen),
    });
    call(&world.client(login())).await.unwrap();
    let scopes: Vec<_> =
        world.issuer.seen_at("/authorize").iter().map(|seen| seen.parameter("scope").unwrap()).collect();
    let expected =
        ["general offline_access", "mine offline_access", "read offline_access", "read offline_access write"];
    assert_eq!(scopes, expected);
    // Some authorization servers grant only registered scopes.
    let registered = world.issuer.seen_at("/register");
    let registered: Vec<_> = registered.iter().map(|seen| seen.json()["scope"].clone()).collect();
    assert_eq!(registered, expected);
}

#[tokio::test]
async fn client_with_metadata_document_does_not_register() {
    let world = World::new().await;
    let mut metadata = World::metadata(&world.issuer);
    metadata["client_id_metadata_document_supported"] = json!(true);
    world.issuer.on(METADATA, move |_| document(&metadata));
    call(&world.client(login().metadata_document("https://client.example/it.json"))).await.unwrap();
    assert_eq!(
        world.issuer.seen_at("/token")[0].parameter("client_id").as_deref(),
        Some("https://client.example/it.json")
    );
    assert_eq!(world.issuer.seen_at("/register").len(), 0);
}

#[tokio::test]
async fn client_that_cannot_register_gets_error() {
    let world = World::new().await;
    world.issuer.on("/register", |_| {
        refusal("400 Bad Request", &json!({"error": "invalid_redirect_uri", "error_description": "not you"}))
    });
    let expected =
        OAuthError::Refused { error: "invalid_redirect_uri".into(), description: Some("not you".into()) };
    assert_eq!(refused(&world.client(login())).await, expected);
    let mut metadata = World::metadata(&world.issuer);
    metadata["registration_endpoint"] = json!(null);
    world.issuer.on(METADATA, move |_| document(&metadata));
    assert_eq!(refused(&world.client(login())).await, OAuthError::ClientNotRegistered);
    call(&world.client(login().client(RegisteredClient::public("by hand")))).await.unwrap();
    assert_eq!(world.issuer.seen_at("/token")[0].parameter("client_id").as_deref(), Some("by hand"));
}

#[tokio::test]
async fn new_authorization_server_needs_new_registration_and_login() {
    let world = World::new().await;
    let client = world.client(login());
    call(&client).await.unwrap();
    // The server names another authorization server.
    World::behave(&world.other);
    world.other.on("/register", |_| refusal("201 Created", &json!({"client_id": "registered elsewhere"})));
    world.other.on("/token", |_| document(&super::world::token("token-other")));
    let mut resource = world.resource();
    resource["authorization_servers"] = json!([world.other.url]);
    world.server.on(RESOURCE_METADATA, move |_| document(&resource));
    world.server.on("/mcp", |seen| match seen.token() {
        Some("token-other") => accepted(seen),
        _ => unauthorized("Bearer error=\"invalid_token\""),
    });
    call(&client).await.unwrap();
    for path in ["/authorize", "/token"] {
        let seen = &world.other.seen_at(path)[0];
        assert_eq!(seen.parameter("client_id").as_deref(), Some("registered elsewhere"), "{path}");
    }
    assert!(world.other.seen().iter().all(|seen| !format!("{seen:?}").contains("token-1")));
}

#[tokio::test]
async fn server_without_metadata_is_its_own_authorization_server() {
    let world = World::new().await;
    world.server.on(RESOURCE_METADATA, |_| super::world::status("404 Not Found", ""));
    world.server.on("/mcp", |seen| match seen.token() {
        Some(_) => accepted(seen),
        None => unauthorized("Bearer"),
    });
    World::behave(&world.server);
    world.server.on(METADATA, |_| super::world::status("404 Not Found", ""));
    world.server.on("/authorize", |seen| {
        redirect(&format!("http://127.0.0.1:1/callback?code=c&state={}", seen.parameter("state").unwrap()))
    });
    call(&world.client(login())).await.unwrap();
    assert_eq!(world.issuer.seen().len(), 0);
    // A server without authorization support gets no error about authorization.
    for path in ["/register", "/authorize", "/token"] {
        world.server.on(path, |_| super::world::status("404 Not Found", ""));
    }
    assert_eq!(refused(&world.client(login())).await, OAuthError::ServerUnknown);
}
