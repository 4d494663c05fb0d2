//! Large request bodies for handlers that read them from pipes.

use std::future::poll_fn;
use std::io::Write;
use std::task::{Poll, ready};
use std::thread;

use thruway_server::{Config, ContentError, OwnedRequest, RequestContent, RequestPiece, Router};

use crate::site::{GET, Site, rest};

/// Returns bytes in which each group of four is unique. So a test detects misplaced bytes.
fn numbered(length: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(length).collect()
}

/// Reads the whole body and returns it with the number of pipes. If `takes_pipes` is `false`, it accepts a
/// pipe only in the first poll for each piece.
async fn collect(content: &mut RequestContent, takes_pipes: bool) -> Result<(Vec<u8>, usize), ContentError> {
    let (mut bytes, mut pipes) = (Vec::new(), 0);
    loop {
        let mut is_first = true;
        let piece = poll_fn(|cx| {
            let is_piped = takes_pipes || std::mem::take(&mut is_first);
            Poll::Ready(ready!(content.poll_next_piece(cx, is_piped)))
        });
        match piece.await.transpose()? {
            None => return Ok((bytes, pipes)),
            Some(RequestPiece::Data(data)) => bytes.extend_from_slice(&data),
            Some(RequestPiece::Piped(mut pipe)) => {
                pipes += 1;
                while !pipe.is_empty() {
                    bytes.extend_from_slice(&pipe.take_bytes().unwrap());
                }
            }
        }
    }
}

async fn check(mut request: OwnedRequest, takes_pipes: bool) -> String {
    match collect(request.content(), takes_pipes).await {
        Ok((bytes, pipes)) => {
            let is_right = bytes == numbered(bytes.len());
            format!("{} {is_right} {}\n", bytes.len(), pipes > 0)
        }
        Err(error) => format!("{error}\n"),
    }
}

fn site() -> Site {
    let app = Router::new()
        .get("/", || "next")
        .post("/pipes", |request| check(request, true))
        .post("/bytes", |request| check(request, false));
    Site::start(app, Config::default())
}

fn post(path: &str, length: usize, lines: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{lines}\r\n").into_bytes()
}

#[test]
fn body_arrives_complete_with_and_without_pipes() {
    let site = site();
    for (path, length, in_pipes) in
        [("/pipes", 5_000_001, true), ("/pipes", 30_000, false), ("/bytes", 5_000_001, false)]
    {
        let mut client = site.connect();
        let mut writer = client.try_clone().unwrap();
        let sending = thread::spawn(move || {
            writer.write_all(&post(path, length, "")).unwrap();
            writer.write_all(&numbered(length)).unwrap();
            writer.write_all(GET).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let answers = rest(&mut client);
        sending.join().unwrap();
        if in_pipes {
            assert!(answers.contains(&format!("\r\n\r\n{length} true true\n")), "{answers}");
        } else {
            assert!(answers.contains(&format!("\r\n\r\n{length} true ")), "{answers}");
        }
        assert!(answers.ends_with("\r\n\r\nnext"), "the next bytes are a request: {answers}");
    }
}

#[test]
fn truncated_body_in_pipes_is_an_error() {
    let site = site();
    let mut client = site.connect();
    client.write_all(&post("/pipes", 5_000_000, "Connection: close\r\n")).unwrap();
    client.write_all(&numbered(3_000_000)).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(rest(&mut client).ends_with("the connection ended before the end of the body\n"));
}
