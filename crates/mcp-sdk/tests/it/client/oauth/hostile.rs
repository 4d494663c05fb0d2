//! Untrustworthy servers: each login ends with an error that names the reason, and no secret reaches the
//! wrong server.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_client::ClientError;
use thruway_mcp_sdk::McpClientError;
use thruway_mcp_sdk::oauth::OAuthError;

use super::world::{
    METADATA, RESOURCE_METADATA, World, accepted, call, document, insufficient, login, redirect, refusal,
    refused, status, unauthorized,
};

async fn with_resource(change: impl Fn(&World, &mut Value)) -> (World, OAuthError) {
    let world = World::new().await;
    let mut resource = world.resource();
    change(&world, &mut resource);
    world.server.on(RESOURCE_METADATA, move |_| document(&resource));
    let error = refused(&world.client(login())).await;
    (world, error)
}

async fn with_metadata(change: impl Fn(&World, &mut Value)) -> (World, OAuthError) {
    let world = World::new().await;
    let mut metadata = World::metadata(&world.issuer);
    change(&world, &mut metadata);
    world.issuer.on(METADATA, move |_| document(&metadata));
    let error = refused(&world.client(login())).await;
    (world, error)
}

#[tokio::test]
async fn resource_metadata_for_another_url_stops_login() {
    for resource in ["https://honest.example/mcp", "http://127.0.0.1:1/mcp", "nonsense", ""] {
        let (world, error) = with_resource(|_, document| document["resource"] = json!(resource)).await;
        assert_eq!(error, OAuthError::ResourceMismatch(resource.into()));
        assert_eq!(world.issuer.seen().len(), 0, "{resource}");
    }
    let (world, error) = with_resource(|world, document| {
        document["resource"] = json!(format!("{}/mcp/other", world.server.url));
    })
    .await;
    assert!(matches!(error, OAuthError::ResourceMismatch(_)));
    assert_eq!(world.issuer.seen().len(), 0);
}

/// A token for the whole host would give access to other servers on it.
#[tokio::test]
async fn only_root_metadata_may_describe_whole_host() {
    let world = World::new().await;
    let all = json!({"resource": world.server.url, "authorization_servers": [world.issuer.url]});
    let own = all.clone();
    world.server.on("/mcp/metadata", move |_| document(&own));
    let challenge = format!("Bearer resource_metadata=\"{}/metadata\"", world.url());
    world.server.on("/mcp", move |_| unauthorized(&challenge));
    assert_eq!(
        refused(&world.client(login())).await,
        OAuthError::ResourceMismatch(world.server.url.as_str().into())
    );
    assert_eq!(world.issuer.seen().len(), 0);
    // The well-known URL of the server must not describe the whole host. That was once accepted, because the
    // URL starts like the host's.
    let below = all.clone();
    world.server.on(RESOURCE_METADATA, move |_| document(&below));
    world.server.on("/mcp", |_| unauthorized("Bearer"));
    assert_eq!(
        refused(&world.client(login())).await,
        OAuthError::ResourceMismatch(world.server.url.as_str().into())
    );
    assert_eq!(world.issuer.seen().len(), 0);
    // The owner of the root may describe the host.
    world.server.on(RESOURCE_METADATA, |_| status("404 Not Found", ""));
    world.server.on("/.well-known/oauth-protected-resource", move |_| document(&all));
    world.server.on("/mcp", |seen| match seen.token() {
        Some(_) => accepted(seen),
        None => unauthorized("Bearer"),
    });
    call(&world.client(login())).await.unwrap();
    assert_eq!(world.issuer.seen_at("/token")[0].parameter("resource"), Some(world.server.url.clone()));
}

#[tokio::test]
async fn resource_metadata_without_authorization_server_stops_login() {
    let (_, error) = with_resource(|_, document| document["authorization_servers"] = json!([])).await;
    assert_eq!(error, OAuthError::ServerUnknown);
    let (_, error) = with_resource(|_, document| document["authorization_servers"] = json!("nobody")).await;
    assert!(matches!(error, OAuthError::DocumentInvalid(_)));
}

