//! Tests of request bodies that are so large that they bypass the gateway's own memory.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use thruway_gateway::{ClientAttributes, Guarded, Policy, PolicyConfig};
use thruway_server::{IntoHandler, StatusCode};

use super::{Client, Recorder, Script};
use crate::gateway::{Gateway, only};

/// Lengths around several limits: a body that arrives with the head, one read, splicing, the capacity of a
/// pipe.
const SIZES: [usize; 8] =
    [30_000, 64 << 10, (64 << 10) + 1, 128 << 10, 200_000, 512 << 10, (512 << 10) + 1, 5_000_001];

/// Bytes that reveal any reordering or loss.
fn numbered(length: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(length).collect()
}

fn head(length: usize) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

/// Sends `bytes` in pieces of at most `pieces` bytes in a separate thread.
fn sending(client: &Client, bytes: Vec<u8>, pieces: usize) -> thread::JoinHandle<std::io::Result<()>> {
    let mut writer: TcpStream = client.socket().try_clone().unwrap();
    thread::spawn(move || bytes.chunks(pieces).try_for_each(|piece| writer.write_all(piece)))
}

#[test]
fn large_request_bodies_arrive_unchanged() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    for pieces in [usize::MAX, 20_000, 999] {
        let mut client = Client::new(gateway.address);
        for length in SIZES {
            let mut request = [head(length).into_bytes(), numbered(length)].concat();
            request.extend(b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
            let sending = sending(&client, request, pieces);
            assert_eq!((client.answer(false).status, client.answer(false).status), (200, 200));
            sending.join().unwrap().unwrap();
            let requests = recorder.take();
            assert!(requests[0].content == numbered(length), "{length} in pieces of {pieces}");
            assert_eq!((requests.len(), requests[1].target.as_str()), (2, "/next"));
        }
    }
    assert_eq!(recorder.violations(), [""; 0]);
}

#[test]
fn large_chunked_request_body_arrives_unchanged() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let mut client = Client::new(gateway.address);
    let content = numbered(1 << 20);
    let mut request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in content.chunks(100_000) {
        request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        request.extend([chunk, b"\r\n"].concat());
    }
    request.extend(b"0\r\n\r\n");
    let sending = sending(&client, request, usize::MAX);
    assert_eq!(client.answer(false).status, 200);
    sending.join().unwrap().unwrap();
    assert!(recorder.take_one().content == content);
}

#[test]
fn client_disconnect_mid_upload_leaves_request_incomplete() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(head(10_000_000));
    let sending = sending(&client, numbered(4_000_000), usize::MAX);
    let mut accepted = script.accept();
    accepted.head();
    accepted.0.read_exact(&mut vec![0; 3_000_000]).unwrap();
    sending.join().unwrap().unwrap();
    set_socket_linger(client.socket(), Some(Duration::ZERO)).unwrap();
    drop(client);
    let left = accepted.wait_for_end();
    assert!(left.len() <= 1_000_000, "{}", left.len());
}

/// A response that arrives before the whole request was read reaches a client that is still sending. The
/// gateway then closes its connection to the server.
#[test]
fn early_refusal_of_large_upload_reaches_the_client() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(head(8_000_000));
    let sending = sending(&client, numbered(8_000_000), usize::MAX);
    let mut accepted = script.accept();
    accepted.head();
    accepted.0.read_exact(&mut vec![0; 1_000_000]).unwrap();
    accepted.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    accepted.0.shutdown(Shutdown::Write).unwrap();
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.text()), (413, "no".to_owned()));
    // The sockets' buffers decide how much of the body could be sent.
    let _ = sending.join().unwrap();
    drop(accepted);
}

#[test]
fn body_size_policy_also_limits_large_uploads() {
    let recorder = Recorder::start();
    let gateway = Gateway::guarded(recorder.address, |handler| {
        let policy = Arc::new(Policy::new("small", PolicyConfig::ContentBytesMax(1_000_000)));
        Guarded::new(policy, "route", handler).into_handler()
    });
    let mut client = Client::new(gateway.address);
    let fitting = sending(&client, [head(1_000_000).into_bytes(), numbered(1_000_000)].concat(), usize::MAX);
    assert_eq!(client.answer(false).status, 200);
    fitting.join().unwrap().unwrap();
    assert_eq!(recorder.take_one().content.len(), 1_000_000);
    client.send(head(1_000_001));
    assert_eq!(client.answer(false).status, 413);
    assert!(recorder.take().is_empty());
}

/// Regression test: the measured time of a server included the time that the client took to send the body.
#[test]
fn server_time_starts_after_the_complete_request() {
    const PAUSE: Duration = Duration::from_millis(500);
    let script = Script::start();
    let gateway = Gateway::timed(only(script.address));
    let mut client = Client::new(gateway.address);
    client.send(head(10) + "first");
    let mut accepted = script.accept();
    accepted.head();
    accepted.until("first");
    // Simulates a slow client.
    thread::sleep(PAUSE);
    client.send("later");
    accepted.until("later");
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.answer(false).text(), "ok");
    let durations = gateway.upstream.server_statuses().remove(0).durations;
    let [of_server] = &durations[..] else { panic!("one request: {durations:?}") };
    let attributes = ClientAttributes { method: "POST", status: StatusCode::OK };
    assert_eq!((of_server.attributes, of_server.count()), (Some(attributes), 1));
    assert!(of_server.sum < PAUSE, "{of_server:?}");
    assert!(gateway.upstream.response_counts().time >= PAUSE, "the request itself took as long");
}
