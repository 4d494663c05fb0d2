//! actix-web with one worker.

use std::time::Duration;

use actix_web::http::KeepAlive;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue, SERVER};
use actix_web::{App, HttpResponse, HttpServer, web};
use mimalloc::MiMalloc;

const ACTIX: HeaderValue = HeaderValue::from_static("actix");
const TEXT: HeaderValue = HeaderValue::from_static(contract::TEXT);

/// Keep-alive timeout, which is longer than any run.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_mins(5);

/// Must exceed the 10,000 connections of the workloads.
const CONNECTIONS_MAX: usize = 25_000;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let app = || {
        App::new()
            .route("/plaintext", web::get().to(plaintext))
            .route("/json", web::get().to(json))
            .route("/echo", web::post().to(echo))
    };
    HttpServer::new(app)
        .workers(1)
        .backlog(contract::BACKLOG.cast_unsigned())
        .keep_alive(KeepAlive::Timeout(KEEP_ALIVE_TIMEOUT))
        .max_connections(CONNECTIONS_MAX)
        .bind(contract::listen_address())?
        .run()
        .await
}

async fn plaintext() -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((SERVER, ACTIX))
        .insert_header((CONTENT_TYPE, TEXT))
        .body(contract::PLAINTEXT)
}

async fn json() -> HttpResponse {
    HttpResponse::Ok().insert_header((SERVER, ACTIX)).json(contract::GREETING)
}

async fn echo(content: web::Payload) -> HttpResponse {
    HttpResponse::Ok().insert_header((SERVER, ACTIX)).insert_header((CONTENT_TYPE, TEXT)).streaming(content)
}
