//! hyper's server on one current-thread runtime. It serves HTTP/1.1. With `--http2`, it serves HTTP/2 with
//! prior knowledge.
//!
//! Configured for small responses: `TCP_NODELAY`, responses to pipelined requests flushed together, the body
//! in one buffer.

use std::convert::Infallible;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mimalloc::MiMalloc;
use tokio::net::TcpSocket;

/// A fixed body, or the body of the request. Only the body of the request is boxed.
type Content = Either<Full<Bytes>, BoxBody<Bytes, hyper::Error>>;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(serve())
}

async fn serve() -> std::io::Result<()> {
    let address = contract::listen_address();
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(contract::BACKLOG.cast_unsigned())?;
    let mut http1 = hyper::server::conn::http1::Builder::new();
    http1.pipeline_flush(true);
    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let is_http2 = contract::has_flag("--http2");
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        if is_http2 {
            let connection = http2.serve_connection(TokioIo::new(stream), service_fn(answer));
            tokio::spawn(async move {
                let _ended = connection.await;
            });
            continue;
        }
        let connection = http1.serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            // A client that disconnects is not a server error. The load generator reports missing
            // responses.
            let _ended = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Content>, Infallible> {
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, "/plaintext") => {
            fixed(StatusCode::OK, contract::TEXT, Bytes::from_static(contract::PLAINTEXT.as_bytes()))
        }
        (&Method::GET, "/ok") => fixed(StatusCode::OK, contract::TEXT, Bytes::from_static(b"ok")),
        // Ignores the requested length, because the suite always requests this length.
        (&Method::GET, "/download") => fixed(StatusCode::OK, contract::TEXT, Bytes::from_static(&DOWNLOAD)),
        (&Method::GET, "/json") => {
            let content =
                serde_json::to_vec(&contract::GREETING).expect("serializing a string should succeed");
            fixed(StatusCode::OK, "application/json", content.into())
        }
        (&Method::POST, "/echo") => {
            response(StatusCode::OK, contract::TEXT, Either::Right(request.into_body().boxed()))
        }
        _ => fixed(StatusCode::NOT_FOUND, contract::TEXT, Bytes::new()),
    })
}

fn fixed(status: StatusCode, kind: &'static str, content: Bytes) -> Response<Content> {
    response(status, kind, Either::Left(Full::new(content)))
}

fn response(status: StatusCode, kind: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response.headers_mut().insert(SERVER, HeaderValue::from_static("hyper"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

static DOWNLOAD: [u8; 4096] = [b'x'; 4096];
