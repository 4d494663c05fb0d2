//! Shared tokens: by clients of one process, or by processes with one store.

use std::sync::{Arc, Mutex};

use serde_json::json;
use thruway_mcp_sdk::oauth::{StoredToken, TokenStore};

use super::tokens::TextStore;
use super::world::{Seen, World, accepted, call, document, login, refusal, token, unauthorized};

/// Makes each refresh token valid for one renewal. Access tokens expire after `expires_in` seconds, or at the
/// next renewal.
fn rotating(world: &World, expires_in: u64) {
    let last = Arc::new(Mutex::new(0));
    let issued = last.clone();
    world.issuer.on("/token", move |seen| {
        let mut last = issued.lock().unwrap();
        let given = seen.parameter("refresh_token");
        if given.is_some_and(|given| given != format!("refresh-{last}")) {
            return refusal("400 Bad Request", &json!({"error": "invalid_grant"}));
        }
        *last += 1;
        let mut token = token(&format!("token-{last}"));
        token["refresh_token"] = json!(format!("refresh-{last}"));
        token["expires_in"] = json!(expires_in);
        document(&token)
    });
    world.server.on("/mcp", move |seen| match seen.token() {
        Some(token) if token == format!("token-{}", last.lock().unwrap()) => accepted(seen),
        _ => unauthorized("Bearer error=\"invalid_token\""),
    });
}

/// Returns the refresh tokens that the issuer received.
fn given(world: &World) -> Vec<String> {
    let renewals = world.issuer.seen_at("/token").into_iter();
    renewals.filter_map(|seen: Seen| seen.parameter("refresh_token")).collect()
}

/// Regression test: each client kept its first token. After one client renewed it, the others were refused,
/// and logged in again or failed.
#[tokio::test]
async fn client_uses_token_that_another_client_renewed() {
    for (expires_in, expected) in [(3600, &["refresh-1"][..]), (5, &["refresh-1", "refresh-2", "refresh-3"])]
    {
        let (world, store) = (World::new().await, TextStore::default());
        rotating(&world, expires_in);
        call(&world.client(login().store(store.clone()))).await.unwrap();
        if expires_in == 3600 {
            store.expire();
        }
        let [one, two] = [(); 2].map(|()| world.client(login().store(store.clone())));
        for client in [&one, &two, &one] {
            call(client).await.unwrap();
        }
        assert_eq!((given(&world), world.logins()), (expected.iter().map(ToString::to_string).collect(), 1));
    }
}

/// Before a login, the client checks the store for a token of another client.
#[tokio::test]
async fn client_uses_stored_login_of_another_client() {
    let (world, store) = (World::new().await, TextStore::default());
    let [one, two] = [(); 2].map(|()| world.client(login().store(store.clone())));
    call(&one).await.unwrap();
    call(&two).await.unwrap();
    assert_eq!(world.logins(), 1);
}

#[tokio::test]
async fn concurrent_renewals_use_refresh_token_once() {
    let world = World::new().await;
    rotating(&world, 3600);
    let oauth = login();
    call(&world.client(oauth.clone())).await.unwrap();
    // Each client has its own authorizer. All share the store.
    let [one, two, three] = ["1", "2", "3"].map(|name| world.client(oauth.clone().client_name(name)));
    world.server.on("/mcp", |seen| match seen.token() {
        Some("token-2") => accepted(seen),
        _ => unauthorized("Bearer error=\"invalid_token\""),
    });
    let called = tokio::join!(call(&one), call(&two), call(&three));
    assert_eq!(called, (Ok(()), Ok(()), Ok(())));
    assert_eq!((given(&world), world.logins()), (vec!["refresh-1".to_owned()], 1));
}

/// A store that can no longer save. Its content is outdated.
struct FullStore(TextStore);

impl TokenStore for FullStore {
    fn load(&self, key: &str) -> Option<StoredToken> {
        self.0.load(key)
    }

    fn save(&self, _: &str, _: &StoredToken) {}
}

#[tokio::test]
async fn unsaved_token_is_preferred_over_outdated_stored_token() {
    let (world, store) = (World::new().await, TextStore::default());
    rotating(&world, 5);
    call(&world.client(login().store(store.clone()))).await.unwrap();
    let client = world.client(login().store(FullStore(store)));
    for _ in 0..3 {
        call(&client).await.unwrap();
    }
    assert_eq!(
        (given(&world), world.logins()),
        (["refresh-1", "refresh-2", "refresh-3"].map(str::to_owned).to_vec(), 1)
    );
}
