//! Clients without a person: with their own credentials, or with assertions of third parties.

use std::io;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use thruway_mcp_sdk::oauth::{IdentityProvider, OAuth, OAuthError, PrivateKey, RegisteredClient};

use super::tokens::{TextStore, refreshing};
use super::world::{METADATA, RESOURCE_METADATA, World, call, document, login, refused, token};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Returns a new key in PEM.
fn key() -> String {
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(&der))
}

fn supports(world: &World, method: &'static str, grant: &'static str) {
    let mut metadata = World::metadata(&world.issuer);
    metadata["token_endpoint_auth_methods_supported"] = json!([method]);
    metadata["grant_types_supported"] = json!([grant]);
    world.issuer.on(METADATA, move |_| document(&metadata));
}

/// Returns a client with a secret that the issuer of `world` gave it.
fn with_secret(world: &World) -> RegisteredClient {
    RegisteredClient::with_secret("id", "secret").of_issuer(&world.issuer.url)
}

#[tokio::test]
async fn client_sends_secret_by_supported_auth_method() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let world = World::new().await;
        supports(&world, method, "client_credentials");
        let oauth = OAuth::client_credentials(with_secret(&world)).scopes(["a"]);
        call(&world.client(oauth)).await.unwrap();
        let seen = &world.issuer.seen_at("/token")[0];
        assert_eq!(seen.parameter("grant_type").as_deref(), Some("client_credentials"));
        assert_eq!(
            (seen.parameter("scope").as_deref(), seen.parameter("resource")),
            (Some("a"), Some(world.url()))
        );
        let (header, parameter) = (seen.field("authorization"), seen.parameter("client_secret"));
        let is_basic = method == "client_secret_basic";
        // printf id:secret | base64
        assert_eq!(header, is_basic.then_some("Basic aWQ6c2VjcmV0"), "{method}");
        assert_eq!(parameter.is_some(), !is_basic, "{method}");
    }
}

#[tokio::test]
async fn client_with_private_key_sends_signed_assertion() {
    let world = World::new().await;
    supports(&world, "private_key_jwt", "client_credentials");
    let key = PrivateKey::from_pem("ES256", &key()).unwrap().key_id("one");
    call(&world.client(OAuth::client_credentials(RegisteredClient::with_private_key("id", key))))
        .await
        .unwrap();
    let assertion = world.issuer.seen_at("/token")[0].parameter("client_assertion").unwrap();
    let claims = super::tokens::claims(&assertion);
    assert_eq!((claims["iss"].as_str(), claims["sub"].as_str()), (Some("id"), Some("id")));
    assert_eq!(claims["aud"], world.issuer.url);
    assert!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap() <= 300);
}

#[tokio::test]
async fn workload_client_sends_assertion_of_its_platform() {
    let world = World::new().await;
    supports(&world, "none", JWT_BEARER);
    let oauth =
        OAuth::workload(RegisteredClient::public("id"), |issuer| async move { Ok(format!("for {issuer}")) });
    call(&world.client(oauth)).await.unwrap();
    let seen = &world.issuer.seen_at("/token")[0];
    assert_eq!(seen.parameter("grant_type").as_deref(), Some(JWT_BEARER));
    assert_eq!(seen.parameter("assertion"), Some(format!("for {}", world.issuer.url)));
    let oauth = OAuth::workload(RegisteredClient::public("id"), |_| async {
        Err::<String, _>(io::ErrorKind::NotFound.into())
    });
    let expected = OAuthError::AssertionUnavailable(io::ErrorKind::NotFound);
    assert_eq!(refused(&world.client(oauth)).await, expected);
}

#[tokio::test]
async fn unsupported_grant_type_is_not_requested() {
    let world = World::new().await;
    supports(&world, "client_secret_basic", "authorization_code");
    let oauth = OAuth::client_credentials(with_secret(&world));
    assert_eq!(refused(&world.client(oauth)).await, OAuthError::GrantNotSupported("client_credentials"));
    assert_eq!(world.issuer.seen_at("/token").len(), 0);
}

fn enterprise(world: &World) -> OAuth {
    let provider = IdentityProvider::new(
        format!("{}/token", world.other.url),
        RegisteredClient::public("at the provider"),
        || async { Ok("id token".to_owned()) },
    );
    OAuth::enterprise(with_secret(world), provider)
}

