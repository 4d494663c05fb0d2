//! Tokens that are renewed, stored, and bound to a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_mcp_sdk::oauth::{OAuth, OAuthError, RegisteredClient, StoredToken, TokenStore};
use tokio::task::AbortHandle;

use super::world::{
    METADATA, RESOURCE_METADATA, World, accepted, call, document, login, refusal, refused, status, token,
    unauthorized,
};

/// Stores tokens as text, like a file.
#[derive(Clone, Default)]
pub(super) struct TextStore(Arc<Mutex<HashMap<String, String>>>);

impl TokenStore for TextStore {
    fn load(&self, server: &str) -> Option<StoredToken> {
        serde_json::from_str(self.0.lock().unwrap().get(server)?).unwrap()
    }

    fn save(&self, server: &str, token: &StoredToken) {
        self.0.lock().unwrap().insert(server.to_owned(), serde_json::to_string(&token).unwrap());
    }
}

impl TextStore {
    /// Makes all tokens expired.
    pub(super) fn expire(&self) {
        for text in self.0.lock().unwrap().values_mut() {
            let mut token: Value = serde_json::from_str(text).unwrap();
            token["expires_at"] = json!(1);
            *text = token.to_string();
        }
    }
}

/// Makes the issuer return refresh tokens, and access tokens that expire after `expires_in` seconds.
pub(super) fn refreshing(world: &World, expires_in: u64) {
    let counted = world.issuer.clone();
    world.issuer.on("/token", move |seen| {
        let number = counted.seen_at("/token").len();
        assert!(!seen.content.contains("refresh_token=") || seen.content.contains("refresh-"));
        let mut token = token(&format!("token-{number}"));
        token["refresh_token"] = json!(format!("refresh-{number}"));
        token["expires_in"] = json!(expires_in);
        document(&token)
    });
}

#[tokio::test]
async fn rejected_token_is_renewed_without_login() {
    let world = World::new().await;
    refreshing(&world, 3600);
    let client = world.client(login());
    call(&client).await.unwrap();
    world.server.on("/mcp", |seen| match seen.token() {
        Some("token-2") => accepted(seen),
        _ => unauthorized("Bearer error=\"invalid_token\""),
    });
    call(&client).await.unwrap();
    let renewal = &world.issuer.seen_at("/token")[1];
    assert_eq!(renewal.parameter("grant_type").as_deref(), Some("refresh_token"));
    assert_eq!(renewal.parameter("refresh_token").as_deref(), Some("refresh-1"));
    assert_eq!(renewal.parameter("resource"), Some(world.url()));
    assert_eq!(world.logins(), 1);
}

#[tokio::test]
async fn unreachable_token_endpoint_does_not_cause_login() {
    let world = World::new().await;
    refreshing(&world, 3600);
    let client = world.client(login());
    call(&client).await.unwrap();
    let mut metadata = World::metadata(&world.issuer);
    metadata["token_endpoint"] =
        json!(format!("http://{}/token", thruway_testkit::upstream::unused_address()));
    world.issuer.on(METADATA, move |_| document(&metadata));
    world.server.on("/mcp", |_| unauthorized("Bearer error=\"invalid_token\""));
    assert!(matches!(refused(&client).await, OAuthError::Unreachable(..)));
    assert_eq!(world.logins(), 1);
}

/// Makes the issuer accept each refresh token once, like servers that rotate them. Aborts the call
/// `call_to_abort` at the first renewal.
fn rotating(world: &World, expires_in: u64, call_to_abort: Arc<Mutex<Option<AbortHandle>>>) {
    let counted = world.issuer.clone();
    world.issuer.on("/token", move |seen| {
        let seen_so_far = counted.seen_at("/token");
        let number = seen_so_far.len();
        if let Some(given) = seen.parameter("refresh_token") {
            if given != format!("refresh-{}", number - 1) {
                return refusal("400 Bad Request", &json!({"error": "invalid_grant"}));
            }
            if let Some(caller) = call_to_abort.lock().unwrap().take() {
                caller.abort();
            }
        }
        let mut token = token(&format!("token-{number}"));
        token["refresh_token"] = json!(format!("refresh-{number}"));
        token["expires_in"] = json!(expires_in);
        document(&token)
    });
}

