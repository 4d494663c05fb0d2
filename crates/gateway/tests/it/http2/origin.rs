//! An upstream server for either version, and a scripted one that misbehaves.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::thread;

use bytes::Bytes;
use thruway_client::websocket_accept;
use thruway_net::Transport as _;
use thruway_server::{
    Answer, BoxError, Config, Content, ContentStream, Handler, Http2Limits, ListenAddr, Listener, Piece,
    Request, RequestContent, Response, RunningServer, Server, StatusCode, send_interim,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A server that echoes requests.
pub(super) struct Origin {
    server: Option<RunningServer>,
    pub(super) address: SocketAddr,
    /// Number of pieces of endless content so far.
    pub(super) produced: Arc<AtomicUsize>,
}

impl Origin {
    /// Starts a server for HTTP/2 only, or for HTTP/1.1 only.
    pub(super) fn start(has_http2: bool) -> Self {
        Self::with(has_http2, Config::default())
    }

    /// Starts an HTTP/2 server without a limit of streams.
    pub(super) fn without_limit() -> Self {
        Self::with_streams(u32::MAX)
    }

    /// Starts an HTTP/2 server with this limit of streams.
    pub(super) fn with_streams(concurrent_streams: u32) -> Self {
        let http2 = Http2Limits { concurrent_streams, ..Http2Limits::default() };
        Self::with(true, Config { http2, ..Config::default() })
    }

    fn with(has_http2: bool, config: Config) -> Self {
        let produced = Arc::new(AtomicUsize::new(0));
        let listener = Listener::new("127.0.0.1:0".parse::<ListenAddr>().unwrap());
        let listener = if has_http2 { listener.http2_only() } else { listener };
        let server = Server::new(Echo(produced.clone())).config(config).workers(1).listen_on(listener);
        let server = server.start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
        Self { server: Some(server), address, produced }
    }

    /// Begins the drain.
    pub(super) fn drain(&self) {
        self.server.iter().for_each(RunningServer::drain);
    }

    /// Number of connections so far.
    pub(super) fn connections(&self) -> u64 {
        self.server.iter().flat_map(RunningServer::loads).map(|load| load.connections_total).sum()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

/// Echoes requests, and counts the pieces of endless content.
pub(super) struct Echo(pub(super) Arc<AtomicUsize>);

impl Handler for Echo {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        match request.path() {
            "/echo" => {
                let content = Content::from_content_stream(Echoing(request.take_content(), false));
                Answer::Now(Response::new(StatusCode::OK).with_content(content))
            }
            "/endless" => {
                let content = Content::from_content_stream(Endless(self.0.clone()));
                Answer::Now(Response::new(StatusCode::OK).with_content(content))
            }
            "/hints" => Answer::later(async {
                send_interim(&Response::new(StatusCode::EARLY_HINTS).with_field("Link", "</a.css>"));
                Response::text("hinted")
            }),
            "/chat" if request.wants_upgrade_to("websocket") => {
                let switched = Response::upgrade("websocket", async |mut tunnel| {
                    let (mut from, mut to) = tokio::io::split(&mut tunnel);
                    tokio::io::copy(&mut from, &mut to).await.unwrap();
                    to.shutdown().await.unwrap();
                });
                let accept = websocket_accept(request.field_lines()).unwrap();
                Answer::Now(switched.with_field("Sec-WebSocket-Accept", accept))
            }
            "/farewell" if request.wants_upgrade_to("websocket") => {
                let received = self.0.clone();
                Answer::Now(Response::upgrade("websocket", async move |mut tunnel| {
                    tunnel.write_all(b"farewell").await.unwrap();
                    tunnel.shutdown().await.unwrap();
                    let mut rest = Vec::new();
                    match tunnel.read_to_end(&mut rest).await {
                        Ok(bytes) => received.fetch_add(bytes, Ordering::Relaxed),
                        Err(_) => received.fetch_add(BROKEN_OFF, Ordering::Relaxed),
                    };
                }))
            }
            "/cut" if request.wants_upgrade_to("websocket") => {
                Answer::Now(Response::upgrade("websocket", async |mut tunnel| {
                    let _ = tunnel.read(&mut [0; 1]).await;
                    tunnel.discard_unsent();
                }))
            }
            "/declined" => Answer::Now(Response::text("no").with_status(StatusCode::FORBIDDEN)),
            "/empty" => Answer::Now(Response::new(StatusCode::OK)),
            _ => {
                let mut text = format!("{request} {}\n", request.version());
                for line in request.field_lines().iter() {
                    writeln!(text, "{}: {}", line.name, line.value).unwrap();
                }
                let mut content = request.take_content();
                Answer::later(async move {
                    text += std::str::from_utf8(&content.collect(1000).await.unwrap()).unwrap();
                    Response::text(text).with_field("X-Field", "value").with_field("Priority", "u=2")
                })
            }
        }
    }
}

/// Returns the content and the trailer section of the request.
struct Echoing(RequestContent, bool);

impl ContentStream for Echoing {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        if self.1 {
            return Poll::Ready(None);
        }
        if let Some(piece) = ready!(self.0.poll_next(cx)) {
            return Poll::Ready(Some(piece.map(Piece::Data).map_err(Into::into)));
        }
        self.1 = true;
        Poll::Ready(self.0.take_trailers().map(|trailers| Ok(Piece::Trailers(trailers))))
    }
}

struct Endless(Arc<AtomicUsize>);

impl ContentStream for Endless {
    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Piece::Data(Bytes::from(vec![b'x'; PIECE_BYTES])))))
    }
}

