//! Export of traces and metrics: the tracer of the server, and the thread that sends spans and metrics to a
//! collector.

mod collector_error;
mod grpc;
mod http;
mod delivery;
mod metrics;
mod exporter;

#[cfg(test)]
mod faults;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thruway_telemetry::{ExportCounts, Resource, Sampling, Tracer};

use crate::config::{Config, Failure, TelemetryConfig};
use delivery::ExportTarget;
use exporter::Exporter;
use metrics::ExportedMetrics;
pub(crate) use metrics::MetricsSource;

/// The running export. It starts with the first config that has a collector. If a later config disables
/// tracing, the exporter continues, because open connections may still create spans. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct LiveTelemetry {
    running: Arc<Mutex<Option<Running>>>,
    metrics: Arc<ExportedMetrics>,
}

struct Running {
    tracer: Arc<Tracer>,
    /// `None` after the end of the service.
    exporter: Option<Exporter>,
    has_traces: bool,
    has_metrics: bool,
}

impl LiveTelemetry {
    /// Applies the settings in `config`. Returns the tracer, or `None` if the config disables tracing.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub(crate) fn replace(&self, config: &Config) -> Result<Option<Arc<Tracer>>, Failure> {
        let mut running = self.lock();
        let Some(wanted) = &config.telemetry else {
            if let Some(running) = &*running {
                running.stop_metrics();
            }
            return Ok(None);
        };
        let running = match &mut *running {
            Some(running) => running,
            none => none.insert(self.start(wanted).map_err(|error| failure(&error))?),
        };
        running.follow(wanted);
        Ok(wanted.sampling.is_some().then(|| running.tracer.clone()))
    }

    fn start(&self, wanted: &TelemetryConfig) -> io::Result<Running> {
        let tracer = Arc::new(Tracer::new(wanted.sampling.unwrap_or(UNUSED)));
        let target = target_of(wanted);
        let exporter = Exporter::start(tracer.queue().clone(), self.metrics.clone(), target)?;
        Ok(Running { tracer, exporter: Some(exporter), has_traces: false, has_metrics: false })
    }

    /// Sets the source of the exported metrics.
    pub(crate) fn set_metrics_source(&self, source: MetricsSource) {
        self.metrics.set_source(source);
    }

    /// Returns the numbers of spans. `None` if tracing was never on.
    pub(crate) fn span_counts(&self) -> Option<ExportCounts> {
        let running = self.lock();
        running.as_ref().filter(|running| running.has_traces).map(|running| running.tracer.queue().counts())
    }

    /// Returns the numbers of exported values of metrics. `None` if metrics were never exported.
    pub(crate) fn metric_counts(&self) -> Option<ExportCounts> {
        let running = self.lock();
        running.as_ref().filter(|running| running.has_metrics).map(|_| self.metrics.counts())
    }

    /// Sends the remaining spans and the last values of metrics, and ends the exporter. Waits at most two
    /// seconds for the collector.
    pub(crate) fn finish(&self) {
        // The lock must be free, because the last export contains the numbers of exported spans.
        let exporter = self.lock().as_mut().and_then(|running| running.exporter.take());
        if let Some(exporter) = exporter {
            exporter.finish();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn follow(&mut self, wanted: &TelemetryConfig) {
        if let Some(sampling) = wanted.sampling {
            self.tracer.set_sampling(sampling);
            self.has_traces = true;
        }
        self.has_metrics |= wanted.metrics_interval.is_some();
        if let Some(exporter) = &self.exporter {
            exporter.set_target(target_of(wanted));
        }
    }

    fn stop_metrics(&self) {
        if let Some(exporter) = &self.exporter {
            exporter.stop_metrics();
        }
    }
}

fn target_of(config: &TelemetryConfig) -> ExportTarget {
    let resource = Resource {
        service_name: config.service_name.clone(),
        service_version: env!("CARGO_PKG_VERSION"),
        instance_id: std::process::id().to_string(),
    };
    let (collector, metrics_interval) = (config.collector.clone(), config.metrics_interval);
    ExportTarget { resource, collector, metrics_interval }
}

fn failure(error: &io::Error) -> Failure {
    Failure::new(format!("cannot start the thread that exports spans and metrics: {error}"))
        .with_hint("check the limit of threads of this user (`ulimit -u`)")
}

/// Sampling of a tracer that no server uses.
const UNUSED: Sampling = Sampling { ratio: 0.0, slow: std::time::Duration::MAX };
