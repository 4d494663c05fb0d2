//! People who come back to a port of this machine.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::json;
use thruway_client::Client;
use thruway_mcp_sdk::oauth::{LoopbackRedirect, OAuth, UserAgent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::world::{World, call};

#[tokio::test]
async fn a_browser_comes_back_to_the_terminal() {
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
async fn others_who_come_to_the_port_are_no_answer() {
    let redirect = LoopbackRedirect::new(|_| {});
    let uri = redirect.redirect_uri().unwrap();
    assert_eq!(redirect.redirect_uri().unwrap(), uri, "it stays where it is");
    let address = uri["http://".len()..].split('/').next().unwrap().to_owned();
    let waiting = tokio::spawn(async move { redirect.log_in("https://as.example/?state=right").await });
    // Some come and say nothing, or too much.
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

/// 16 connections that sent nothing kept the browser's connection waiting until they timed out, 10 s later. A
/// program that opened new ones all the time blocked the login.
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
        // The oldest connections were closed to make place.
        assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
    };
    tokio::time::timeout(Duration::from_secs(60), flood).await.expect("the login should not wait");
    assert_eq!(waiting.await.unwrap().unwrap(), "/callback?state=right&code=c");
}

/// Logins shared the port, and each answered 404 to the redirects of the others that it happened to accept.
#[tokio::test]
async fn logins_at_the_same_time_share_the_port() {
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
