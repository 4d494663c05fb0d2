//! axum on hyper, with one current-thread runtime.
//!
//! Uses `axum::serve` by default. With `--pipeline-flush`, it runs directly on hyper, which can flush the
//! responses to pipelined requests together. `axum::serve` has no such setting.

use axum::serve::ListenerExt;
use axum_app::router;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mimalloc::MiMalloc;
use tokio::net::{TcpListener, TcpSocket};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?.block_on(serve())
}

async fn serve() -> std::io::Result<()> {
    let address = contract::listen_address();
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(contract::BACKLOG.cast_unsigned())?;
    if contract::has_flag("--pipeline-flush") {
        return serve_flushing_together(&listener).await;
    }
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).expect("setting TCP_NODELAY should succeed");
    });
    axum::serve(listener, router()).await
}

async fn serve_flushing_together(listener: &TcpListener) -> std::io::Result<()> {
    let mut http1 = hyper::server::conn::http1::Builder::new();
    http1.pipeline_flush(true);
    let service = TowerToHyperService::new(router());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = http1.serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(async move {
            // A client that disconnects is not a server error. The load generator reports missing
            // responses.
            let _ended = connection.await;
        });
    }
}
