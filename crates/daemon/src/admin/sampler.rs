//! Measures the service once per second: reads the counters of the request path and computes the
//! differences since the previous reading. The request path does no additional work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thruway_gateway::{RefusalCount, RouteMeter, ServerState};
use thruway_net::process_cpu_time;

use super::durations::{Buckets, add, percentile, sum_of_buckets};
use super::history::Sample;
use super::state::ServiceState;
use crate::changes::{ChangeKind, Changes};
use crate::running_state::RunningConfig;

/// The counters of the service at one time.
#[derive(Clone, Default)]
pub(super) struct Reading {
    /// The meters of the routes. A reload can replace a meter.
    meters: Vec<(Arc<RouteMeter>, Totals)>,
    /// The counter of requests without a route, and its value.
    unrouted: Option<(Arc<RefusalCount>, u64)>,
    connections: usize,
    cpu: Duration,
    memory_bytes: u64,
}

/// Numbers of requests of a route since its meter was created.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Totals {
    buckets: Buckets,
    /// Requests that ended with a 5xx status.
    errors: u64,
}

/// Computes samples from readings.
#[derive(Default)]
pub(super) struct Sampler {
    previous: Option<(Duration, Reading)>,
}

impl Reading {
    /// Reads the counters of `service`.
    pub(super) fn of(service: &ServiceState) -> Self {
        let running = service.running_state.load();
        let meters = running.routes.iter().filter_map(|route| route.meter.as_ref());
        let loads = service.server.loads();
        Self {
            meters: meters.map(|meter| (meter.clone(), Totals::of(meter))).collect(),
            unrouted: Some((running.unrouted.clone(), running.unrouted.get())),
            connections: loads.iter().map(|load| load.connections).sum(),
            cpu: process_cpu_time(),
            memory_bytes: resident_bytes(),
        }
    }

    /// Returns the requests since `previous`, and the number of these requests without a route.
    fn since(&self, previous: &Self) -> (Totals, u64) {
        let mut sum = Totals::default();
        for (place, (meter, totals)) in self.meters.iter().enumerate() {
            let before = previous.totals_of(place, meter);
            sum.errors += totals.errors.saturating_sub(before.errors);
            add(&mut sum.buckets, &totals.buckets_since(&before));
        }
        let unrouted = self.unrouted.as_ref().map_or(0, |(counter, count)| {
            let same = previous.unrouted.as_ref().filter(|(before, _)| Arc::ptr_eq(before, counter));
            count.saturating_sub(same.map_or(0, |(_, count)| *count))
        });
        (sum, unrouted)
    }

    /// Returns the totals of `meter` in this reading. `place` is the probable index of the meter. A new meter
    /// starts at 0.
    fn totals_of(&self, place: usize, meter: &Arc<RouteMeter>) -> Totals {
        let is_same = |(other, _): &&(Arc<RouteMeter>, Totals)| Arc::ptr_eq(other, meter);
        let found = self.meters.get(place).filter(is_same).or_else(|| self.meters.iter().find(is_same));
        found.map(|(_, totals)| *totals).unwrap_or_default()
    }
}

impl Totals {
    fn of(meter: &RouteMeter) -> Self {
        let durations = meter.durations();
        let is_error = |status: u16| (500..600).contains(&status);
        let errors = durations
            .iter()
            .filter(|durations| durations.attributes.is_some_and(|of| is_error(of.status.as_u16())))
            .map(thruway_gateway::RequestDurations::count);
        Self { errors: errors.sum(), buckets: sum_of_buckets(&durations) }
    }

    fn buckets_since(&self, before: &Self) -> Buckets {
        std::array::from_fn(|place| self.buckets[place].saturating_sub(before.buckets[place]))
    }
}

impl Sampler {
    /// Returns the sample of the time between the previous reading and `reading`. Returns `None` for the
    /// first reading. `now` is the time of `reading`.
    pub(super) fn sample(&mut self, now: Duration, reading: Reading) -> Option<Sample> {
        let (before, previous) = self.previous.replace((now, reading))?;
        let (_, reading) = self.previous.as_ref()?;
        let elapsed = now.checked_sub(before).filter(|elapsed| !elapsed.is_zero())?;
        let (requests, unrouted) = reading.since(&previous);
        let count = requests.buckets.iter().sum::<u64>() + unrouted;
        let cpu = reading.cpu.saturating_sub(previous.cpu);
        Some(Sample {
            requests: per_second(count, elapsed),
            errors: per_second(requests.errors, elapsed),
            p50: percentile(&requests.buckets, &RouteMeter::BOUNDS, 500),
            p99: percentile(&requests.buckets, &RouteMeter::BOUNDS, 990),
            connections: saturated(reading.connections as u128),
            cpu_ms: saturated(cpu.as_micros() * 1_000 / elapsed.as_micros().max(1)),
            memory_kib: saturated(u128::from(reading.memory_bytes >> 10)),
        })
    }
}

/// Returns the rate of `count` events in the time `elapsed`, rounded to the nearest number.
fn per_second(count: u64, elapsed: Duration) -> u32 {
    let elapsed = elapsed.as_nanos();
    saturated((u128::from(count) * 1_000_000_000 + elapsed / 2) / elapsed)
}