#[tokio::test]
async fn insecure_or_invalid_urls_stop_login() {
    for url in ["http://issuer.example", "http://10.0.0.1/"] {
        let (_, error) = with_resource(|_, document| document["authorization_servers"] = json!([url])).await;
        assert_eq!(error, OAuthError::InsecureUrl(url.into()));
    }
    for url in ["file:///etc/passwd", "javascript:alert(1)", "https://user@issuer.example/"] {
        let (world, error) =
            with_metadata(|_, document| document["authorization_endpoint"] = json!(url)).await;
        assert_eq!((error, world.logins()), (OAuthError::DocumentInvalid(url.into()), 0));
    }
    let (world, error) =
        with_metadata(|_, document| document["token_endpoint"] = json!("http://issuer.example/token")).await;
    assert_eq!(error, OAuthError::InsecureUrl("http://issuer.example/token".into()));
    assert_eq!(world.issuer.seen_at("/token").len(), 0);
    // A server without a private connection gets no token.
    let world = World::new().await;
    let client = thruway_mcp_sdk::McpClient::builder()
        .http_client(thruway_client::Client::with_config(thruway_client::ClientConfig {
            connect_to: Some(world.server.url["http://".len()..].parse().unwrap()),
            ..thruway_client::ClientConfig::default()
        }))
        .oauth(login())
        .http("http://mcp.example/mcp");
    assert_eq!(refused(&client).await, OAuthError::InsecureUrl("http://mcp.example/mcp".into()));
    assert_eq!(world.issuer.seen().len(), 0);
}

#[tokio::test]
async fn metadata_with_wrong_issuer_is_rejected() {
    for issuer in ["https://honest.example", "", "TRAILING/"] {
        let (world, error) = with_metadata(|world, document| {
            document["issuer"] = json!(issuer.replace("TRAILING", &world.issuer.url));
            document["token_endpoint"] = json!(format!("{}/token", world.other.url));
        })
        .await;
        assert!(matches!(error, OAuthError::IssuerMismatch(_)), "{issuer}: {error}");
        assert_eq!(world.issuer.seen().len(), 1, "{issuer}");
        assert_eq!(world.other.seen().len(), 0, "{issuer}");
    }
}

#[tokio::test]
async fn authorization_server_without_pkce_is_rejected() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let (world, error) =
            with_metadata(|_, document| document["code_challenge_methods_supported"] = methods.clone()).await;
        assert_eq!((error, world.logins()), (OAuthError::PkceNotSupported, 0));
    }
}

#[tokio::test]
async fn redirect_with_wrong_state_or_issuer_is_rejected() {
    for (parameters, expected) in [
        ("code=c&state=STATE&iss=https://evil.example", OAuthError::RedirectIssuerMismatch),
        ("code=c&state=STATE", OAuthError::RedirectIssuerMismatch),
        ("code=c&state=guessed", OAuthError::RedirectStateMismatch),
        ("error=evil&state=guessed", OAuthError::RedirectStateMismatch),
    ] {
        let world = World::new().await;
        world.issuer.on("/authorize", move |seen| {
            let state = seen.parameter("state").unwrap();
            redirect(&format!("http://127.0.0.1:1/callback?{}", parameters.replace("STATE", &state)))
        });
        assert_eq!(refused(&world.client(login())).await, expected, "{parameters}");
        assert_eq!(world.issuer.seen_at("/token").len(), 0, "{parameters}");
    }
}

#[tokio::test]
async fn server_that_rejects_every_token_causes_one_login() {
    let world = World::new().await;
    world.server.on("/mcp", |_| unauthorized("Bearer error=\"invalid_token\""));
    let client = world.client(login());
    for _ in 0..3 {
        assert_eq!(refused(&client).await, OAuthError::TokenRejected);
    }
    assert_eq!(world.logins(), 1);
}