/// Regression test: the answer was lost, and with it the only valid refresh token. All clients had to log in
/// again.
#[tokio::test]
async fn aborted_call_does_not_lose_renewed_token() {
    // A renewal before the request, because the token expires soon, and a renewal after a rejection.
    for (expires_in, refused) in [(5, None), (3600, Some("token-1"))] {
        let (world, call_to_abort) = (World::new().await, Arc::default());
        rotating(&world, expires_in, Arc::clone(&call_to_abort));
        let client = world.client(login());
        call(&client).await.unwrap();
        if let Some(refused) = refused {
            world.server.on("/mcp", move |seen| match seen.token() {
                Some(token) if token != refused => accepted(seen),
                _ => unauthorized("Bearer error=\"invalid_token\""),
            });
        }
        let aborted_call = tokio::spawn({
            let client = client.clone();
            async move { call(&client).await }
        });
        *call_to_abort.lock().unwrap() = Some(aborted_call.abort_handle());
        assert!(aborted_call.await.unwrap_err().is_cancelled());
        // The renewal is in progress, and the call waits for it.
        assert_eq!(call(&client).await, Ok(()));
        assert_eq!((world.logins(), world.issuer.seen_at("/token").len()), (1, 2), "{expires_in}");
    }
}

#[tokio::test]
async fn expiring_token_is_renewed_before_the_request() {
    let world = World::new().await;
    refreshing(&world, 5);
    let client = world.client(login());
    call(&client).await.unwrap();
    call(&client).await.unwrap();
    let calls = world.server.seen_at("/mcp");
    let tokens: Vec<_> = calls.iter().map(|seen| seen.token()).collect();
    assert_eq!(tokens, [None, Some("token-1"), Some("token-2")]);
    assert_eq!(world.logins(), 1);
}

#[tokio::test]
async fn expired_token_without_refresh_token_is_not_sent() {
    let (world, store) = (World::new().await, TextStore::default());
    call(&world.client(login().store(store.clone()))).await.unwrap();
    store.expire();
    call(&world.client(login().store(store))).await.unwrap();
    let calls = world.server.seen_at("/mcp");
    let tokens: Vec<_> = calls.iter().map(|seen| seen.token()).collect();
    assert_eq!(tokens, [None, Some("token-1"), None, Some("token-2")]);
}

#[tokio::test]
async fn stored_token_of_another_client_id_is_not_sent() {
    let (world, store) = (World::new().await, TextStore::default());
    call(&world.client(login().store(store.clone()))).await.unwrap();
    let other = login().client(RegisteredClient::public("by hand")).store(store);
    call(&world.client(other)).await.unwrap();
    assert_eq!((world.logins(), world.server.seen_at("/mcp")[2].token()), (2, None));
}

#[tokio::test]
async fn client_registers_again_after_invalid_client_error() {
    let world = World::new().await;
    let counted = world.issuer.clone();
    world.issuer.on("/token", move |_| match counted.seen_at("/token").len() {
        1 => refusal("401 Unauthorized", &json!({"error": "invalid_client"})),
        _ => document(&token("token-later")),
    });
    let client = world.client(login());
    assert!(matches!(refused(&client).await, OAuthError::Refused { .. }));
    call(&client).await.unwrap();
    assert_eq!(world.issuer.seen_at("/register").len(), 2);
}

/// Makes the issuer forget all clients. It registers one new client from now on.
fn forget_all(world: &World) {
    world.issuer.on("/register", |_| refusal("201 Created", &json!({"client_id": "anew"})));
    world.issuer.on("/token", |seen| match seen.parameter("client_id").as_deref() {
        Some("anew") => document(&token("token-anew")),
        _ => refusal("401 Unauthorized", &json!({"error": "invalid_client"})),
    });
}

/// Regression test: each call failed, or a person saw an error page about an unknown client.
#[tokio::test]
async fn forgotten_client_registers_again_within_same_call() {
    let world = World::new().await;
    refreshing(&world, 3600);
    let client = world.client(login());
    call(&client).await.unwrap();
    forget_all(&world);
    world.server.on("/mcp", |seen| match seen.token() {
        Some("token-anew") => accepted(seen),
        _ => unauthorized("Bearer error=\"invalid_token\""),
    });
    call(&client).await.unwrap();
    let logins = world.issuer.seen_at("/authorize");
    let ids: Vec<_> = logins.iter().map(|seen| seen.parameter("client_id").unwrap()).collect();
    assert_eq!(ids, ["registered", "anew"], "a forgotten client registers again before the login");
    // Without a refresh token, only a login shows this. The client must not register in an endless loop.
    let (world, store) = (World::new().await, TextStore::default());
    call(&world.client(login().store(store.clone()))).await.unwrap();
    store.expire();
    forget_all(&world);
    call(&world.client(login().store(store.clone()))).await.unwrap();
    assert_eq!((world.logins(), world.issuer.seen_at("/register").len()), (3, 2));
    store.expire();
    world.issuer.on("/token", |_| refusal("401 Unauthorized", &json!({"error": "invalid_client"})));
    assert!(matches!(refused(&world.client(login().store(store))).await, OAuthError::Refused { .. }));
    assert_eq!((world.logins(), world.issuer.seen_at("/register").len()), (5, 3));
}

