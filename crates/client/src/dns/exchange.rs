//! Queries DNS servers one after the other, until one of them answers.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use thruway_net::random_bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message::{Answer, Kind, Reply, question, reply};

/// The DNS servers, and the limits of a lookup.
pub(super) struct Servers {
    pub(super) addresses: Vec<SocketAddr>,
    /// Maximum time to wait for one answer from one server.
    pub(super) timeout: Duration,
    /// Number of attempts for each server.
    pub(super) attempts: u32,
}

impl Servers {
    /// Returns the first answer, or `None` if the name does not exist or has no address of the requested
    /// kind.
    ///
    /// # Errors
    /// Returns an error if no server answers in time, or if all servers refuse.
    pub(super) async fn ask(&self, name: &str, kind: Kind) -> io::Result<Option<Answer>> {
        let mut failure = io::Error::other("no DNS server is configured");
        for _ in 0..self.attempts {
            for address in &self.addresses {
                let outcome = timeout(self.timeout, ask_one(*address, name, kind)).await;
                match outcome.unwrap_or_else(|elapsed| Err(elapsed.into())) {
                    Ok(Reply::Some(answer)) => return Ok(Some(answer)),
                    Ok(Reply::Nothing) => return Ok(None),
                    Ok(Reply::Truncated | Reply::Refused) => {
                        failure =
                            io::Error::other(format!("the DNS server {address} did not answer the query"));
                    }
                    Err(error) => failure = error,
                }
            }
        }
        Err(failure)
    }
}

async fn ask_one(address: SocketAddr, name: &str, kind: Kind) -> io::Result<Reply> {
    match ask_by_udp(address, name, kind).await? {
        Reply::Truncated => ask_by_tcp(address, name, kind).await,
        reply => Ok(reply),
    }
}

/// Sends the query over UDP, with a random port and a random id. An attacker must guess the port and the
/// id to forge an answer (RFC 5452). Ignores messages that do not answer the query.
async fn ask_by_udp(address: SocketAddr, name: &str, kind: Kind) -> io::Result<Reply> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    let id = random_id();
    socket.send(&question(id, name, kind)?).await?;
    let mut bytes = [0; UDP_BYTES_MAX];
    loop {
        let length = socket.recv(&mut bytes).await?;
        if let Some(reply) = reply(&bytes[..length], id, name, kind) {
            return Ok(reply);
        }
    }
}

/// Sends the query over TCP. On TCP, a length precedes each message (RFC 1035 §4.2.2).
async fn ask_by_tcp(address: SocketAddr, name: &str, kind: Kind) -> io::Result<Reply> {
    let id = random_id();
    let question = question(id, name, kind)?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&[&length.to_be_bytes(), &question[..]].concat()).await?;
    let mut bytes = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut bytes).await?;
    reply(&bytes, id, name, kind).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns a random id for a query, which protects against forged answers (RFC 5452 §9.2).
fn random_id() -> u16 {
    u16::from_ne_bytes(random_bytes())
}

/// Size of the receive buffer in bytes. The standard maximum without extensions is 512 bytes (RFC 1035
/// §4.2.1), but some servers send more.
const UDP_BYTES_MAX: usize = 1_500;
