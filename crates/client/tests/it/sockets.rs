//! Tests over sockets: connecting, closing and resetting.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use thruway_client::{
    Config, ConnectError, Connection, Error, Exchange, Pool, PoolConfig, ReadBuffers, ResponseEvent, Retry,
    Side, UpstreamAddr, connect, connect_any, resolve,
};
use thruway_net::Clock;
use thruway_testkit::upstream::{self, Upstream};
use tokio::task::{consume_budget, yield_now};
use tokio::time::timeout;

use crate::line::start;

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

fn now() -> Duration {
    Clock::system().now()
}

async fn open(address: SocketAddr) -> Connection {
    Connection::new(connect(&address.into(), TEST_TIMEOUT).await.unwrap().into(), &Config::default())
}

/// Reads the response to its end. Returns its status and body.
async fn read(exchange: &mut Exchange) -> Result<(u16, Vec<u8>), Error> {
    let (mut status, mut content) = (0, Vec::new());
    poll_fn(|cx| {
        let buffers = ReadBuffers::default();
        let mut poll = exchange.begin_poll(&buffers);
        loop {
            match std::task::ready!(poll.poll_event(cx, now()))? {
                ResponseEvent::Final(head, _) => status = head.status.as_u16(),
                ResponseEvent::Content(bytes) => content.extend_from_slice(bytes),
                ResponseEvent::End(_) => return Poll::Ready(Ok(())),
                ResponseEvent::Interim(_) | ResponseEvent::Tunnel(_) => {}
            }
        }
    })
    .await
    .map(|()| (status, content))
}

async fn exchange_with(upstream: Upstream) -> Result<(u16, Vec<u8>), Error> {
    let listening = upstream.listen();
    let mut exchange = start(open(listening.address).await, now());
    let outcome = read(&mut exchange).await;
    assert_eq!(listening.requests(), 1);
    outcome
}

#[test]
fn each_misbehaving_upstream_server_gives_its_error() {
    run(async {
        assert_eq!(exchange_with(upstream::responds_ok()).await, Ok((200, b"ok".to_vec())));
        assert_eq!(exchange_with(upstream::responds_with_http10()).await, Ok((200, b"ok".to_vec())));
        assert_eq!(exchange_with(upstream::sends_two_responses()).await, Ok((200, b"ok".to_vec())));
        assert_eq!(
            exchange_with(upstream::closes_without_response()).await,
            Err(Error::ClosedBeforeResponse)
        );
        assert_eq!(exchange_with(upstream::closes_mid_head()).await, Err(Error::HeadIncomplete));
        assert_eq!(exchange_with(upstream::closes_mid_body()).await, Err(Error::ContentIncomplete));
        assert_eq!(exchange_with(upstream::closes_mid_chunk()).await, Err(Error::ContentIncomplete));
        assert_eq!(exchange_with(upstream::resets_mid_body()).await, Err(Error::ContentIncomplete));
        assert!(matches!(
            exchange_with(upstream::sends_endless_interim_responses()).await,
            Err(Error::HeadMalformed(_))
        ));
        assert!(matches!(
            exchange_with(upstream::sends_oversized_head()).await,
            Err(Error::HeadMalformed(_))
        ));
    });
}

#[test]
fn connection_is_reused_for_consecutive_exchanges() {
    run(async {
        let listening = upstream::responds_ok().listen();
        let mut pool: Pool = Pool::new(PoolConfig::default());
        let address = UpstreamAddr::from(listening.address);
        for _ in 0..20 {
            let connection = match pool.acquire(&address, now()) {
                Some(connection) => connection,
                None => open(listening.address).await,
            };
            let mut exchange = start(connection, now());
            assert_eq!(read(&mut exchange).await, Ok((200, b"ok".to_vec())));
            pool.release(&address, exchange.finish().unwrap(), now());
        }
        assert_eq!((listening.connections(), listening.requests(), pool.len()), (1, 20, 1));
    });
}

#[test]
fn idle_connection_closed_during_reuse_allows_a_retry() {
    run(async {
        let listening = upstream::closes_on_second_request().listen();
        let mut exchange = start(open(listening.address).await, now());
        assert!(read(&mut exchange).await.is_ok());
        let mut exchange = start(exchange.finish().unwrap(), now());
        let error = read(&mut exchange).await.unwrap_err();
        assert_eq!(error, Error::ClosedBeforeResponse);
        assert!(error.retry().counts_against_no_server(exchange.is_reused()));
        assert!(error.retry().allows(true) && !error.retry().allows(false));
    });
}

#[test]
fn idle_connection_closed_by_the_server_is_detected() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = UpstreamAddr::from(listener.local_addr().unwrap());
        let mut connection: Connection =
            Connection::new(connect(&address, TEST_TIMEOUT).await.unwrap().into(), &Config::default());
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(connection.is_alive());
        drop(accepted);
        // The reactor reports the close when this task yields.
        while connection.is_alive() {
            yield_now().await;
        }
        let mut pool: Pool = Pool::new(PoolConfig::default());
        pool.release(&address, connection, now());
        assert!(pool.acquire(&address, now()).is_none());
    });
}

