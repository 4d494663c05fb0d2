//! Checks whether a replica answers, while requests or streams wait for it. A replica that has failed without closing
//! its connections would otherwise delay them until its record expires.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use thruway_client::{Client, ClientConfig, Resolve, Resolving, UpstreamAddr};
use thruway_gateway::UpstreamTls;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// The result of the checks of one replica.
#[derive(Default)]
pub(super) struct Liveness {
    /// Number of requests and streams that wait for the replica.
    waiting: AtomicUsize,
    begun_waiting: Notify,
    is_silent: watch::Sender<bool>,
    /// `true` if the checks run.
    is_checked: AtomicBool,
}

/// Counts a request or a stream until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Liveness {
    /// Returns `true` for the first caller, which must then call [`check`](Self::check).
    pub(super) fn begin_checks(&self) -> bool {
        !self.is_checked.swap(true, Ordering::Relaxed)
    }

    /// Waits until the replica has not answered for about [`SILENCE`]. Waits a short time even if the replica was
    /// silent before, because it may have just recovered.
    pub(super) async fn silent(&self) {
        let _waiting = self.begin_wait();
        sleep(RECOVERY).await;
        // The sender lives as long as `self`.
        let _ = self.is_silent.subscribe().wait_for(|is_silent| *is_silent).await;
    }

    fn begin_wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.begun_waiting.notify_one();
        Waiting(&self.waiting)
    }

    /// Sends small requests to the replica while requests or streams wait for it. Does not return.
    pub(super) async fn check(&self, probe: Probe) {
        loop {
            if self.waiting.load(Ordering::Relaxed) == 0 && !*self.is_silent.borrow() {
                self.begun_waiting.notified().await;
            }
            let silence = async {
                pass_silence().await;
                self.set_silent(true);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = probe.until_answered() => self.set_silent(false),
                () = silence => {}
            }
            sleep(PAUSE).await;
        }
    }

    fn set_silent(&self, is_silent: bool) {
        self.is_silent.send_if_modified(|current| std::mem::replace(current, is_silent) != is_silent);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for [`SILENCE`] in steps. If this process itself was stopped for some time, this counts as one step, so that
/// its own pause does not look like a pause of the other replica.
async fn pass_silence() {
    for _ in 0..STEPS {
        sleep(SILENCE / STEPS).await;
    }
}

/// Sends small requests to the peer listener of a replica.
pub(super) struct Probe {
    client: Client,
    url: String,
}

impl Probe {
    pub(super) fn new(address: SocketAddr, tls: Option<&UpstreamTls>) -> Self {
        let host = match tls.and_then(|tls| tls.server_name.as_ref()) {
            Some(name) => name.to_string(),
            None => address.ip().to_string(),
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let config = ClientConfig { tls: tls.map(|tls| tls.connector.clone()), ..ClientConfig::default() };
        let client = Client::with_config(config).resolver(Fixed(address));
        Self { client, url: format!("{scheme}://{host}:{}/alive", address.port()) }
    }

    /// Waits until the replica has answered a request. Any status is an answer.
    async fn until_answered(&self) {
        while let Err(error) = self.client.get(&self.url).send().await {
            tracing::trace!(url = self.url, "the replica does not answer: {error}");
            sleep(PAUSE).await;
        }
    }
}

/// Resolves each host to one address.
#[derive(Debug)]
struct Fixed(SocketAddr);

impl Resolve for Fixed {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(vec![UpstreamAddr::from(self.0)]) })
    }
}

/// Time without an answer after which requests no longer wait for a replica. A busy replica answers sooner.
const SILENCE: Duration = Duration::from_millis(1200);

/// Minimum time that a request waits for a replica. A replica that has recovered answers the waiting check in this
/// time.
const RECOVERY: Duration = Duration::from_millis(200);

/// Number of steps of the wait for [`SILENCE`].
const STEPS: u32 = 10;

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    /// Returns the outcome of a wait for the silence of a replica, which may take this long.
    fn falls_silent(address: SocketAddr, within: Duration) -> bool {
        let (liveness, probe) = (Arc::new(Liveness::default()), Probe::new(address, None));
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let checked = liveness.clone();
            tokio::spawn(async move { checked.check(probe).await });
            timeout(within, liveness.silent()).await.is_ok()
        })
    }

    #[test]
    fn replica_that_accepts_connections_without_an_answer_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(falls_silent(listener.local_addr().unwrap(), LONG));
    }

    #[test]
    fn replica_that_answers_each_check_is_not_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream
                    .write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            }
        });
        assert!(!falls_silent(address, 3 * SILENCE));
    }

    /// A timeout that no test reaches.
    const LONG: Duration = Duration::from_secs(20);
}