/// Regression test: tokens of different grants replaced each other. A client with its own credentials got the
/// token of a login, or a person had to log in again.
#[tokio::test]
async fn tokens_of_different_grants_are_stored_separately() {
    let (world, store) = (World::new().await, TextStore::default());
    let client = || RegisteredClient::with_secret("by hand", "confidential").of_issuer(&world.issuer.url);
    for _ in 0..2 {
        call(&world.client(login().client(client()).store(store.clone()))).await.unwrap();
        call(&world.client(OAuth::client_credentials(client()).store(store.clone()))).await.unwrap();
    }
    let grants: Vec<_> =
        world.issuer.seen_at("/token").iter().map(|seen| seen.parameter("grant_type").unwrap()).collect();
    assert_eq!(grants, ["authorization_code", "client_credentials"]);
}

#[tokio::test]
async fn failing_authorization_server_does_not_cause_login() {
    let in_words = refusal("503 Service Unavailable", &json!({"error": "temporarily_unavailable"}));
    for answer in [status("503 Service Unavailable", ""), in_words] {
        let (world, store) = (World::new().await, TextStore::default());
        refreshing(&world, 3600);
        call(&world.client(login().store(store.clone()))).await.unwrap();
        store.expire();
        world.issuer.on("/token", move |_| answer.clone());
        // The server accepts the token, although it has expired by the clock.
        call(&world.client(login().store(store.clone()))).await.unwrap();
        world.server.on("/mcp", |_| unauthorized("Bearer error=\"invalid_token\""));
        let refused = refused(&world.client(login().store(store))).await;
        assert!(matches!(refused, OAuthError::Status(_, status) if status.as_u16() == 503));
        assert_eq!(world.logins(), 1);
    }
}

/// Regression test: a document that was briefly missing invalidated a good refresh token. The result was
/// another login, or a failure without a person.
#[tokio::test]
async fn temporarily_missing_metadata_does_not_cause_login() {
    for answer in [status("404 Not Found", ""), document(&json!("nonsense"))] {
        let (world, store) = (World::new().await, TextStore::default());
        let mut metadata = World::metadata(&world.issuer);
        metadata["token_endpoint"] = json!(format!("{}/elsewhere", world.issuer.url));
        let metadata = document(&metadata);
        let answers = Mutex::new(vec![metadata.clone(), answer, metadata]);
        world.issuer.on(METADATA, move |_| answers.lock().unwrap().pop().unwrap());
        world.issuer.on("/token", |_| status("404 Not Found", ""));
        world.issuer.on("/elsewhere", |seen| {
            let is_renewal = seen.content.contains("refresh_token=refresh-1");
            let mut token = token(if is_renewal { "token-2" } else { "token-1" });
            token["refresh_token"] = json!("refresh-1");
            document(&token)
        });
        call(&world.client(login().store(store.clone()))).await.unwrap();
        store.expire();
        world.server.on("/mcp", |seen| match seen.token() {
            Some("token-2") => accepted(seen),
            _ => unauthorized("Bearer error=\"invalid_token\""),
        });
        call(&world.client(login().store(store))).await.unwrap();
        assert_eq!(world.logins(), 1);
    }
}

#[tokio::test]
async fn refresh_token_is_sent_only_to_its_issuer() {
    let world = World::new().await;
    refreshing(&world, 3600);
    let client = world.client(login());
    call(&client).await.unwrap();
    World::behave(&world.other);
    let mut resource = world.resource();
    resource["authorization_servers"] = json!([world.other.url]);
    world.server.on(RESOURCE_METADATA, move |_| document(&resource));
    world.server.on("/mcp", |_| unauthorized("Bearer error=\"invalid_token\""));
    assert_eq!(refused(&client).await, OAuthError::TokenRejected);
    assert!(!world.other.seen().is_empty());
    assert!(world.other.seen().iter().all(|seen| !format!("{seen:?}").contains("refresh-")));
}

#[tokio::test]
async fn stored_token_avoids_login_only_at_same_server() {
    let (world, store) = (World::new().await, TextStore::default());
    call(&world.client(login().store(store.clone()))).await.unwrap();
    assert!(!format!("{:?}", store.load(&world.url()).unwrap()).contains("token-1"));
    call(&world.client(login().store(store.clone()))).await.unwrap();
    assert_eq!((world.logins(), world.issuer.seen_at("/register").len()), (1, 1));
    let elsewhere = World::new().await;
    call(&elsewhere.client(login().store(store.clone()))).await.unwrap();
    assert_eq!(elsewhere.logins(), 1);
    assert_eq!(elsewhere.server.seen_at("/mcp")[0].token(), None);
}

#[tokio::test]
async fn configured_client_secret_is_not_stored() {
    let (world, store) = (World::new().await, TextStore::default());
    let client = RegisteredClient::with_secret("by hand", "confidential").of_issuer(&world.issuer.url);
    call(&world.client(login().client(client).store(store.clone()))).await.unwrap();
    assert!(!store.0.lock().unwrap()[&world.url()].contains("confidential"));
}

