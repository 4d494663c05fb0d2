//! An HTTP/2 client, based on the crate `h2`.

use std::future::Future;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::gateway::TEST_TIMEOUT;

/// Runs the client's future.
pub(super) fn run<R>(future: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(TEST_TIMEOUT, future).await.expect("the test timed out") })
}

pub(super) async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    // The connection's window is larger than that of a stream, so a stalled stream does not block the others.
    let builder = Builder::new().initial_connection_window_size(1 << 20).clone();
    let (send, connection) = builder.handshake(stream).await.unwrap();
    drop(tokio::spawn(connection));
    send
}

/// Does the same with a stream window of one byte, so that responses stall.
pub(super) async fn connect_slow(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (send, connection) = Builder::new().initial_window_size(1).handshake(stream).await.unwrap();
    drop(tokio::spawn(connection));
    send
}

pub(super) fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://a.example{path}")).body(()).unwrap()
}

/// Returns a response with all of its content and trailers.
pub(super) async fn whole(response: ResponseFuture) -> (Response<()>, String, HeaderMap) {
    let (head, mut content) = response.await.unwrap().into_parts();
    let mut all = String::new();
    while let Some(piece) = piece(&mut content).await {
        all += &piece;
    }
    let trailers = content.trailers().await.unwrap().unwrap_or_default();
    (Response::from_parts(head, ()), all, trailers)
}

/// Returns the next nonempty piece of content.
pub(super) async fn piece(content: &mut RecvStream) -> Option<String> {
    loop {
        let data = content.data().await?.unwrap();
        content.flow_control().release_capacity(data.len()).unwrap();
        if !data.is_empty() {
            return Some(String::from_utf8(data.to_vec()).unwrap());
        }
    }
}