/// Uses up the poll budget that tokio gives this task.
pub(crate) async fn spend_poll_budget() {
    poll_fn(|cx| {
        while pin!(consume_budget()).poll(cx).is_ready() {}
        Poll::Ready(())
    })
    .await;
}

/// Such a connection once counted as alive, because all reads of a task without budget are pending.
#[test]
fn closed_connection_is_detected_without_poll_budget() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = UpstreamAddr::from(listener.local_addr().unwrap());
        let mut pool: Pool = Pool::new(PoolConfig::default());
        for last_words in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
            pool.release(&address, open(listener.local_addr().unwrap()).await, now());
            let (accepted, _) = listener.accept().await.unwrap();
            assert_eq!(accepted.try_write(last_words.as_bytes()).unwrap(), last_words.len());
            drop(accepted);
            let is_found = async {
                spend_poll_budget().await;
                while let Some(connection) = pool.acquire(&address, now()) {
                    pool.release(&address, connection, now());
                    yield_now().await;
                    spend_poll_budget().await;
                }
            };
            timeout(TEST_TIMEOUT, is_found).await.expect("the pool detects the closed connection");
        }
    });
}

#[test]
fn connect_failure_has_a_reason() {
    run(async {
        let refused: UpstreamAddr = upstream::unused_address().into();
        let error = connect(&refused, TEST_TIMEOUT).await.unwrap_err();
        assert_eq!(
            (error, error.side(), error.retry()),
            (ConnectError::Refused, Side::Upstream, Retry::Always)
        );
        let missing = UpstreamAddr::unix("/nonexistent/socket");
        assert_eq!(connect(&missing, TEST_TIMEOUT).await.unwrap_err(), ConnectError::SocketNotFound);

        let failures = connect_any(&[refused.clone(), missing.clone()], TEST_TIMEOUT).await.unwrap_err();
        assert_eq!(
            failures.to_string(),
            format!(
                "{refused}: connection refused; unix:/nonexistent/socket: the Unix socket does not exist"
            )
        );
        let nowhere = connect_any(&[], TEST_TIMEOUT).await.unwrap_err();
        assert_eq!(nowhere.to_string(), "no address to connect to");
    });
}

#[test]
fn connect_uses_the_first_address_that_accepts() {
    run(async {
        let listening = upstream::responds_ok().listen();
        let addresses: Vec<UpstreamAddr> =
            [upstream::unused_address(), listening.address].map(Into::into).into();
        let (stream, address) = connect_any(&addresses, TEST_TIMEOUT).await.unwrap();
        assert_eq!(address, &addresses[1]);
        assert!(socket2::SockRef::from(&stream).tcp_nodelay().unwrap());
    });
}

/// A listener with a full queue does not answer. The first address must leave time for the second.
#[test]
fn silent_address_leaves_time_for_the_next() {
    run(async {
        let (full, _queue) = full_listener();
        let listening = upstream::responds_ok().listen();
        let error = connect(&full, Duration::from_millis(50)).await.unwrap_err();
        assert_eq!((error, error.is_timeout()), (ConnectError::TimedOut, true));
        let addresses = [full, listening.address.into()];
        let (_, address) = connect_any(&addresses, Duration::from_millis(500)).await.unwrap();
        assert_eq!(address, &addresses[1]);
    });
}

/// Returns a socket with space for one connection that is never accepted, and the connections that fill it.
fn full_listener() -> (UpstreamAddr, Vec<socket2::Socket>) {
    let tcp = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let listener = tcp();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = vec![listener];
    for _ in 0..4 {
        let socket = tcp();
        socket.set_nonblocking(true).unwrap();
        // The queue has no space for later connections. They stay half-open, as intended.
        drop(socket.connect(&address));
        sockets.push(socket);
    }
    (address.as_socket().unwrap().into(), sockets)
}

#[test]
fn name_is_resolved_to_its_addresses() {
    run(async {
        let addresses = resolve("localhost", 8080).await.unwrap();
        assert!(!addresses.is_empty());
        assert!(addresses.iter().all(|address| address.tcp().unwrap().ip().is_loopback()));
        assert_eq!(resolve("[::1]", 1).await.unwrap(), ["[::1]:1".parse().unwrap()]);
        assert!(resolve("name.invalid", 80).await.is_err());
    });
}

#[test]
fn client_exchanges_over_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    run(async {
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let address = UpstreamAddr::unix(&path);
        let stream = connect(&address, TEST_TIMEOUT).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let connection: Connection = Connection::new(stream.into(), &Config::default());
        let mut exchange = start(connection, now());
        accepted.writable().await.unwrap();
        accepted.try_write(upstream::OK_RESPONSE.as_bytes()).unwrap();
        assert_eq!(read(&mut exchange).await, Ok((200, b"ok".to_vec())));
        assert!(exchange.finish().is_some());
    });
}