#[tokio::test]
async fn identity_provider_grant_is_exchanged_for_token() {
    let world = World::new().await;
    supports(&world, "client_secret_basic", JWT_BEARER);
    world.other.on("/token", |_| {
        document(&json!({"access_token": "the grant", "issued_token_type": ID_JAG, "token_type": "N_A"}))
    });
    call(&world.client(enterprise(&world))).await.unwrap();
    let exchange = &world.other.seen_at("/token")[0];
    for (name, value) in [
        ("audience", world.issuer.url.as_str()),
        ("resource", &world.url()),
        ("subject_token", "id token"),
        ("requested_token_type", ID_JAG),
        ("client_id", "at the provider"),
    ] {
        assert_eq!(exchange.parameter(name).as_deref(), Some(value), "{name}");
    }
    assert!(!format!("{exchange:?}").contains("secret"));
    let grant = &world.issuer.seen_at("/token")[0];
    assert_eq!(grant.parameter("assertion").as_deref(), Some("the grant"));
    assert_eq!(grant.field("authorization"), Some("Basic aWQ6c2VjcmV0"));
}

#[tokio::test]
async fn identity_provider_token_of_wrong_type_is_rejected() {
    let world = World::new().await;
    supports(&world, "client_secret_basic", JWT_BEARER);
    world.other.on("/token", |_| document(&token("access token")));
    assert_eq!(refused(&world.client(enterprise(&world))).await, OAuthError::TokenInvalid);
    assert_eq!(world.issuer.seen_at("/token").len(), 0);
}

#[tokio::test]
async fn client_secret_is_sent_only_to_its_issuer() {
    let world = World::new().await;
    supports(&world, "client_secret_post", "client_credentials");
    let elsewhere = RegisteredClient::with_secret("id", "secret").of_issuer("https://known.example");
    let elsewhere = OAuth::client_credentials(elsewhere);
    assert_eq!(
        refused(&world.client(elsewhere)).await,
        OAuthError::IssuerForeign(world.issuer.url.as_str().into())
    );
    assert_eq!(world.issuer.seen().len(), 0);
}

/// Regression test: the secret was sent to the first issuer that the server named. An untrusted server could
/// name its own issuer.
#[tokio::test]
async fn client_secret_without_issuer_is_not_sent() {
    let world = World::new().await;
    supports(&world, "client_secret_post", "client_credentials");
    let client = || RegisteredClient::with_secret("id", "secret");
    let provider = IdentityProvider::new(
        format!("{}/token", world.other.url),
        RegisteredClient::public("at the provider"),
        || async { Ok("id token".to_owned()) },
    );
    for oauth in [
        OAuth::client_credentials(client()),
        OAuth::workload(client(), |_| async { Ok("assertion".to_owned()) }),
        OAuth::enterprise(client(), provider),
        login().client(client()),
    ] {
        let expected = OAuthError::IssuerRequired(world.issuer.url.as_str().into());
        assert_eq!(refused(&world.client(oauth)).await, expected);
    }
    assert_eq!((world.issuer.seen().len(), world.other.seen().len()), (0, 0));
}

/// Regression test: a token that was stored before the client had a secret names an issuer. The renewal of
/// that token sent the secret to that issuer.
#[tokio::test]
async fn stored_token_does_not_choose_issuer_of_client_secret() {
    let (world, store) = (World::new().await, TextStore::default());
    refreshing(&world, 5);
    call(&world.client(login().client(RegisteredClient::public("id")).store(store.clone()))).await.unwrap();
    let before = world.issuer.seen().len();
    let oauth = login().client(RegisteredClient::with_secret("id", "secret")).store(store);
    let expected = OAuthError::IssuerRequired(world.issuer.url.as_str().into());
    assert_eq!(refused(&world.client(oauth)).await, expected);
    assert_eq!(world.issuer.seen().len(), before);
}

#[tokio::test]
async fn registered_client_stays_with_first_issuer() {
    let world = World::new().await;
    let client = world.client(login().client(RegisteredClient::public("id")));
    call(&client).await.unwrap();
    let mut resource = world.resource();
    resource["authorization_servers"] = json!([world.other.url]);
    world.server.on(RESOURCE_METADATA, move |_| document(&resource));
    world.server.on("/mcp", |_| super::world::unauthorized("Bearer"));
    assert_eq!(refused(&client).await, OAuthError::IssuerForeign(world.other.url.as_str().into()));
    assert_eq!(world.other.seen().len(), 0);
}