#[tokio::test]
async fn server_that_stops_accepting_tokens_causes_one_more_login() {
    let world = World::new().await;
    let client = world.client(login());
    call(&client).await.unwrap();
    world.server.on("/mcp", |_| unauthorized("Bearer error=\"invalid_token\""));
    for _ in 0..3 {
        assert_eq!(refused(&client).await, OAuthError::TokenRejected);
    }
    assert_eq!(world.logins(), 2);
}

#[tokio::test]
async fn endless_requests_for_same_scope_cause_one_login() {
    let world = World::new().await;
    world.server.on("/mcp", |seen| match seen.token() {
        None => unauthorized("Bearer scope=\"admin\""),
        Some(_) => insufficient("admin"),
    });
    assert_eq!(refused(&world.client(login())).await, OAuthError::ScopeInsufficient);
    assert_eq!(world.logins(), 1);
}

#[tokio::test]
async fn endless_requests_for_new_scopes_cause_three_logins() {
    let world = World::new().await;
    let counted = world.server.clone();
    world.server.on("/mcp", move |seen| match seen.token() {
        None => unauthorized("Bearer"),
        Some(_) => insufficient(&format!("scope-{}", counted.seen().len())),
    });
    assert_eq!(refused(&world.client(login())).await, OAuthError::ScopeInsufficient);
    assert_eq!(world.logins(), 3);
}

#[tokio::test]
async fn plain_403_does_not_start_login() {
    let world = World::new().await;
    world.server.on("/mcp", |_| status("403 Forbidden", ""));
    let error = call(&world.client(login())).await.unwrap_err();
    assert!(matches!(error, McpClientError::Status(status) if status.as_u16() == 403));
    assert_eq!((world.logins(), world.issuer.seen().len()), (0, 0));
}

#[tokio::test]
async fn metadata_redirect_to_other_origin_is_not_followed() {
    let world = World::new().await;
    let elsewhere = format!("{}/document", world.other.url);
    world.issuer.on(METADATA, move |_| redirect(&elsewhere));
    assert!(matches!(refused(&world.client(login())).await, OAuthError::Status(..)));
    let elsewhere = format!("{}/document", world.other.url);
    world.server.on(RESOURCE_METADATA, move |_| redirect(&elsewhere));
    assert!(matches!(refused(&world.client(login())).await, OAuthError::Status(..)));
    assert_eq!(world.other.seen().len(), 0);
}

#[tokio::test]
async fn metadata_redirect_on_same_origin_is_followed_without_loops() {
    let world = World::new().await;
    let resource = world.resource();
    world.server.on(RESOURCE_METADATA, |_| redirect("/elsewhere"));
    world.server.on("/elsewhere", move |_| document(&resource));
    call(&world.client(login())).await.unwrap();
    world.server.on("/elsewhere", |_| redirect("/elsewhere"));
    assert!(matches!(refused(&world.client(login())).await, OAuthError::DocumentInvalid(_)));
    assert!(world.server.seen_at("/elsewhere").len() < 6);
}

#[tokio::test]
async fn redirected_requests_with_secrets_are_not_repeated() {
    for path in ["/token", "/register"] {
        let world = World::new().await;
        let elsewhere = format!("{}{path}", world.other.url);
        world
            .issuer
            .on(path, move |_| status("307 Temporary Redirect", &format!("Location: {elsewhere}\r\n")));
        assert!(matches!(refused(&world.client(login())).await, OAuthError::Status(..)), "{path}");
        assert_eq!(world.other.seen().len(), 0, "{path}");
    }
    let world = World::new().await;
    let client = world.client(login());
    call(&client).await.unwrap();
    let elsewhere = format!("{}/mcp", world.other.url);
    world.server.on("/mcp", move |_| status("307 Temporary Redirect", &format!("Location: {elsewhere}\r\n")));
    assert!(matches!(call(&client).await, Err(McpClientError::Status(status)) if status.as_u16() == 307));
    assert_eq!(world.other.seen().len(), 0);
}