/// Makes both servers require proofs, and the issuer bind its tokens.
fn bound(world: &World) {
    let mut metadata = World::metadata(&world.issuer);
    metadata["dpop_signing_alg_values_supported"] = json!(["RS256", "ES256"]);
    world.issuer.on(METADATA, move |_| document(&metadata));
    world.guard("DPoP");
    world.issuer.on("/token", |seen| {
        assert!(seen.field("dpop").is_some());
        let mut token = token("token-bound");
        token["token_type"] = json!("DPoP");
        document(&token)
    });
}

/// Returns the claims of a proof.
pub(super) fn claims(proof: &str) -> Value {
    use base64::Engine as _;
    let claims = proof.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

#[tokio::test]
async fn dpop_bound_token_is_sent_with_proof() {
    let (world, store) = (World::new().await, TextStore::default());
    bound(&world);
    call(&world.client(login().store(store.clone()))).await.unwrap();
    // The key is stored with the token.
    call(&world.client(login().store(store))).await.unwrap();
    let calls = world.server.seen_at("/mcp");
    assert!(calls[1].field("authorization").unwrap().starts_with("DPoP token-bound"));
    let proofs: Vec<_> = calls[1..].iter().map(|seen| claims(seen.field("dpop").unwrap())).collect();
    assert_eq!((proofs.len(), proofs[0]["htu"].as_str()), (2, Some(world.url().as_str())));
    assert!(proofs[0]["jti"] != proofs[1]["jti"] && proofs[0]["ath"] == proofs[1]["ath"]);
    assert_eq!(world.issuer.seen_at("/register")[0].json()["dpop_bound_access_tokens"], true);
}

#[tokio::test]
async fn unbound_token_is_rejected_if_dpop_is_expected() {
    let world = World::new().await;
    bound(&world);
    world.issuer.on("/token", |_| document(&token("token-unbound")));
    assert_eq!(refused(&world.client(login())).await, OAuthError::TokenUnbound);
    assert!(world.server.seen().iter().all(|seen| seen.token().is_none()));
    // A server that requires bound tokens, and an authorization server without support for them.
    let mut resource = world.resource();
    resource["dpop_bound_access_tokens_required"] = json!(true);
    world.server.on(RESOURCE_METADATA, move |_| document(&resource));
    let mut metadata = World::metadata(&world.issuer);
    metadata["dpop_signing_alg_values_supported"] = json!(["RS256"]);
    world.issuer.on(METADATA, move |_| document(&metadata));
    assert_eq!(refused(&world.client(login())).await, OAuthError::TokenUnbound);
    assert_eq!(world.logins(), 1);
}

#[tokio::test]
async fn dpop_nonces_are_used_with_limited_retries() {
    let world = World::new().await;
    bound(&world);
    let wants = |nonce: &str| {
        let fields = format!("DPoP-Nonce: {nonce}\r\nWWW-Authenticate: DPoP error=\"use_dpop_nonce\"\r\n");
        status("401 Unauthorized", &fields)
    };
    world.server.on("/mcp", move |seen| match seen.field("dpop").map(claims) {
        Some(proof) if proof["nonce"] == "n" => accepted(seen),
        Some(_) => wants("n"),
        None => unauthorized("DPoP"),
    });
    let client = world.client(login());
    call(&client).await.unwrap();
    call(&client).await.unwrap();
    assert_eq!(world.server.seen_at("/mcp").len(), 4, "the number is remembered");
    // Requests that were sent at the same time are refused at the same time.
    let fresh = world.client(login());
    let (one, two, three) = tokio::join!(call(&fresh), call(&fresh), call(&fresh));
    assert_eq!((one, two, three), (Ok(()), Ok(()), Ok(())));
    let counted = world.server.clone();
    let before = world.server.seen_at("/mcp").len();
    world.server.on("/mcp", move |_| wants(&counted.seen().len().to_string()));
    assert_eq!(refused(&client).await, OAuthError::TokenRejected);
    assert!(world.server.seen_at("/mcp").len() - before <= 4 && world.logins() == 2);
}

#[tokio::test]
async fn endless_dpop_nonce_errors_end_after_two_token_requests() {
    let world = World::new().await;
    bound(&world);
    let counted = world.issuer.clone();
    world.issuer.on("/token", move |_| {
        let nonce = format!("DPoP-Nonce: {}\r\nContent-Type", counted.seen().len());
        refusal("400 Bad Request", &json!({"error": "use_dpop_nonce"})).replacen("Content-Type", &nonce, 1)
    });
    assert!(matches!(refused(&world.client(login())).await, OAuthError::Refused { .. }));
    assert_eq!(world.issuer.seen_at("/token").len(), 2);
}
