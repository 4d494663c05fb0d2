//! Drives connections of each version of HTTP.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_message::StatusCode;
use thruway_net::{ConnectionGuard, PooledBuffer, Transport, Worker};

use super::http1::{Connection, drive};
use super::service::Service;
use super::timers::patience;
use crate::config::Config;
use crate::connection_info::ConnectionInfo;
use crate::handler::Handler;
use crate::http2;
use crate::record::TakeRecord;
use crate::spoken::{Spoken, recognise};

/// Drives the connections of one worker, over whatever transport: what a server does with a connection once
/// it is accepted.
#[derive(Clone)]
pub struct ConnectionDriver {
    service: Rc<Service>,
}

impl ConnectionDriver {
    /// Answers with `handler`; gives a record of each request to `record`, if there is one.
    pub fn new(
        handler: Arc<dyn Handler>,
        config: Arc<Config>,
        worker: Rc<Worker>,
        record: Option<TakeRecord>,
    ) -> Self {
        Self { service: Rc::new(Service::new(handler, config, worker, record)) }
    }

    /// The same with another config.
    pub(crate) fn with_config(&self, config: Arc<Config>) -> Self {
        Self { service: Rc::new(self.service.with_config(config)) }
    }

    /// The same with another handler.
    pub(crate) fn with_handler(&self, handler: Arc<dyn Handler>) -> Self {
        Self { service: Rc::new(self.service.with_handler(handler)) }
    }

    /// Drives a connection to its end. If the guard says that there are too many, its first request is
    /// answered 503.
    pub fn drive<T: Transport>(
        &self,
        transport: T,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        drive(Connection::new(transport, self.service.clone(), info, guard))
    }

    /// Drives a connection that speaks this, of which the octets `early` were read already. The value comes
    /// from whoever has negotiated it; who has not asks [`drive_recognised`](Self::drive_recognised).
    pub async fn drive_as<T: Transport>(
        &self,
        spoken: Spoken,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) {
        match spoken {
            Spoken::Http1 => Box::pin(self.drive_from(transport, early, info, guard)).await,
            Spoken::Http2 => {
                Box::pin(http2::drive(self.service.clone(), transport, early, info, guard)).await;
            }
        }
    }

    /// The same with what the first octets tell that it speaks.
    pub async fn drive_recognised<T: Transport>(
        &self,
        mut transport: T,
        mut early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) {
        let timeouts = self.service.config.timeouts;
        if let Some(spoken) = recognise(&mut transport, &mut early, &guard, timeouts).await {
            self.drive_as(spoken, transport, early, info, guard).await;
        }
    }

    /// The same, where the octets `early` were read already.
    pub(crate) fn drive_from<T: Transport>(
        &self,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        let mut connection = Connection::new(transport, self.service.clone(), info, guard);
        connection.unparsed = early;
        drive(connection)
    }

    /// How long the client of a connection may take to say who it is.
    pub(crate) fn header_patience(&self, guard: &ConnectionGuard) -> Duration {
        patience(guard, self.service.config.timeouts.header_section)
    }

    /// How long a client may take to read why it was refused.
    pub(crate) fn linger(&self) -> Duration {
        self.service.config.timeouts.linger
    }

    /// Answers the octets `early`, which are HTTP where TLS is spoken, and what comes behind them.
    pub(crate) fn refuse_plain_http<T: Transport>(
        &self,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        let mut connection = Connection::new(transport, self.service.clone(), info, guard);
        connection.unparsed = early;
        connection.refuse(StatusCode::BAD_REQUEST, "a request without TLS was sent to a port for https");
        drive(connection)
    }
}
