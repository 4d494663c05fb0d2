//! The WebSocket protocol (RFC 6455): an echo, and a chat that sends each message to all members.
//!
//! ```sh
//! cargo run --release --example websocket
//! curl -i http://127.0.0.1:8080/echo                  # 426: curl requests no WebSocket
//! websocat ws://127.0.0.1:8080/echo                   # or any other client
//! websocat ws://127.0.0.1:8080/room                   # in two terminals
//! ```
//! Or open `http://127.0.0.1:8080/` in two browsers.
//!
//! The crate `tungstenite` implements the protocol on the connection that [`Response::upgrade`] provides.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use thruway_server::{Request, Response, Router, Server, ServerError, StatusCode, Tunnel, with_state};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

type WebSocket = WebSocketStream<Tunnel>;
type Room = broadcast::Sender<Utf8Bytes>;

pub(crate) fn app() -> Router {
    let room = Arc::new(Room::new(MESSAGES_BEHIND_MAX));
    Router::new()
        .get("/", || Response::html(include_str!("index.html")))
        .get("/echo", |request: &Request<'_>| upgrade(request, echo))
        .get("/room", with_state(&room, enter))
}

/// Echoes messages.
async fn echo(mut socket: WebSocket) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        let message = message?;
        // The crate `tungstenite` answers pings and close messages.
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

fn enter(room: &Room, request: &Request<'_>) -> Response {
    let (room, heard) = (room.clone(), room.subscribe());
    upgrade(request, |socket| talk(socket, room, heard))
}

/// Sends messages from this client to the chat, and messages of the chat to this client.
async fn talk(
    mut socket: WebSocket,
    room: Room,
    mut heard: broadcast::Receiver<Utf8Bytes>,
) -> Result<(), Error> {
    loop {
        tokio::select! {
            message = socket.next() => match message.transpose()? {
                // This client is also a member of the chat, so the message always has a receiver.
                Some(Message::Text(text)) => drop(room.send(text)),
                Some(_) => {}
                None => return Ok(()),
            },
            text = heard.recv() => match text {
                Ok(text) => socket.send(Message::Text(text)).await?,
                // A member that reads too slowly loses messages, so that the other members do not wait.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return socket.close(None).await,
            },
        }
    }
}

/// Completes the handshake (RFC 6455 §4.2) and runs `talk` on the connection. If you use cookies to
/// authenticate users, check `Origin` here, because pages from other sites can open the connection too (RFC
/// 6455 §10.2).
fn upgrade<F>(request: &Request<'_>, talk: impl FnOnce(WebSocket) -> F + 'static) -> Response
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    let field = |name| request.field(name).map(|value| value.as_bytes());
    if !request.wants_upgrade_to("websocket") {
        return Response::upgrade_required("websocket");
    }
    let (Some(key), Some(b"13")) = (field("sec-websocket-key"), field("sec-websocket-version")) else {
        return Response::new(StatusCode::BAD_REQUEST).with_field("Sec-WebSocket-Version", "13");
    };
    let accept = derive_accept_key(key);
    let run = async move |tunnel| {
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
        let socket = WebSocketStream::from_raw_socket(tunnel, Role::Server, Some(config)).await;
        if let Err(error) = talk(socket).await {
            tracing::debug!(%error, "a WebSocket ends");
        }
    };
    Response::upgrade("websocket", run).with_field("Sec-WebSocket-Accept", accept)
}

fn main() -> Result<(), ServerError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Server::new(app()).listen("127.0.0.1:8080")?.run()
}

const MESSAGE_BYTES_MAX: usize = 64 << 10;
const MESSAGES_BEHIND_MAX: usize = 64;
