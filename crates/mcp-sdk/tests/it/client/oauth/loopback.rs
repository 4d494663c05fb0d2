//! Logins with a redirect to a port of this machine.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::json;
use thruway_client::Client;
use thruway_mcp_sdk::McpClientError;
use thruway_mcp_sdk::oauth::{LoopbackRedirect, OAuth, OAuthError, UserAgent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::world::{METADATA, World, call, document, redirect, refusal};

#[tokio::test]
async fn loopback_redirect_completes_login() {
    let world = World::new().await;
    let (opened, urls) = mpsc::channel();
    let client =
        world.client(OAuth::login(LoopbackRedirect::new(move |url| opened.send(url.to_owned()).unwrap())));
    let browser = tokio::task::spawn_blocking(move || urls.recv().unwrap());
    let called = tokio::spawn(async move { call(&client).await });
    let url = browser.await.unwrap();
    let redirected = Client::new().get(&url).send().await.unwrap();
    let back = redirected.field("location").unwrap().as_str().unwrap().to_owned();
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    let page = Client::new().get(&back).send().await.unwrap();
    assert_eq!(page.status().as_u16(), 200);
    called.await.unwrap().unwrap();
    let registered = &world.issuer.seen_at("/register")[0].json()["redirect_uris"];
    assert_eq!(registered, &json!([back.split('?').next().unwrap()]));
}

#[tokio::test]
async fn loopback_port_rejects_unrelated_requests() {
    let redirect = LoopbackRedirect::new(|_| {});
    let uri = redirect.redirect_uri().unwrap();
    assert_eq!(redirect.redirect_uri().unwrap(), uri, "the port does not change");
    let address = uri["http://".len()..].split('/').next().unwrap().to_owned();
    let waiting = tokio::spawn(async move { redirect.log_in("https://as.example/?state=right").await });
    // Some connections send nothing, or too much.
    let silent = TcpStream::connect(&address).await.unwrap();
    let mut endless = TcpStream::connect(&address).await.unwrap();
    let _ = endless.write_all(&vec![b'x'; 40 << 10]).await;
    for wrong in ["/favicon.ico", "/callback", "/callback?state=wrong&code=evil", "/callbackx?state=right"] {
        let answer = Client::new().get(&format!("http://{address}{wrong}")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 404, "{wrong}");
    }
    let mut post = TcpStream::connect(&address).await.unwrap();
    post.write_all(b"POST /callback?state=right HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    post.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(!waiting.is_finished());
    let right = format!("{uri}?state=right&code=c");
    assert_eq!(Client::new().get(&right).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(waiting.await.unwrap().unwrap(), "/callback?state=right&code=c");
    drop(silent);
}

/// Regression test: 16 idle connections delayed the connection of the browser until they timed out after 10
/// s. A program that kept opening connections blocked the login.
#[tokio::test]
async fn idle_connections_do_not_delay_a_login() {
    let redirect = LoopbackRedirect::new(|_| {});
    let uri = redirect.redirect_uri().unwrap();
    let address = uri["http://".len()..].split('/').next().unwrap().to_owned();
    let waiting = tokio::spawn(async move { redirect.log_in("https://as.example/?state=right").await });
    let flood = async {
        let mut idle = Vec::new();
        for _ in 0..200 {
            idle.push(TcpStream::connect(&address).await.unwrap());
        }
        let right = format!("{uri}?state=right&code=c");
        assert_eq!(Client::new().get(&right).send().await.unwrap().status().as_u16(), 200);
        // The oldest connections were closed to free capacity.
        assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
    };
    tokio::time::timeout(Duration::from_mins(1), flood).await.expect("the login should not wait");
    assert_eq!(waiting.await.unwrap().unwrap(), "/callback?state=right&code=c");
}

/// Regression test: logins shared the port, and each answered 404 to redirects of other logins that it
/// accepted.
#[tokio::test]
async fn concurrent_logins_share_the_port() {
    let redirect = Arc::new(LoopbackRedirect::new(|_| {}));
    let uri = redirect.redirect_uri().unwrap();
    let mut logins = Vec::new();
    for number in 0..8 {
        let redirect = redirect.clone();
        let url = format!("https://as.example/?state={number}");
        logins.push(tokio::spawn(async move { redirect.log_in(&url).await }));
        tokio::task::yield_now().await;
    }
    for (number, login) in logins.into_iter().enumerate().rev() {
        let back = format!("{uri}?state={number}&code=c");
        assert_eq!(Client::new().get(&back).send().await.unwrap().status().as_u16(), 200, "{number}");
        assert_eq!(login.await.unwrap().unwrap(), format!("/callback?state={number}&code=c"));
        // An answer counts once.
        if number > 0 {
            assert_eq!(Client::new().get(&back).send().await.unwrap().status().as_u16(), 404, "{number}");
        }
    }
}

/// Logs in with a browser that follows redirects to the port. Returns the error of the call, and the redirect
/// URIs that the client tried to register.
async fn log_in(world: &World) -> (Option<OAuthError>, Vec<String>) {
    let (opened, urls) = mpsc::channel();
    let client =
        world.client(OAuth::login(LoopbackRedirect::new(move |url| opened.send(url.to_owned()).unwrap())));
    let browser = tokio::task::spawn_blocking(move || urls.recv().unwrap());
    let called = tokio::spawn(async move { call(&client).await });
    let redirected = Client::new().get(&browser.await.unwrap()).send().await.unwrap();
    let back = redirected.field("location").unwrap().as_str().unwrap().to_owned();
    assert_eq!(Client::new().get(&back).send().await.unwrap().status().as_u16(), 200, "{back}");
    let error = match called.await.unwrap() {
        Ok(()) => None,
        Err(McpClientError::Authorization(error)) => Some(error),
        Err(error) => panic!("the call should succeed, or fail to be authorized: {error}"),
    };
    let registered = world.issuer.seen_at("/register");
    let uri = |seen: &super::world::Seen| seen.json()["redirect_uris"][0].as_str().unwrap().to_owned();
    (error, registered.iter().map(uri).collect())
}

/// Returns a world with an authorization server that does not identify itself in its answers.
async fn silent_world() -> World {
    let world = World::new().await;
    let mut metadata = World::metadata(&world.issuer);
    metadata["authorization_response_iss_parameter_supported"] = json!(false);
    world.issuer.on(METADATA, move |_| document(&metadata));
    world.issuer.on("/authorize", |seen| {
        let (back, state) = (seen.parameter("redirect_uri").unwrap(), seen.parameter("state").unwrap());
        redirect(&format!("{back}?code=code&state={state}"))
    });
    world
}

/// Regression test: all issuers had the same redirect URI. If issuers do not identify themselves, the client
/// could not distinguish their answers, and sent the code of one issuer to another.
#[tokio::test]
async fn issuer_without_iss_parameter_gets_its_own_redirect_uri() {
    let mut paths = Vec::new();
    for world in [silent_world().await, silent_world().await] {
        let (error, registered) = log_in(&world).await;
        let [uri] = &registered[..] else { panic!("one registration: {registered:?}") };
        assert_eq!(error, None);
        assert_eq!(world.issuer.seen_at("/authorize")[0].parameter("redirect_uri").as_ref(), Some(uri));
        paths.push(uri["http://".len()..].split_once('/').unwrap().1.to_owned());
    }
    assert!(paths[0].starts_with("callback/") && paths[0] != paths[1], "{paths:?}");
}

#[tokio::test]
async fn code_at_redirect_uri_of_another_issuer_is_not_used() {
    let world = silent_world().await;
    // This issuer redirects the browser to another issuer, which knows the client by another redirect URI.
    world.issuer.on("/authorize", |seen| {
        let (back, state) = (seen.parameter("redirect_uri").unwrap(), seen.parameter("state").unwrap());
        let (back, _) = back.rsplit_once('/').unwrap();
        redirect(&format!("{back}/0123456789abcdef?code=code&state={state}"))
    });
    assert_eq!(log_in(&world).await.0, Some(OAuthError::RedirectIssuerMismatch));
    assert_eq!(world.issuer.seen_at("/token").len(), 0);
}

#[tokio::test]
async fn client_retries_registration_with_default_redirect_uri() {
    let world = silent_world().await;
    world.issuer.on("/register", |seen| {
        if seen.json()["redirect_uris"][0].as_str().unwrap().ends_with("/callback") {
            refusal("201 Created", &json!({"client_id": "registered"}))
        } else {
            refusal("400 Bad Request", &json!({"error": "invalid_redirect_uri"}))
        }
    });
    let (error, registered) = log_in(&world).await;
    assert_eq!((error, registered.len()), (None, 2));
    let token_request = &world.issuer.seen_at("/token")[0];
    assert_eq!(token_request.parameter("redirect_uri").as_ref(), Some(&registered[1]));
}
