//! Asks a responder (RFC 6960 §A.1): bounded in time and size.

use std::time::Duration;

use thruway_client::{Client, ClientConfig, PoolConfig, Timeouts};
use thruway_net::Clock;

use super::{OcspError, Staple, Subject};

/// Who asks responders.
pub(super) fn client(patience: Duration) -> Client {
    let mut config = ClientConfig { connect: patience, ..ClientConfig::default() };
    config.exchange.timeouts = Timeouts { total: Some(patience), head: patience, ..Timeouts::default() };
    // Nobody is asked twice in a row.
    config.pool = PoolConfig { idle_max: 0, ..PoolConfig::default() };
    Client::with_config(config)
}

/// What is said of `subject` at present.
pub(super) async fn fetch(client: &Client, subject: &Subject) -> Result<Staple, OcspError> {
    let request = client
        .post(&subject.responder)
        .field("Content-Type", "application/ocsp-request")
        .field("Accept", "application/ocsp-response")
        .content(subject.request.clone())
        .idempotent(true);
    let response = request.send().await.map_err(OcspError::Unreachable)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(OcspError::Status(status));
    }
    let der = response.collect(ANSWER_BYTES_MAX).await.map_err(OcspError::Unreachable)?;
    Staple::read(&der, &subject.named, Clock::system().time_of_day())
}

/// Those in use have some kilobytes with the certificates of whoever signs.
const ANSWER_BYTES_MAX: usize = 64 << 10;