#[tokio::test]
async fn oversized_oauth_documents_are_rejected() {
    for (path, is_of_server) in
        [(RESOURCE_METADATA, true), (METADATA, false), ("/register", false), ("/token", false)]
    {
        let world = World::new().await;
        let stage = if is_of_server { &world.server } else { &world.issuer };
        stage.on(path, |_| document(&json!({"x": "x".repeat(1 << 20)})));
        let error = refused(&world.client(login())).await;
        assert!(matches!(error, OAuthError::Unreachable(_, ClientError::ContentTooLarge)), "{path}: {error}");
    }
}

#[tokio::test]
async fn deeply_nested_metadata_is_rejected() {
    let world = World::new().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    world.issuer.on(METADATA, move |_| {
        let length = deep.len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{deep}")
    });
    assert!(matches!(refused(&world.client(login())).await, OAuthError::DocumentInvalid(_)));
}

#[tokio::test]
async fn silent_authorization_server_ends_with_call_timeout() {
    for path in [METADATA, "/register", "/token"] {
        let world = World::new().await;
        world.issuer.on(path, |_| String::new());
        let client = world.patient_client(login(), Duration::from_millis(300));
        assert_eq!(call(&client).await, Err(McpClientError::TimedOut), "{path}");
    }
}

#[tokio::test]
async fn invalid_token_response_is_rejected() {
    for invalid in [
        json!({}),
        json!([]),
        json!({"access_token": "token-1"}),
        json!({"access_token": "token-1", "token_type": "mac"}),
        json!({"access_token": "token-1", "token_type": "DPoP"}),
        json!({"access_token": "", "token_type": "Bearer"}),
        json!({"access_token": "token-1\r\nEvil: yes", "token_type": "Bearer"}),
        json!({"access_token": 7, "token_type": "Bearer"}),
    ] {
        let world = World::new().await;
        let answer = invalid.clone();
        world.issuer.on("/token", move |_| document(&answer));
        assert_eq!(refused(&world.client(login())).await, OAuthError::TokenInvalid, "{invalid}");
        assert!(world.server.seen().iter().all(|seen| seen.token().is_none()), "{invalid}");
    }
}

#[tokio::test]
async fn error_description_is_shortened_and_escaped() {
    let world = World::new().await;
    let long = format!("\u{1b}[2J{}", "x".repeat(10_000));
    world.issuer.on("/token", move |_| {
        refusal("400 Bad Request", &json!({"error": "invalid_grant", "error_description": long}))
    });
    let message = refused(&world.client(login())).await.to_string();
    assert!(message.len() < 500 && !message.contains('\u{1b}'), "{message}");
}

#[tokio::test]
async fn invalid_challenge_falls_back_to_well_known_metadata() {
    for challenge in ["", "Bearer realm=\"", "Basic realm=x", "Bearer resource_metadata", "\u{fffd}, =, \"\""]
    {
        let world = World::new().await;
        world.server.on("/mcp", move |seen| match seen.token() {
            Some(_) => accepted(seen),
            None => unauthorized(challenge),
        });
        call(&world.client(login())).await.unwrap();
        assert_eq!(world.server.seen()[1].path, RESOURCE_METADATA, "{challenge}");
    }
}

#[tokio::test]
async fn metadata_of_another_server_in_challenge_is_rejected() {
    let world = World::new().await;
    // Metadata of another server do not apply to this one.
    let theirs = json!({"resource": world.other.url, "authorization_servers": [world.other.url]});
    world.other.on("/theirs", move |_| document(&theirs));
    let challenge = format!("Bearer resource_metadata=\"{}/theirs\"", world.other.url);
    world.server.on("/mcp", move |_| unauthorized(&challenge));
    assert!(matches!(refused(&world.client(login())).await, OAuthError::ResourceMismatch(_)));
    assert_eq!(world.other.seen().len(), 1);
}
