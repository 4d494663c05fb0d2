//! ntex's HTTP/1.1 service with one worker, without its web framework, as in its own benchmarks.

use std::io;

use mimalloc::MiMalloc;
use ntex::SharedCfg;
use ntex::http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use ntex::http::{HttpService, HttpServiceConfig, Method, Request, Response};
use ntex::time::Seconds;
use ntex::util::BytesMut;

const NTEX: HeaderValue = HeaderValue::from_static("ntex");
const TEXT: HeaderValue = HeaderValue::from_static(contract::TEXT);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Keep-alive timeout, which is longer than any run.
const KEEP_ALIVE_TIMEOUT: Seconds = Seconds(300);

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[ntex::main]
async fn main() -> io::Result<()> {
    let http = HttpServiceConfig::new().set_keepalive_timeout(KEEP_ALIVE_TIMEOUT).set_enable_headers_vec();
    ntex::server::build()
        .workers(1)
        .backlog(contract::BACKLOG)
        .bind("http", contract::listen_address(), SharedCfg::new("http").add(http), async |_state| {
            HttpService::h1(answer)
        })?
        .run()
        .await
}

async fn answer(mut request: Request) -> io::Result<Response> {
    let mut response = Response::Ok();
    response.header(SERVER, NTEX);
    Ok(match (request.method(), request.path()) {
        (&Method::GET, "/plaintext") => response.header(CONTENT_TYPE, TEXT).body(contract::PLAINTEXT),
        (&Method::GET, "/json") => {
            let content =
                serde_json::to_vec(&contract::GREETING).expect("serializing a string should succeed");
            response.header(CONTENT_TYPE, JSON).body(content)
        }
        (&Method::POST, "/echo") => {
            let mut content = BytesMut::new();
            while let Some(piece) = request.payload().recv().await {
                content.extend_from_slice(&piece.map_err(io::Error::other)?);
            }
            response.header(CONTENT_TYPE, TEXT).body(content)
        }
        _ => Response::NotFound().body(""),
    })
}
