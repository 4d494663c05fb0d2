//! Interface to the operating system: listeners, streams, TLS, worker threads, buffers, deadlines and
//! graceful shutdown.
//!
//! A worker is a thread with its own tokio runtime, buffers and deadlines. Workers do not share state while
//! they handle requests. This crate implements two protocols besides TLS: the PROXY protocol, and the part
//! of HTTP/2 that carries tunnels in streams.
//!
//! This server sends a short message on every connection and then closes the connection:
//!
//! ```no_run
//! use std::future::poll_fn;
//! use std::io::IoSlice;
//! use std::rc::Rc;
//! use std::time::Duration;
//!
//! use thruway_net::{Accepted, Transport, Worker, Workers, WorkersConfig, bind, spawn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = WorkersConfig::default();
//! let bound = bind(&"127.0.0.1:8080".parse()?, config.workers, 1024)?;
//! let workers = Workers::start(config, vec![bound], |_: &Rc<Worker>| {
//!     |accepted: Accepted| {
//!         spawn(async move {
//!             // The guard counts the connection until it is dropped.
//!             let Accepted { mut stream, guard: _guard, .. } = accepted;
//!             let _ = poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(b"hello\n")])).await;
//!             let _ = poll_fn(|cx| stream.poll_shutdown(cx)).await;
//!         });
//!     }
//! })?;
//! let handle = workers.drain_handle();
//! std::thread::spawn(move || handle.drain(Duration::from_secs(10)));
//! println!("{:?}", workers.join().loads);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! - `tls` (default): [`tls`], the implementation of TLS. Without it, [`tls`] contains only the types that describe a
//!   TLS connection.
//! - `http2` (default): `Http2Stream`, an HTTP/2 stream as a byte stream.
#![deny(unsafe_code)]

// clocks, timers and logs
mod clock;
mod deadlines;
mod log_limit;
mod log_writer;

// rate limits
mod token_buckets;

// random secrets
mod random;

// listeners and accepted connections
mod address;
mod ip_text;
mod networks;
mod public;
mod listened;
mod own_connections;
mod bind;
mod accept;
mod balance;
mod proxy_protocol;

// byte streams
mod transport;
mod unsent_limits;
mod stream;
#[cfg(feature = "http2")]
mod http2_stream;
mod socket;
mod sends;
mod thread_state;
mod buffers;
mod splice;
mod tls_info;
mod tls_failure;
#[cfg(feature = "tls")]
pub mod tls;
/// Types that describe TLS connections. The feature `tls` adds the implementation of TLS.
#[cfg(not(feature = "tls"))]
pub mod tls {
    pub use crate::tls_failure::TlsFailure;
    pub use crate::tls_info::{CertificateName, PeerCertificate, TlsInfo, TlsVersion};
}

// worker threads
mod thread_priority;
mod worker;
mod listening;
mod dispatch;
mod workers;
mod signals;

pub use address::{ClientAddr, InvalidListenAddr, ListenAddr};
pub use balance::WorkerLoad;
pub use bind::{BindError, BindReason, Bound, bind};
pub use buffers::{LargeBuffer, PooledBuffer};
pub use clock::{Clock, ManualTime, process_cpu_time};
pub use deadlines::{Deadline, Deadlines};
pub use dispatch::Accepted;
#[cfg(feature = "http2")]
pub use http2_stream::Http2Stream;
pub use ip_text::IpText;
pub use listened::{is_listened_on, is_of_this_machine};
pub use listening::LiveWorkers;
pub use log_limit::{Admitted, LogLimit};
pub use log_writer::{DroppedLines, LogBuffer, LogTarget, LogWriter, LogWriterConfig};
pub use networks::{InvalidNetwork, Network, Networks};
pub use own_connections::{OwnConnection, Peer};
pub use proxy_protocol::{InvalidProxyHeader, ProxyHeader, ProxyVersion, ReceiveError, receive_proxy_header};
pub use public::{carried_by, is_public};
pub use random::{random_bytes, unguessable_id};
pub use signals::{ReloadSignal, ReopenSignal, TerminationSignals};
pub use splice::{Flow, Pipe};
pub use stream::{InProcessServer, PIPE_BYTES, Stream};
pub use thread_priority::lower_thread_priority;
pub use token_buckets::{TokenBuckets, TokenRate};
pub use transport::{Gathered, Transport};
pub use worker::{ConnectionGuard, Worker, spawn};
pub use workers::{DrainHandle, Drained, Workers, WorkersConfig, WorkersHold, raise_descriptor_limit};
