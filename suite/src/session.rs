//! Measures the cases one after the other: starts the candidates, loads them in turn, and ends them.

use std::mem;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::Context as _;
use thruway_bench::compare::measure_in_turn;
use thruway_net::Clock;

use crate::case::{CLOSING_BACKEND, Case, ComparisonKind, LoadCondition, OUR_SDK, Peers, Role};
use crate::contender::{CandidateKind, Cell, Contender, Entry};
use crate::cores::{BatchTasks, CHRT, run_on};
use crate::figures::Metric;
use crate::found::Found;
use crate::generators::Generator;
use crate::plan::{Plan, PlannedCase};
use crate::process;
use crate::results::{CandidateResult, CaseResult, Omission};
use crate::server::{Server, ServerResources};

/// The servers, and the results so far.
pub(crate) struct Session<'a> {
    pub(crate) servers: &'a [Found],
    pub(crate) resources: ServerResources<'a>,
    /// The load generator for the servers; `None` is ours.
    pub(crate) load_with: Option<Generator>,
    pub(crate) results: Vec<CaseResult>,
    pub(crate) left_out: Vec<Omission>,
}

impl Session<'_> {
    /// Returns the cases of `all` that this machine can measure, each with the number of its candidates.
    pub(crate) fn feasible(&mut self, all: Vec<Case>) -> Vec<PlannedCase> {
        let mut feasible = Vec::new();
        for case in all {
            let candidates = self.entries(&case).len();
            match self.reason_to_skip(&case, candidates) {
                Some(because) => self.leave_out(&case.name, because),
                None => feasible.push(PlannedCase { case, candidates }),
            }
        }
        feasible
    }

    /// Measures the planned cases. Stops early when `limit` expires or a signal arrives.
    pub(crate) fn run(&mut self, plan: &Plan, limit: Duration) {
        let end = Clock::system().now_exact() + limit;
        for name in &plan.left_out {
            self.leave_out(name, "not enough time within `--limit`");
        }
        for (place, PlannedCase { case, .. }) in plan.cases.iter().enumerate() {
            if self.resources.runner.stop.is_set() {
                self.leave_out(&case.name, "the run was interrupted before this case");
            } else if is_over(end) {
                self.leave_out(&case.name, "`--limit` expired before this case");
            } else {
                eprintln!("{} of {}: {}", place + 1, plan.cases.len(), case.name);
                self.measure(case, plan, end);
            }
        }
    }

    /// Measures a case on the cores that its `circumstance` requires.
    fn measure(&mut self, case: &Case, plan: &Plan, end: Duration) {
        let apart = self.resources.cores;
        let (shared, one) = (apart.shared(), apart.one());
        let cores = match case.circumstance {
            LoadCondition::SharedCores => &shared,
            LoadCondition::OneCore => &one,
            LoadCondition::Usual | LoadCondition::Reloads | LoadCondition::IdleSessions => apart,
        };
        run_on(&cores.load);
        match self.measure_on(ServerResources { cores, ..self.resources }, case, plan, end) {
            Ok(result) => self.results.push(result),
            Err(error) => self.leave_out(&case.name, format!("{error:#}")),
        }
        run_on(&apart.load);
    }

    fn measure_on(
        &self,
        resources: ServerResources<'_>,
        case: &Case,
        plan: &Plan,
        end: Duration,
    ) -> anyhow::Result<CaseResult> {
        let _batch = case.takes_turns().then(BatchTasks::begin).transpose()?;
        let start = |name: &str, role| {
            let found = self.server(name).with_context(|| format!("`{name}` is missing"))?;
            Server::start(found, role, None, resources)
        };
        let mut backend = match case.between {
            ComparisonKind::Commands => Some(start(OURS, Role::Http)?),
            ComparisonKind::Gateways => Some(start(OURS, Role::Backend)?),
            ComparisonKind::GatewaysBeforeClosing => Some(start(CLOSING_BACKEND, Role::ClosingBackend)?),
            ComparisonKind::Federations => {
                Some(start(case.backend.as_deref().context("the case names no backend")?, Role::Member)?)
            }
            _ => None,
        };
        // All load generators use the same server.
        let is_shared = case.between == ComparisonKind::Generators;
        let mut shared = is_shared.then(|| start(OURS, case.role())).transpose()?;
        // The kernel reports the program of a process as a canonical path.
        let behind_bridges = self.server(OUR_SDK).and_then(|found| found.program.canonicalize().ok());
        let cell = Cell {
            case,
            duration: plan.duration_of(case),
            warm_up: Plan::warm_up_of(case),
            load_with: self.load_with,
            resources,
            backend: backend.as_ref(),
            shared: shared.as_ref(),
            behind_bridges: behind_bridges.as_deref(),
        };
        let mut contenders: Vec<_> =
            self.entries(case).into_iter().map(|entry| Contender::start(entry, cell)).collect();
        measure_in_turn(&mut contenders, plan.rounds, |contender, _| {
            if resources.runner.stop.is_set() || is_over(end) {
                return anyhow::Ok(ControlFlow::Break(()));
            }
            contender.measure(cell);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut candidates: Vec<_> = contenders.into_iter().map(Contender::into_result).collect();
        if let Some(direct) = &case.backend {
            add_added_p50(&mut candidates, direct);
        }
        // If a backend failed, all candidates have failed.
        let deaths = [&mut backend, &mut shared].map(|server| server.as_mut().and_then(Server::death));
        if let Some(death) = deaths.into_iter().flatten().next() {
            for candidate in &mut candidates {
                candidate.failure.get_or_insert_with(|| format!("{death:#}"));
            }
        }
        Ok(CaseResult { workload: case.workload, name: case.name.clone(), between: case.between, candidates })
    }

    /// Returns the candidates of a case, Thruway first.
    fn entries(&self, case: &Case) -> Vec<Entry> {
        let (Some(ours), role) = (self.server(&case.ours), case.role()) else { return Vec::new() };
        let entry = |name: &str, what| Entry { name: name.to_owned(), what };
        if case.between == ComparisonKind::PipeGenerators {
            let own = entry("thruway bench", CandidateKind::Server(ours.clone(), Role::Pipes));
            return vec![own, entry("hand-written loop", CandidateKind::HandWritten(ours.clone()))];
        }
        if case.between == ComparisonKind::Generators {
            let others = Generator::of(case).iter().filter(|generator| generator.is_installed());
            let own = entry("thruway bench", CandidateKind::Ours(None));
            let others =
                others.map(|generator| entry(generator.name(), CandidateKind::Ours(Some(*generator))));
            return [own].into_iter().chain(others).collect();
        }
        if case.circumstance == LoadCondition::Reloads {
            let left_alone = entry("thruway left alone", CandidateKind::Server(ours.clone(), role));
            return vec![entry(&ours.peer.name, CandidateKind::Reloaded(ours.clone())), left_alone];
        }
        let mut entries = vec![entry(&ours.peer.name, CandidateKind::Server(ours.clone(), role))];
        // Compares single requests over pipes with single requests over HTTP.
        if case.between == ComparisonKind::Pipes && case.peers == Peers::None {
            entries.push(entry("thruway over HTTP", CandidateKind::Server(ours.clone(), Role::Mcp)));
        }
        let peers = self.servers.iter().filter(|found| found.peer.takes_part(case));
        entries
            .extend(peers.map(|found| entry(&found.peer.name, CandidateKind::Server(found.clone(), role))));
        entries
    }

    fn server(&self, name: &str) -> Option<&Found> {
        self.servers.iter().find(|found| found.peer.name == name)
    }

    /// Returns the reason why this machine cannot measure a case.
    fn reason_to_skip(&self, case: &Case, candidates: usize) -> Option<String> {
        if let Some(generator) = self.load_with.filter(|generator| !generator.can_load(case)) {
            return Some(format!("`{}` does not support the case", generator.name()));
        }
        if case.takes_turns() && process::on_path(CHRT).is_err() {
            return Some(format!("`{CHRT}` is not on the `PATH`"));
        }
        let needed = process::descriptors_needed(case.connections);
        if let Some(limit) = process::descriptor_limit().filter(|limit| *limit < needed) {
            return Some(format!("the case needs {needed} descriptors, but the limit is {limit}"));
        }
        let backend = case.backend.as_deref();
        for name in [&case.ours, OUR_SDK, CLOSING_BACKEND].into_iter().chain(backend) {
            if case.needs(name) && self.server(name).is_none() {
                return Some(format!("`{name}` is missing"));
            }
        }
        (case.between == ComparisonKind::Generators && candidates < 2).then(|| {
            let names: Vec<_> = Generator::of(case).iter().map(|generator| generator.name()).collect();
            format!("`{}` is not on the `PATH`", names.join("` or `"))
        })
    }

    fn leave_out(&mut self, what: &str, because: impl Into<String>) {
        self.left_out.push(Omission { what: what.to_owned(), because: because.into() });
    }
}

/// Adds to the figures of each round the p50 minus the p50 of the candidate `direct` in the same round.
fn add_added_p50(candidates: &mut [CandidateResult], direct: &str) {
    let Some(base) = candidates.iter().find(|candidate| candidate.name == direct) else { return };
    let base: Vec<_> = base.rounds.iter().map(|figures| Metric::P50.of(figures)).collect();
    for candidate in candidates.iter_mut().filter(|candidate| candidate.name != direct) {
        for (figures, base) in candidate.rounds.iter_mut().zip(&base) {
            let added = Metric::P50.of(figures).zip(*base).map(|(p50, base)| p50 - base);
            *figures = mem::take(figures).with(Metric::AddedP50, added);
        }
    }
}

fn is_over(end: Duration) -> bool {
    Clock::system().now_exact() >= end
}

/// The program under test.
const OURS: &str = "thruway";
