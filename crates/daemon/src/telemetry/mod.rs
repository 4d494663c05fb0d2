//! Distributed tracing: the tracer of the server, and the thread that sends spans to a collector.

mod collector_error;
mod exporter;
mod grpc;
mod http;

#[cfg(test)]
mod faults;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_telemetry::{ExportCounts, Resource, Tracer};

use crate::config::{Config, Failure, TelemetryConfig};
use exporter::{ExportTarget, Exporter};

/// The running tracing. `None` until a config enables tracing. If a later config disables tracing, the
/// exporter continues, because open connections may still create spans. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct LiveTelemetry(Arc<Mutex<Option<Running>>>);

struct Running {
    tracer: Arc<Tracer>,
    exporter: Exporter,
}

impl LiveTelemetry {
    /// Applies the settings in `config`. Returns the tracer, or `None` if the config disables tracing.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub(crate) fn replace(&self, config: &Config) -> Result<Option<Arc<Tracer>>, Failure> {
        let Some(wanted) = &config.telemetry else { return Ok(None) };
        let mut running = self.lock();
        if let Some(Running { tracer, exporter }) = &*running {
            tracer.set_sampling(wanted.sampling);
            exporter.set_target(target_of(wanted));
            return Ok(Some(tracer.clone()));
        }
        let tracer = Arc::new(Tracer::new(wanted.sampling));
        let exporter =
            Exporter::start(tracer.queue().clone(), target_of(wanted)).map_err(|error| failure(&error))?;
        *running = Some(Running { tracer: tracer.clone(), exporter });
        Ok(Some(tracer))
    }

    /// Returns the numbers of spans. `None` if tracing was never on.
    pub(crate) fn counts(&self) -> Option<ExportCounts> {
        self.lock().as_ref().map(|running| running.tracer.queue().counts())
    }

    /// Sends the remaining spans, and ends the exporter. Waits at most two seconds for the collector.
    pub(crate) fn finish(&self) {
        if let Some(Running { exporter, .. }) = self.lock().take() {
            exporter.finish();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn target_of(config: &TelemetryConfig) -> ExportTarget {
    let resource = Resource {
        service_name: config.service_name.clone(),
        service_version: env!("CARGO_PKG_VERSION"),
        instance_id: std::process::id().to_string(),
    };
    ExportTarget { resource, collector: config.collector.clone() }
}

fn failure(error: &io::Error) -> Failure {
    Failure::new(format!("cannot start the thread that exports spans: {error}"))
        .with_hint("check the limit of threads of this user (`ulimit -u`)")
}