fn saturated(value: u128) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns the memory of the process (resident set). Returns 0 on systems without `/proc`.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// Finds servers whose state has changed since the previous call, and adds these changes to the list.
#[derive(Default)]
pub(super) struct StateWatch(BTreeMap<(String, String), ServerState>);

impl StateWatch {
    /// Compares the states in `running` with the states of the previous call. `now` is the time of the
    /// changes. Does not add changes of admin states, because the admin listener adds them.
    pub(super) fn note_changes(&mut self, running: &RunningConfig, changes: &Changes, now: SystemTime) {
        let mut states = BTreeMap::new();
        for upstream in &running.upstreams {
            for (address, state, changed) in upstream.server_states() {
                let key = (upstream.name().to_owned(), address.to_string());
                if let Some(text) = self.change(&key, state, changed.map(|changed| changed.reason)) {
                    changes.add(now, ChangeKind::ServerState, text);
                }
                states.insert(key, state);
            }
        }
        self.0 = states;
    }

    fn change(&self, key: &(String, String), state: ServerState, reason: Option<String>) -> Option<String> {
        let before = self.0.get(key).filter(|before| **before != state)?;
        if is_set_by_operator(*before) || is_set_by_operator(state) {
            return None;
        }
        let (upstream, server) = key;
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("upstream {upstream}, server {server} is {}{reason}", state.as_str()))
    }
}

const fn is_set_by_operator(state: ServerState) -> bool {
    matches!(state, ServerState::Disabled | ServerState::Draining)
}

#[cfg(test)]
mod tests {
    use thruway_gateway::ServerAttributes;
    use thruway_net::{Clock, ManualTime};
    use thruway_server::{StatusCode, Version};

    use super::*;

    /// A service with two routes and virtual time.
    struct Scene {
        time: ManualTime,
        clock: Clock,
        meters: Vec<Arc<RouteMeter>>,
        reading: Reading,
        sampler: Sampler,
    }

    impl Scene {
        fn new() -> Self {
            let (time, meters) = (ManualTime::default(), vec![Arc::new(RouteMeter::new(1))]);
            let clock = Clock::manual(time.clone());
            Self { time, clock, meters, reading: Reading::default(), sampler: Sampler::default() }
        }

        fn record(&self, route: usize, status: u16, milliseconds: u64) {
            let status = StatusCode::new(status).unwrap();
            let version = Version::Http11;
            let attributes = ServerAttributes { method: "GET", is_https: false, version, status };
            self.meters[route].record(0, attributes, Duration::from_millis(milliseconds));
        }

        fn sample_after(&mut self, milliseconds: u64) -> Option<Sample> {
            self.time.advance(Duration::from_millis(milliseconds));
            let meters = self.meters.iter().map(|meter| (meter.clone(), Totals::of(meter)));
            let reading = Reading { meters: meters.collect(), ..self.reading.clone() };
            self.sampler.sample(self.clock.now_exact(), reading)
        }
    }

    #[test]
    fn sample_contains_only_the_requests_since_the_previous_reading() {
        let mut scene = Scene::new();
        scene.record(0, 200, 1);
        assert_eq!(scene.sample_after(1_000), None, "there is no previous reading");
        (0..98).for_each(|_| scene.record(0, 200, 1));
        (0..2).for_each(|_| scene.record(0, 503, 200));
        let sample = scene.sample_after(1_000).unwrap();
        assert_eq!((sample.requests, sample.errors), (100, 2));
        assert!(sample.p50.unwrap() <= Duration::from_millis(1));
        assert!(sample.p99.unwrap() > Duration::from_millis(100), "{:?}", sample.p99);
        let idle = scene.sample_after(1_000).unwrap();
        assert_eq!((idle.requests, idle.p50), (0, None));
    }

    #[test]
    fn late_sample_shows_the_rate_per_second() {
        let mut scene = Scene::new();
        scene.sample_after(0);
        (0..300).for_each(|_| scene.record(0, 200, 1));
        scene.reading.cpu = Duration::from_secs(3);
        let sample = scene.sample_after(1_500).unwrap();
        assert_eq!((sample.requests, sample.cpu_ms), (200, 2_000));
    }

    #[test]
    fn reload_that_replaces_a_route_does_not_lose_or_repeat_requests() {
        let mut scene = Scene::new();
        (0..5).for_each(|_| scene.record(0, 200, 1));
        scene.sample_after(1_000);
        // The reload puts a new route before the old route.
        scene.meters.insert(0, Arc::new(RouteMeter::new(1)));
        scene.record(0, 200, 1);
        scene.record(1, 200, 1);
        assert_eq!(scene.sample_after(1_000).unwrap().requests, 2);
        scene.meters.truncate(1);
        assert_eq!(scene.sample_after(1_000).unwrap().requests, 0, "the removed route does not count");
    }

    #[test]
    fn connections_and_memory_are_values_of_the_reading() {
        let mut scene = Scene::new();
        scene.sample_after(0);
        scene.reading = Reading { connections: 7, memory_bytes: 3 << 20, ..Reading::default() };
        let sample = scene.sample_after(1_000).unwrap();
        assert_eq!((sample.connections, sample.memory_kib), (7, 3 << 10));
    }
}