pub(super) const PIECE_BYTES: usize = 10_000;

/// `Sec-WebSocket-Accept` for the key of RFC 6455 §1.2.
pub(super) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Added to the count of a tunnel that was broken off.
pub(super) const BROKEN_OFF: usize = 1 << 40;

/// The way in which an upstream server refuses requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// Sends `GOAWAY`: no request was processed.
    GoAway,
    /// Resets each stream.
    Streams,
}

/// Starts an upstream server that refuses the first `requests` requests of its first connection together. It
/// answers all others with status 200. Returns the address and the number of connections.
pub(super) fn refusing(requests: usize, refusal: Refusal) -> (SocketAddr, Arc<AtomicUsize>) {
    each_connection(move |stream, is_first| {
        let mut refused = Vec::new();
        requests_of(stream, |stream, id| {
            if !is_first || refused.len() == requests {
                return answer(stream, id);
            }
            refused.push(id);
            match refusal {
                _ if refused.len() < requests => Ok(()),
                Refusal::GoAway => {
                    stream.write_all(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0")?;
                    stream.shutdown(std::net::Shutdown::Write)
                }
                Refusal::Streams => refused.iter().try_for_each(|id| {
                    stream.write_all(&[b"\0\0\x04\x03\0", &id[..], b"\0\0\0\x07"].concat())
                }),
            }
        })
    })
}

/// Starts an upstream server that answers the first request of its first connection with `first`, and all
/// others with 200. It then closes the first connection, unless `first` is [`REFUSED`], which concerns only
/// one stream. Returns the address and the number of connections.
pub(super) fn scripted(first: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    each_connection(move |stream, is_first| {
        let mut first = is_first.then_some(first);
        requests_of(stream, |stream, id| {
            let Some(frames) = first.take() else { return answer(stream, id) };
            stream.write_all(frames)?;
            if frames == REFUSED { Ok(()) } else { stream.shutdown(std::net::Shutdown::Write) }
        })
    })
}

/// A `RST_STREAM` frame that refuses the first stream.
pub(super) const REFUSED: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07";

/// Calls `serve` for each connection, with `true` for the first one. Returns the address and the number of
/// connections.
fn each_connection(
    serve: impl Fn(TcpStream, bool) -> io::Result<()> + Clone + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            let serve = serve.clone();
            // The connection may end in any way.
            thread::spawn(move || drop(serve(stream, is_first)));
        }
    });
    (address, count)
}

/// Calls `on_request` with the id of each stream until the connection ends.
pub(super) fn requests_of<S: Read + Write>(
    mut stream: S,
    mut on_request: impl FnMut(&mut S, [u8; 4]) -> io::Result<()>,
) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    stream.write_all(b"\0\0\0\x04\0\0\0\0\0")?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        stream.read_exact(&mut vec![0; length])?;
        if let [_, _, _, HEADERS, _, id @ ..] = head {
            on_request(&mut stream, id)?;
        }
    }
}

/// Sends status 200 without content.
pub(super) fn answer(stream: &mut impl Write, id: [u8; 4]) -> io::Result<()> {
    stream.write_all(&[b"\0\0\x01\x01\x05", &id[..], b"\x88"].concat())
}

const HEADERS: u8 = 1;
